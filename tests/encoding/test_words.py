"""Static word vectors that pip installs: what a text becomes, and runs that use them."""

import json
import sys
from importlib import metadata

import numpy as np
import pytest
from safetensors.numpy import load_file
from tests.conftest import FAST_TEXT, make_texts, write_csv

import surelabel
from surelabel.encoding.registry import find_backbone
from surelabel.encoding.words import open_words
from surelabel.errors import ConfigError, RunError


@pytest.fixture(scope="module")
def words():
    return open_words(find_backbone("wordllama"))


def test_a_text_is_the_mean_of_its_tokens_scaled_to_length_one(words):
    from tokenizers import Tokenizer

    text = "The rocket left for Mars."
    known = find_backbone("wordllama")
    ids = Tokenizer.from_file(str(known.find("tokenizer"))).encode(text, add_special_tokens=False).ids
    (vectors,) = load_file(known.find("weights")).values()
    expected = np.mean([vectors[number].astype(np.float32) for number in ids], axis=0)
    np.testing.assert_allclose(words([text])[0], expected / np.linalg.norm(expected), rtol=1e-5, atol=1e-6)


def test_blank_texts_are_zero_and_others_have_length_one(words):
    found = words(["", "moon", "x" * 50_000, "two words"])
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), [0, 1, 1, 1], atol=1e-5)


def test_a_text_is_the_same_beside_others(words):
    texts, _, _ = make_texts(300)
    np.testing.assert_array_equal(words(texts)[270:280], words(texts[270:280]))


def test_synonyms_are_near(words):
    film, movie, tax = words(["a great film", "a great movie", "income tax"])
    assert film @ movie > film @ tax + 0.3


def test_the_package_is_not_imported(words):
    assert words(["moon"]).any()
    assert "wordllama" not in sys.modules


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Write reviews.csv and a run on it as by default; return its folder."""
    folder = tmp_path_factory.mktemp("words")
    texts, given, clean = make_texts(120)
    write_csv(folder / "reviews.csv", {"review": texts, "label": given, "truth": clean})
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("SURELABEL_FEATURES")
        settings = {**FAST_TEXT, "train.epochs": 60, "data.clean_column": "truth"}
        surelabel.fit(str(folder / "reviews.csv"), folder / "run", settings=settings)
    return folder


def test_they_join_tfidf(run):
    experts = json.loads((run / "run" / "second_opinion.json").read_text())["experts"]
    assert {expert["features"] for expert in experts} == {"inputs", "pretrained"}


def test_the_run_says_which_were_taken(run):
    model = json.loads((run / "run" / "config.json").read_text())["model"]
    assert model["features"] == "wordllama"
    chosen = json.loads((run / "run" / "head.json").read_text())
    assert {candidate["train_on"] for candidate in chosen["candidates"]} == {"inputs", "features"}
    best = min(chosen["candidates"], key=lambda candidate: candidate["held_out_loss"])
    assert model["train_on"] == best["train_on"]
    kind = json.loads((run / "run" / "encoder.json").read_text())["kind"]
    assert kind == {"inputs": "tfidf", "features": "text_model"}[best["train_on"]]


def test_new_text_is_predicted_after_reload(run, done, tmp_path):
    texts, _, clean = make_texts(30, seed=1)
    assert np.mean(surelabel.load(run / "run").predict(texts) == clean) > 0.7
    write_csv(tmp_path / "new.csv", {"review": texts, "label": clean})
    done("predict", run / "run", tmp_path / "new.csv", "--out", tmp_path / "p.csv")
    audit = surelabel.audit(run / "run", data=str(tmp_path / "new.csv"))
    assert len(audit.p_wrong) == 30


@pytest.fixture(scope="module")
def named(tmp_path_factory):
    """Train on the words alone."""
    folder = tmp_path_factory.mktemp("named")
    texts, given, _ = make_texts(90)
    write_csv(folder / "t.csv", {"review": texts, "label": given})
    surelabel.fit(str(folder / "t.csv"), folder / "run", features="wordllama", settings=FAST_TEXT)
    return folder / "run"


class TestNamed:
    def test_networks_are_trained_on_them(self, named):
        content = json.loads((named / "encoder.json").read_text())
        assert (content["kind"], content["name"], content["num_features"]) == ("text_model", "wordllama", 256)
        assert content["checksum"] == find_backbone("wordllama").checksum
        weights = load_file(named / "model.safetensors")
        assert next(value.shape for name, value in weights.items() if name.endswith("classifier.weight"))[1] == 256

    def test_predictions_after_reload_are_bit_equal(self, named):
        texts = [*make_texts(30, seed=1)[0], ""]
        np.testing.assert_array_equal(
            surelabel.load(named).predict_proba(texts), surelabel.load(named).predict_proba(texts)
        )

    def test_other_weights_are_refused(self, named, monkeypatch):
        from surelabel.encoding import registry

        known = find_backbone("wordllama")
        other = known._replace(files={**known.files, "weights": (known.files["weights"][0], "0" * 64)})
        monkeypatch.setattr(registry, "BACKBONES", (other,))
        with pytest.raises(RunError, match="wordllama"):
            surelabel.load(named).predict(["never seen before"])

    def test_without_the_package_it_is_named(self, named, monkeypatch):
        from surelabel.encoding import text_models

        text_models._open.cache_clear()

        def files(name):
            raise metadata.PackageNotFoundError(name)

        monkeypatch.setattr(metadata, "files", files)
        with pytest.raises(ConfigError, match=r"wordllama: pip install 'surelabel\[words\]'"):
            surelabel.load(named).predict(["never seen before"])


@pytest.mark.parametrize("name", ["wordllama", "hf:some/model"])
def test_on_images_and_numbers_they_are_refused(blobs, call, tmp_path, name):
    for data in (blobs, "digits"):
        result = call("fit", data, "--features", name, "--out", tmp_path / "run")
        assert result.exit_code == 2
        assert f"{name} takes text, but the inputs of {data} are numbers or tiny images" in result.stderr
        assert not (tmp_path / "run").exists()


def test_images_are_refused_on_text(call, tmp_path):
    texts, given, _ = make_texts(30)
    source = write_csv(tmp_path / "t.csv", {"review": texts, "label": given})
    result = call("fit", source, "--features", "efficientnet_lite0", "--out", tmp_path / "run")
    assert result.exit_code == 2
    assert "efficientnet_lite0 takes images, but the inputs of" in result.stderr
    assert "are text" in result.stderr
