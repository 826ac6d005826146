"""The manifest: its description, and that it recognises its labels, seed and data."""

import hashlib
import json

import numpy as np
import pytest

from surelabel.config import NoiseConfig
from surelabel.errors import DataError
from surelabel.noise import Manifest, describe_differences, inject, read_manifest, restate, verify

CLEAN = np.repeat([0, 1, 2], [50, 100, 30])
NAMES = ("cat", "dog", "owl")
IDS = np.array([f"row {number}" for number in range(180)])
PAIR = NoiseConfig(kind="pair", rate=0.2)


@pytest.fixture
def drawn():
    return inject(CLEAN, NAMES, PAIR, 5, ids=IDS)


def test_the_description_is_one_line():
    clean = np.arange(1437) % 10
    _, manifest = inject(clean, list("0123456789"), NoiseConfig(kind="symmetric", rate=0.4), 0)
    assert manifest.describe() == (
        "symmetric noise, 40.0 % nominal (true class excluded, exact count): "
        "575 of 1437 labels are wrong (40.0 %), seed 0"
    )


def test_it_survives_json_and_recognises_its_labels(drawn):
    noisy, manifest = drawn
    again = Manifest.model_validate(json.loads(json.dumps(manifest.to_dict())))
    assert again == manifest
    verify(noisy, again)
    verify(noisy.astype(np.int32), again, clean=CLEAN, seed=5, ids=IDS, class_names=NAMES)
    assert manifest.labels_sha256 == hashlib.sha256(noisy.astype("<i8").tobytes()).hexdigest()
    assert manifest.clean_sha256 == hashlib.sha256(CLEAN.astype("<i8").tobytes()).hexdigest()
    assert manifest.ids_sha256 == hashlib.sha256("\0".join(IDS).encode()).hexdigest()
    assert (manifest.num_samples, manifest.class_names) == (180, NAMES)
    assert manifest.class_map == {"cat": "dog", "dog": "owl", "owl": "cat"}


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"labels": lambda y: y[::-1]}, "the labels differ"),
        ({"labels": lambda y: y[:-1]}, r"the labels differ; the data \(number of rows\): 179, expected 180"),
        ({"seed": 6}, "the seed: 6, expected 5"),
        ({"clean": CLEAN[::-1]}, r"the data \(clean labels\) differ"),
        ({"ids": IDS[::-1]}, r"the data \(ids or their order\) differ"),
        ({"class_names": NAMES[::-1]}, r"the data \(class names\) differ"),
        (
            {"labels": lambda y: y[::-1], "seed": 6, "clean": CLEAN[::-1]},
            r"the labels differ; the seed: 6, expected 5; the data \(clean labels\) differ",
        ),
    ],
)
def test_what_differs_is_named(drawn, changes, fault):
    noisy, manifest = drawn
    change = changes.pop("labels", lambda y: y)
    facts = {"clean": CLEAN, "seed": 5, "ids": IDS, "class_names": NAMES, **changes}
    with pytest.raises(DataError, match=f"^a.npy and the noise manifest do not belong together: {fault}$"):
        verify(change(noisy), manifest, **facts, where="a.npy")


def test_two_manifests_are_compared_by_the_fields_that_both_have(drawn):
    _, manifest = drawn
    without_ids = manifest.model_copy(update={"ids_sha256": None})
    assert describe_differences(manifest, without_ids) == ""
    other = inject(CLEAN, NAMES, PAIR, 6, ids=IDS)[1]
    assert describe_differences(manifest, other) == "the labels differ; the seed: 5, expected 6"


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"kind": "pair"}', "\x00"])
def test_a_file_that_is_not_a_manifest_is_refused(tmp_path, text):
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(DataError, match=r"a\.json: not .*a noise manifest") as caught:
        read_manifest(tmp_path / "a.json")
    assert "\n" not in str(caught.value)


def test_labels_set_by_hand_are_restated(drawn):
    noisy, manifest = drawn
    kept = noisy.copy()
    kept[:50] = CLEAN[:50]
    after = restate(manifest, CLEAN, kept, "50 confirmed labels kept")
    assert after.realised_matrix == ((1, 0, 0), (0, 0.8, 0.2), (0.2, 0, 0.8))
    assert after.num_changed == 26
    assert after.convention == "each class to the next, exact count per class; 50 confirmed labels kept"
    verify(kept, after, clean=CLEAN, seed=5, ids=IDS)


def test_a_class_without_samples_has_a_row_of_zeros():
    _, manifest = inject(np.array([0, 1]), NAMES, NoiseConfig(kind="symmetric", rate=0.0), 0)
    assert manifest.realised_matrix == ((1, 0, 0), (0, 1, 0), (0, 0, 0))


def test_no_rows_at_all():
    for config in (PAIR, NoiseConfig(kind="symmetric", rate=0.4, mode="bernoulli")):
        noisy, manifest = inject(np.array([], dtype=int), NAMES, config, 0)
        assert (len(noisy), manifest.realised_rate, manifest.expected_rate) == (0, 0, 0)


def test_ids_that_do_not_fit_the_labels_are_refused():
    with pytest.raises(DataError, match="179 ids for 180 labels"):
        inject(CLEAN, NAMES, PAIR, 0, ids=IDS[1:])
