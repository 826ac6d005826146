"""Weights from files: what is read, what is refused, and the messages."""

import pickle

import pytest
import torch
from safetensors.torch import save_file
from torch import nn
from torch.torch_version import TorchVersion

from surelabel.errors import ConfigError
from surelabel.models import make_backbone, start_from
from surelabel.models.weights import load_weights, read_weights


class Small(nn.Module):
    """A backbone with other names for its layers in files."""

    num_features = 3
    file_names = ((r"conv\.", "first."),)
    classifier_names = ("head",)

    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(3, 4, 3)
        self.norm = nn.BatchNorm2d(4)


STATE = {
    "conv.weight": torch.randn(4, 3, 3, 3),
    "conv.bias": torch.randn(4),
    "norm.weight": torch.randn(4),
    "norm.bias": torch.randn(4),
    "norm.running_mean": torch.randn(4),
    "norm.running_var": torch.rand(4),
    "norm.num_batches_tracked": torch.tensor(3),
}


def error(call, *args):
    with pytest.raises(ConfigError) as caught:
        call(*args)
    assert "\n" not in str(caught.value)
    return str(caught.value)


class TestReading:
    @pytest.mark.parametrize("name", ["a.pth", "a.pt", "a.bin", "a.safetensors"])
    def test_files(self, tmp_path, name):
        file = tmp_path / name
        if file.suffix == ".safetensors":
            save_file(STATE, file)
        else:
            torch.save(STATE, file)
        state = read_weights(file)
        assert {key: torch.equal(value, STATE[key]) for key, value in state.items()} == dict.fromkeys(STATE, True)

    @pytest.mark.parametrize("key", ["state_dict", "model"])
    def test_weights_nested_in_a_checkpoint(self, tmp_path, key):
        torch.save({"epoch": 3, key: {f"module.{name}": value for name, value in STATE.items()}}, tmp_path / "a.pth")
        assert set(read_weights(tmp_path / "a.pth")) == set(STATE)

    def test_a_missing_file(self, tmp_path):
        text = error(read_weights, tmp_path / "a.pth")
        assert "a.pth: no such file; expected a .safetensors or .pth file, or pretrained" in text

    @pytest.mark.parametrize("name", ["a.pth", "a.safetensors"])
    def test_a_file_without_weights(self, tmp_path, name):
        (tmp_path / name).write_bytes(b"not weights at all")
        assert f"{name}: not readable as weights: " in error(read_weights, tmp_path / name)

    def test_nothing_is_executed(self, tmp_path):
        class Evil:
            def __reduce__(self):
                return (tmp_path / "executed").write_text, ("yes",)

        (tmp_path / "a.pth").write_bytes(pickle.dumps({"conv.weight": Evil()}, protocol=2))
        torch.save({"conv.weight": Evil()}, tmp_path / "b.pth")
        (tmp_path / "executed").unlink(missing_ok=True)
        for name in ("a.pth", "b.pth"):
            assert "not readable as weights" in error(read_weights, tmp_path / name)
        assert not (tmp_path / "executed").exists()

    @pytest.mark.parametrize(("version", "is_read"), [("2.5.1", False), ("2.9.1+cpu", False), ("2.10.0", True)])
    def test_versions_with_a_hole_read_no_pickles(self, tmp_path, monkeypatch, version, is_read):
        torch.save(STATE, tmp_path / "a.pth")
        save_file(STATE, tmp_path / "a.safetensors")
        monkeypatch.setattr(torch, "__version__", TorchVersion(version))
        assert set(read_weights(tmp_path / "a.safetensors")) == set(STATE)
        if is_read:
            assert set(read_weights(tmp_path / "a.pth")) == set(STATE)
        else:
            text = error(read_weights, tmp_path / "a.pth")
            assert f"PyTorch {version} may run code" in text
            assert "PyTorch 2.10 or a .safetensors file" in text

    @pytest.mark.parametrize(("content", "text"), [([1, 2], "got list"), ({"a": 1}, "contains no tensors")])
    def test_content_that_is_not_a_state_dict(self, tmp_path, content, text):
        torch.save(content, tmp_path / "a.pth")
        assert text in error(read_weights, tmp_path / "a.pth")


class TestLoading:
    def test_names_of_the_file(self):
        network = Small()
        assert load_weights(network, STATE, "file") is None
        assert torch.equal(network.first.weight, STATE["conv.weight"])
        assert torch.equal(network.norm.running_mean, STATE["norm.running_mean"])

    def test_names_of_the_backbone(self):
        network, other = Small(), Small()
        load_weights(network, other.state_dict(), "file")
        assert torch.equal(network.first.weight, other.first.weight)

    def test_the_classifier_is_left_out_and_named(self):
        note = load_weights(Small(), STATE | {"head.weight": torch.ones(2, 4), "head.bias": torch.ones(2)}, "file")
        assert note == "file: its classifier is not used (head.bias, head.weight)"

    def test_a_file_without_the_counters_of_batch_norm(self):
        state = {name: value for name, value in STATE.items() if "num_batches" not in name}
        assert load_weights(Small(), state, "file") is None

    def test_every_other_mismatch_is_named(self):
        state = {name: value for name, value in STATE.items() if name != "norm.bias"}
        state |= {"more": torch.ones(1), "norm.weight": torch.ones(5)}
        before = Small()
        kept = {name: value.clone() for name, value in before.state_dict().items()}
        text = error(load_weights, before, state, "file")
        assert text == (
            "model.weights: file: does not fit the network: 1 missing: norm.bias; 1 unknown: more; "
            "1 of another shape: norm.weight (5,) instead of (4,)"
        )
        assert all(torch.equal(value, kept[name]) for name, value in before.state_dict().items())

    def test_long_lists_are_cut(self):
        assert "6 missing: first.weight, first.bias, norm.weight, ..." in error(load_weights, Small(), {}, "file")


def test_a_network_without_published_weights():
    for network in (make_backbone("resnet18", (3, 32, 32)), make_backbone("mlp", (4,))):
        text = error(start_from, network, "pretrained")
        assert "this network has no pretrained weights; expected the path of a .safetensors or .pth file" in text
