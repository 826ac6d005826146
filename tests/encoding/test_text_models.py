"""Text encoded by a transformer that the test makes itself, with random weights."""

import importlib.util
import json
import shutil

import numpy as np
import pytest
import torch
from tests.conftest import FAST_TEXT, FILLERS, TOPICS, make_texts, write_csv

from surelabel import api
from surelabel.core.torchvision_import import import_torchvision
from surelabel.data.cells import Cells
from surelabel.encoding import text_models
from surelabel.encoding.features import features_of
from surelabel.encoding.text_models import TextModelEncoder
from surelabel.errors import ConfigError, RunError


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """Write a BERT with two small layers and a vocabulary of the words of the tests."""
    transformers = pytest.importorskip("transformers")
    import_torchvision()
    folder = tmp_path_factory.mktemp("models") / "tiny"
    folder.mkdir()
    words = [
        "[PAD]",
        "[UNK]",
        "[CLS]",
        "[SEP]",
        "[MASK]",
        *FILLERS,
        *(word for topic in TOPICS.values() for word in topic),
    ]
    (folder / "vocab.txt").write_text("\n".join(words) + "\n")
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=len(words),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=64,
    )
    transformers.BertModel(config).save_pretrained(folder)
    transformers.BertTokenizer(vocab=str(folder / "vocab.txt")).save_pretrained(folder)
    text_models._open.cache_clear()
    return folder


@pytest.fixture(scope="module")
def run(tiny, tmp_path_factory):
    folder = tmp_path_factory.mktemp("transformer")
    texts, given, clean = make_texts(90)
    write_csv(folder / "t.csv", {"review": texts, "label": given, "truth": clean})
    settings = {**FAST_TEXT, "model.features": f"hf:{tiny}", "data.clean_column": "truth"}
    api.fit(str(folder / "t.csv"), folder / "run", settings=settings)
    return folder


def encoded(name, texts):
    """Return texts whose features come from a model."""
    return Cells.of_texts(texts).with_encoder(TextModelEncoder.make(name, ""))


def test_features_are_the_mean_of_the_last_layer(tiny):
    from transformers import AutoModel, AutoTokenizer

    texts = ["goal team", "bank", "rocket orbit moon launch"]
    cells = encoded(f"hf:{tiny}", texts)
    model, tokenizer = AutoModel.from_pretrained(tiny).eval(), AutoTokenizer.from_pretrained(tiny)
    with torch.no_grad():
        expected = [model(**tokenizer(text, return_tensors="pt")).last_hidden_state[0].mean(0) for text in texts]
    assert torch.allclose(cells.features(), torch.stack(expected), atol=1e-4)
    assert torch.allclose(cells[torch.tensor([2])][0], cells.features()[2], atol=1e-5)


def test_long_and_blank_texts_have_features(tiny):
    texts = ["goal " * 1000, "", "bank", "moon"]
    assert torch.isfinite(encoded(f"hf:{tiny}", texts).features()).all()


def test_a_run_keeps_the_name_and_predicts_new_text(run, tiny, done, tmp_path):
    content = json.loads((run / "run" / "encoder.json").read_text())
    assert (content["kind"], content["name"], content["num_features"]) == ("text_model", f"hf:{tiny}", 32)
    model = api.RunDir(run / "run").config().model
    assert (model.features, model.train_on) == (f"hf:{tiny}", "features")
    texts, _, clean = make_texts(30, seed=1)
    write_csv(tmp_path / "new.csv", {"review": texts})
    done("predict", run / "run", tmp_path / "new.csv", "--out", tmp_path / "p.csv")
    assert np.mean(api.load(run / "run").predict(texts) == clean) > 0.7


def test_the_report_shows_the_text_without_marks(run, done, tmp_path):
    done("report", run / "run", "--out", tmp_path / "r.html")
    page = (tmp_path / "r.html").read_text()
    assert '<p class="text">' in page
    assert "<mark" not in page


def test_features_are_computed_once(tiny, monkeypatch):
    texts, _, _ = make_texts(30, seed=7)
    (first,) = features_of([encoded(f"hf:{tiny}", texts)])
    again = encoded(f"hf:{tiny}", texts[::-1])
    monkeypatch.setattr(TextModelEncoder, "encode", lambda *_: pytest.fail("encoded again"))
    assert torch.equal(features_of([again])[0], first.flip(0))


def test_other_weights_in_the_same_place_are_noticed(run, tiny):
    from transformers import AutoModel

    shutil.copytree(tiny, tiny.parent / "kept")
    try:
        torch.manual_seed(1)
        model = AutoModel.from_pretrained(tiny)
        AutoModel.from_config(model.config).save_pretrained(tiny)
        text_models._open.cache_clear()
        with pytest.raises(RunError, match="not the model that this run was trained with"):
            api.load(run / "run").predict(["never seen before"])
    finally:
        shutil.rmtree(tiny)
        (tiny.parent / "kept").rename(tiny)
        text_models._open.cache_clear()


def test_a_model_that_is_not_there_is_named(call, tmp_path):
    pytest.importorskip("transformers")
    write_csv(tmp_path / "t.csv", {"text": make_texts(12)[0], "label": ["a", "b"] * 6})
    result = call("fit", tmp_path / "t.csv", "--features", "hf:nobody/nothing", "--out", tmp_path / "run")
    assert result.exit_code == 2
    assert "--features: hf:nobody/nothing is neither a folder" in result.stderr
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(("name", "package"), [("hf:a", "transformers"), ("sentence:a", "sentence_transformers")])
def test_without_the_package(monkeypatch, name, package):
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == package else found(name))
    with pytest.raises(ConfigError, match=rf"{name} needs the package {package}.*surelabel\[text\]"):
        TextModelEncoder.make(name, "")


def test_weights_that_are_pickles_are_not_read(tiny, tmp_path):
    shutil.copytree(tiny, tmp_path / "pickled")
    (tmp_path / "pickled" / "model.safetensors").unlink()
    torch.save({}, tmp_path / "pickled" / "pytorch_model.bin")
    with pytest.raises(ConfigError, match="safetensors"):
        TextModelEncoder.make(f"hf:{tmp_path / 'pickled'}", "")


@pytest.mark.parametrize(
    "change", [{"name": "os.system"}, {"name": "hf:"}, {"num_features": 31}, {"num_features": 10**12}, {"probe": []}]
)
def test_an_encoder_from_a_stranger(run, change, refuses_encoder):
    refuses_encoder(run / "run", change)


def test_sentence_transformers(tiny, tmp_path):
    sentence = pytest.importorskip("sentence_transformers")
    whole = sentence.SentenceTransformer(str(tiny), device="cpu")
    whole.save(str(tmp_path / "st"))
    texts = ["goal team", "bank", "moon", "tax"]
    assert encoded(f"sentence:{tmp_path / 'st'}", texts).features().numpy() == pytest.approx(
        whole.encode(texts), abs=1e-4
    )
