"""Training on Python objects: fit, resume, and how a configuration describes them."""

import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest
import torch
from torch.utils.data import TensorDataset

import surelabel
from surelabel.api import make_config
from surelabel.config import DataConfig
from surelabel.data import load_corpus
from surelabel.engine.loop import Interrupted
from surelabel.errors import ConfigError, DataError, RunError
from surelabel.runs.run_dir import RunDir

RNG = np.random.default_rng(0)
Y = np.arange(40) % 2
X = (RNG.normal(size=(40, 3)) + 4 * Y[:, None]).astype(np.float32)
QUICK = {"train.epochs": 2, "train.batch_size": 8, "method": "cross_entropy", "train.device": "cpu"}


class TestConfiguration:
    @pytest.mark.parametrize(
        ("data", "name"),
        [
            ((X, Y), "<arrays>"),
            ({"x": X, "y": Y}, "<arrays>"),
            (pa.table({"a": [1.0], "label": ["x"]}), "<frame>"),
            (TensorDataset(torch.eye(2)), "<dataset TensorDataset>"),
            ({"train": (X, Y), "test": (X, Y)}, "<arrays>"),
        ],
    )
    def test_an_object_has_a_placeholder(self, data, name):
        assert make_config(data).data.source == name

    def test_a_mapping_with_data_is_a_configuration(self):
        config = make_config({"data": {"source": "digits"}, "train": {"epochs": 3}})
        assert (config.data.source, config.train.epochs) == ("digits", 3)

    @pytest.mark.parametrize("data", [{"epochs": 3}, {}, {"train": {"epochs": 3}}, 7, [X, Y], None, X])
    def test_anything_else_is_an_error_that_says_what_is_possible(self, data):
        with pytest.raises(ConfigError, match=r"arrays as \(x, y\).* or a configuration such as \{'data'") as caught:
            make_config(data)
        assert "\n" not in str(caught.value)

    def test_without_the_object_there_is_no_data(self):
        with pytest.raises(
            DataError,
            match=r"<arrays>: .* Python object, .*: surelabel\.resume\(run, data=",
        ):
            load_corpus(DataConfig(source="<arrays>"))


class TestParts:
    def test_any_kind_has_train_and_test_by_name(self):
        data = {"train": TensorDataset(*map(torch.as_tensor, (X, Y))), "test": (X[:5], Y[:5])}
        corpus = load_corpus(DataConfig(source="<dataset>"), data)
        assert len(corpus.train) == 40
        assert corpus.tests["test"].ids.tolist() == [f"test/{row}" for row in range(5)]

    def test_an_object_can_have_a_test_file(self, tmp_path):
        np.savez(tmp_path / "t.npz", x=X[:5], y=Y[:5])
        corpus = load_corpus(DataConfig(source="<arrays>", test=str(tmp_path / "t.npz")), (X, Y))
        assert len(corpus.tests["test"]) == 5


class TestFit:
    def test_arrays_are_trained_on_and_audited(self, tmp_path):
        run = surelabel.fit((X, Y, X, Y), tmp_path / "run", settings=QUICK)
        assert run.config().data.source == "<arrays>"
        assert run.data()["tests"] == {"test": 40}
        assert len(surelabel.audit(run)) == 40

    def test_settings_reach_the_source(self, tmp_path):
        frame = pa.table({"a": X[:, 0], "b": X[:, 1], "kind": Y, "key": [f"k{row}" for row in range(40)]})
        run = surelabel.fit(
            frame, tmp_path / "run", settings=QUICK | {"data.label_column": "kind", "data.id_column": "key"}
        )
        assert run.labels()["id"].to_pylist()[:2] == ["k0", "k1"]

    def interrupted(self, path):
        steps = iter(range(100))
        with pytest.raises(Interrupted):
            surelabel.fit((X, Y), path, settings=QUICK, interrupt=lambda: next(steps) >= 7)

    def test_a_run_is_resumed_with_the_same_object(self, tmp_path):
        self.interrupted(tmp_path / "run")
        assert surelabel.resume(tmp_path / "run", data=(X, Y)).is_done
        whole = surelabel.fit((X, Y), tmp_path / "whole", settings=QUICK)
        assert RunDir.open(tmp_path / "run").samples().equals(whole.samples())

    def test_it_is_not_resumed_without_it_or_with_another(self, tmp_path):
        self.interrupted(tmp_path / "run")
        with pytest.raises(DataError, match=r"<arrays>: .* Python object, .*: surelabel\.resume\(run, data="):
            surelabel.resume(tmp_path / "run")
        with pytest.raises(RunError, match="the data have changed since this run began"):
            surelabel.resume(tmp_path / "run", data=(X + 1, Y))


SCRIPT = """
import numpy as np, surelabel
y = np.arange(40) % 2
x = np.random.default_rng(0).normal(size=(40, 3)) + 4 * y[:, None]
settings = {"train.epochs": 2, "train.batch_size": 8, "train.devices": 2, "train.device": "cpu", "model.norm": "none"}
surelabel.fit((x, y), "run", settings=settings | {"method": "cross_entropy"})
"""


@pytest.mark.training
def test_each_of_two_processes_makes_the_object(tmp_path):
    (tmp_path / "train.py").write_text(SCRIPT)
    subprocess.run([sys.executable, "train.py"], cwd=tmp_path, check=True, timeout=240)
    run = RunDir.open(tmp_path / "run")
    assert run.is_done
    assert run.data()["num_train"] == 40
