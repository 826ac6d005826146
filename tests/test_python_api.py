"""The Python interface as a person types it: keywords, and what a prompt or a notebook shows."""

import inspect

import numpy as np
import pytest

import surelabel
from surelabel import api
from surelabel.cli.flags import FIELDS
from surelabel.cli.options import configuration
from surelabel.errors import ConfigError
from surelabel.runs.run_dir import RunDir

QUICK = {"model": "mlp", "threads": 1, "device": "cpu", "epochs": 2}
TINY = {"model.widths": [8], "train.second_opinion": False}
HOSTILE = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def rows():
    """Return inputs and labels of two classes, one of which has a hostile name."""
    rng = np.random.default_rng(0)
    number = np.arange(40) % 2
    return rng.normal(size=(40, 4)) + 3 * number[:, None], np.array(["plain", HOSTILE])[number]


@pytest.fixture(scope="module")
def run(rows, tmp_path_factory):
    return surelabel.fit(rows, tmp_path_factory.mktemp("python") / "run", **QUICK, settings=TINY)


class TestKeywords:
    def test_they_are_settings(self, blobs, tmp_path):
        common = {"method": "gce", "batch_size": 16, "rate": 0.01, "seed": 3, "noise": "pair:0.25", "test": blobs}
        config = surelabel.fit(blobs, tmp_path / "run", **QUICK, **common, settings=TINY).config()
        assert (config.method.name, config.model.name, config.train.epochs) == ("gce", "mlp", 2)
        assert (config.train.batch_size, config.optimiser.rate, config.train.seed) == (16, 0.01, 3)
        assert (config.noise.kind, config.noise.rate, config.data.test) == ("pair", 0.25, str(blobs))

    def test_settings_override_them_and_none_keeps_a_default(self, blobs, tmp_path):
        run = surelabel.fit(blobs, tmp_path / "run", **QUICK, seed=None, settings={**TINY, "train.epochs": 1})
        assert run.config().train.epochs == 1
        assert run.config().train.seed == 0

    def test_each_is_an_option_of_the_command_and_a_setting(self):
        assert set(api.COMMON) <= set(inspect.signature(configuration).parameters)
        known = dict(surelabel.overrides.dotted(api.make_config("digits").model_dump()))
        nested = {"method", "model", "noise"}
        single = {name: field for name, field in api.COMMON.items() if field not in nested}
        assert set(single.values()) <= set(known)
        assert {FIELDS[f"--{name.replace('_', '-')}"] for name in single} == set(single.values())

    def test_a_recipe_sets_several_and_the_others_override_it(self, tmp_path):
        rng = np.random.default_rng(0)
        data = (rng.integers(0, 256, (24, 3, 20, 20), dtype=np.uint8), np.arange(24) % 3)
        run = surelabel.fit(data, tmp_path / "run", recipe="fast", epochs=2, batch_size=8, method="cross_entropy")
        config = run.config()
        assert (config.train.epochs, config.train.batch_size, config.train.crop_padding) == (2, 8, 2)
        assert (config.model.name, config.model.options, config.model.mirror) == ("fast_cnn", {"whiten": True}, True)
        assert (config.train.flip, config.optimiser.bias_rate) == ("alternate", 16)
        assert surelabel.load(run).predict_proba(data[0]).shape == (24, 3)

    def test_an_unknown_recipe_is_refused(self, tmp_path):
        with pytest.raises(ConfigError, match="recipe: there is no 'fats'; did you mean fast"):
            surelabel.fit("digits", tmp_path / "run", recipe="fats")

    @pytest.mark.parametrize(
        ("keyword", "parts"),
        [
            ("epoch", ["'epoch'", "did you mean epochs?", "batch_size"]),
            ("batchsize", ["did you mean batch_size?"]),
            ("penalty_weight", ["'penalty_weight'", 'settings={"method.penalty_weight"']),
        ],
    )
    def test_an_unknown_one_is_refused_in_one_line(self, tmp_path, keyword, parts):
        with pytest.raises(ConfigError) as error:
            surelabel.fit("digits", tmp_path / "run", **{keyword: 3})
        assert "\n" not in str(error.value)
        for part in parts:
            assert part in str(error.value)
        assert not (tmp_path / "run").exists()

    def test_a_wrong_value_is_named(self, tmp_path):
        with pytest.raises(ConfigError, match=r"train.epochs.*got 0"):
            surelabel.fit("digits", tmp_path / "run", epochs=0)


class TestWarmStart:
    """Training again takes as long as the first time, unless told otherwise."""

    @pytest.fixture
    def first(self, blobs, tmp_path):
        return surelabel.fit(blobs, tmp_path / "first", **{**QUICK, "epochs": 3}, settings=TINY)

    def test_in_python(self, first, blobs, tmp_path):
        common = {**QUICK, "warm_start": first.path, "epochs": None}
        assert len(surelabel.fit(blobs, tmp_path / "second", **common, settings=TINY).metrics()) == 3
        common["epochs"] = 1
        assert len(surelabel.fit(blobs, tmp_path / "third", **common, settings=TINY).metrics()) == 1

    def test_on_the_command_line(self, first, blobs, tmp_path, call):
        options = ["--model", "mlp", "--set", "model.widths=[8]", "--threads", 1, "--set", "train.second_opinion=false"]
        command = ["fit", blobs, *options, "--warm-start", first.path]
        result = call(*command, "--out", tmp_path / "second")
        assert result.exit_code == 0, result.stderr
        assert "3 epochs, as" in result.stderr
        assert len(RunDir(tmp_path / "second").metrics()) == 3
        assert call(*command, "--out", tmp_path / "third", "--epochs", 1).exit_code == 0
        assert len(RunDir(tmp_path / "third").metrics()) == 1
        wrong = call("fit", blobs, "--warm-start", tmp_path / "nowhere")
        assert wrong.exit_code == 2
        assert "nowhere: not a run directory" in wrong.stderr


class TestShown:
    def test_run(self, run, tmp_path):
        assert repr(run) == f"RunDir('{run.path}'): car, <arrays>, 40 training rows, 2 epochs, finished"
        assert repr(RunDir(tmp_path / "new")) == f"RunDir('{tmp_path / 'new'}'): no run yet"
        assert "<td>car</td>" in run._repr_html_()
        assert "<td>&lt;arrays&gt;</td>" in run._repr_html_()

    def test_a_damaged_run_still_has_a_text(self, tmp_path):
        for name, content in {"data.json": "{}", "config.json": "nonsense"}.items():
            (tmp_path / name).write_text(content)
        assert "not readable: " in repr(RunDir(tmp_path))
        assert "not readable: " in RunDir(tmp_path)._repr_html_()

    def test_audit(self, run):
        found = surelabel.audit(run)
        assert repr(found).startswith(f"Audit of 40 labels: {found.num_suspicious} look wrong. ")
        assert found.sentences()[0] in repr(found)
        page = found._repr_html_()
        assert page.count("<tr>") == 11
        assert HOSTILE not in page
        assert "&lt;script&gt;" in page

    def test_estimator(self, rows):
        classifier = surelabel.NoisyLabelClassifier(epochs=2, model="mlp", device="cpu", threads=1, settings=TINY)
        assert repr(classifier).startswith("NoisyLabelClassifier(")
        assert "Audit" not in repr(classifier)
        assert "Audit of" not in classifier._repr_html_()
        x, y = rows
        classifier.fit(x, y)
        assert "fitted. Audit of 40 labels: " in repr(classifier)
        for page in (classifier._repr_html_(), classifier._repr_mimebundle_()["text/html"]):
            assert "Audit of 40 labels: " in page
            assert HOSTILE not in page

    def test_p_wrong_is_in_the_order_of_x(self, rows):
        x, y = rows
        y = y.copy()
        y[7] = y[8]  # wrong
        classifier = surelabel.NoisyLabelClassifier(epochs=20, model="mlp", device="cpu", threads=1).fit(x, y)
        assert classifier.p_wrong_.shape == (40,)
        assert classifier.p_wrong_.argmax() == 7
        ranked = classifier.audit_.columns["id"].astype(int)
        assert (classifier.p_wrong_[ranked] == classifier.audit_.columns["p_wrong"]).all()
        assert (classifier.p_wrong_ == classifier.audit_.p_wrong).all()
