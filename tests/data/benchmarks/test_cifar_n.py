import numpy as np
import pytest
import torch

from surelabel.errors import ConfigError, DataError

ANY = {"verify": False}
ORDER = [0, 7, 4, 1, 8, 5, 2, 9, 6, 3]


def labels_of(true, **changes):
    """Make a label file in which annotation n has a wrong label in row n."""
    content = {"clean_label": np.array(true)}
    for position, key in enumerate(("aggre", "worse", "random1", "random2", "random3")):
        name = f"random_label{key[-1]}" if key.startswith("random") else f"{key}_label"
        content[name] = np.array([(label + (row == position)) % 10 for row, label in enumerate(true)])
    return {**content, **changes}


@pytest.fixture
def root(tmp_path, cifar10):
    cifar10.batches(tmp_path / "cifar-10-batches-py")
    torch.save(labels_of(ORDER), tmp_path / "CIFAR-10_human.pt")
    return tmp_path


@pytest.mark.parametrize(
    ("annotation", "wrong"),
    [("aggre", 0), ("worse", 1), ("worst", 1), ("random1", 2), ("random2", 3), ("random3", 4), (None, 2)],
)
def test_each_annotation_is_the_given_label(root, load, annotation, wrong):
    corpus = load("cifar10n", root, {**ANY, "annotation": annotation})
    assert (corpus.train.label != corpus.train.clean).nonzero().flatten().tolist() == [wrong]
    assert corpus.train.clean.tolist() == ORDER
    assert corpus.train.ids[0] == "train/00000"
    assert corpus.tests["test"].label.tolist() == corpus.tests["test"].clean.tolist() == [0, 1, 2, 3]


def test_images_may_be_in_any_layout_with_the_original_order(tmp_path, load, cifar10):
    cifar10.parquet(tmp_path / "root")
    torch.save(labels_of(ORDER), tmp_path / "elsewhere.pt")
    options = {**ANY, "labels_file": str(tmp_path / "elsewhere.pt"), "annotation": "worse"}
    assert load("cifar10n", tmp_path / "root", options).train.label[1] == 8


def test_label_files_may_contain_lists_and_arrays(tmp_path, load, cifar100):
    cifar100.batches(tmp_path / "cifar-100-python")
    true = cifar100.labels["train"]
    noisy = np.array([99, *true[1:]])
    coarse = cifar100.coarse["train"]
    content = {
        "clean_label": np.array(true),
        "noisy_label": noisy,
        "clean_coarse_label": coarse,
        "noisy_coarse_label": coarse,
    }
    torch.save(content, tmp_path / "CIFAR-100_human.pt")
    corpus = load("cifar100n", tmp_path, ANY)
    assert corpus.train.label.tolist() == noisy.tolist()
    assert corpus.train.clean.tolist() == true
    with pytest.raises(ConfigError, match=r"data\.options\.annotation: there is no 'worse'; available: noisy"):
        load("cifar100n", tmp_path, {**ANY, "annotation": "worse"})


def test_labels_in_another_order_are_refused(root, load):
    # Two rows are swapped: the class counts agree, the rows do not.
    swapped = [ORDER[1], ORDER[0], *ORDER[2:]]
    torch.save(labels_of(swapped), root / "CIFAR-10_human.pt")
    message = r"clean_label .* 2 of 10 rows.* row 0 is airplane .* horse .*order"
    with pytest.raises(DataError, match=message):
        load("cifar10n", root, ANY)


def test_class_folders_are_refused_for_their_order(tmp_path, load, cifar10):
    cifar10.pictures(tmp_path)
    torch.save(labels_of(ORDER), tmp_path / "CIFAR-10_human.pt")
    with pytest.raises(DataError, match="the order differs"):
        load("cifar10n", tmp_path, ANY)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (labels_of(ORDER[:9]), "labels for 9 images, but the data have 10"),
        (labels_of(ORDER, random_label1=np.array([10] * 10)), r"random_label1 of row 0 is 10; expected 0\.\.9"),
        (
            labels_of(ORDER, random_label1=np.array([0.5] * 10)),
            r"random_label1 is float64 \(10,\); expected whole numbers",
        ),
        ({"clean_label": np.array(ORDER)}, "does not contain random_label1; available: clean_label"),
    ],
)
def test_invalid_label_files_are_named(root, load, content, message):
    torch.save(content, root / "CIFAR-10_human.pt")
    with pytest.raises(DataError, match=rf"CIFAR-10_human\.pt: {message}"):
        load("cifar10n", root, ANY)


def test_a_missing_label_file_is_named(tmp_path, load, cifar10):
    cifar10.batches(tmp_path / "cifar-10-batches-py")
    with pytest.raises(
        DataError, match=r"lacks CIFAR-10_human\.pt; expected .* the labels from https://github.com/UCSC-REAL"
    ):
        load("cifar10n", tmp_path, ANY)


def test_the_published_checksum_is_verified(tmp_path, load, cifar10):
    cifar10.parquet(tmp_path)
    torch.save(labels_of(ORDER), tmp_path / "CIFAR-10_human.pt")
    with pytest.raises(
        DataError, match=r"CIFAR-10_human\.pt: not the published file: .*expected 96644db5574813cae939af5f7f2a0aec"
    ):
        load("cifar10n", tmp_path)


def test_a_label_column_is_refused_in_favour_of_the_annotation(root, load):
    with pytest.raises(ConfigError, match=r"data\.label_column: not for cifar10n; .*data\.options\.annotation"):
        load("cifar10n", root, ANY, label_column="label")
