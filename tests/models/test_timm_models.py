"""timm networks by name."""

import builtins
import importlib.util
import subprocess
import sys

import pytest
import torch
from safetensors.torch import save_file

from surelabel.errors import ConfigError
from surelabel.models import make_backbone, start_from, timm_models, weights

pytest.importorskip("huggingface_hub")  # the extra `photos`


def error(name, shape=(3, 32, 32), options=None) -> str:
    with pytest.raises(ConfigError) as caught:
        make_backbone(name, shape, options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


class TestNetworks:
    @pytest.mark.parametrize(
        ("name", "shape", "num_features"),
        [
            ("timm:resnet18", (1, 32, 32), 512),
            ("timm:mobilenetv3_small_050", (3, 48, 32), 1024),  # num_features is 288: a layer follows the pooling
            ("timm:vit_tiny_patch16_224", (3, 32, 32), 192),  # built for images of this size
        ],
    )
    def test_it_trains_and_has_its_width(self, name, shape, num_features):
        network = make_backbone(name, shape)
        assert network.num_features == num_features
        features = network(torch.randn(2, *shape))
        assert features.shape == (2, num_features)
        features.square().sum().backward()
        assert all(p.grad is not None and bool(torch.isfinite(p.grad).all()) for p in network.parameters())

    def test_resnet50_equals_ours(self):
        theirs = make_backbone("timm:resnet50", (3, 96, 96)).eval()
        ours = make_backbone("resnet50", (3, 96, 96)).eval()
        state = {name.removeprefix("model."): value for name, value in theirs.state_dict().items()}
        from surelabel.models.weights import load_weights

        assert load_weights(ours, state, "timm") is None
        x = torch.randn(2, 3, 96, 96)
        with torch.no_grad():
            torch.testing.assert_close(ours(x), theirs(x), atol=1e-4, rtol=1e-4)

    @pytest.mark.parametrize("side", [96, pytest.param(227, marks=pytest.mark.training)])
    def test_inception_resnet_v2(self, side):
        """The paper's network for WebVision, at its 227 pixels and at a smaller size."""
        network = make_backbone("timm:inception_resnet_v2", (3, side, side)).eval()
        assert network.num_features == 1536
        assert network.pixel_scale == ((0.5, 0.5, 0.5), (0.5, 0.5, 0.5))
        with torch.no_grad():
            assert torch.isfinite(network(torch.randn(1, 3, side, side))).all()

    def test_options_go_to_timm(self):
        network = make_backbone("timm:resnet18", (3, 32, 32), {"drop_path_rate": 0.5, "global_pool": "max"})
        assert network.model.global_pool.pool_type == "max"

    def test_weights_come_from_the_callers_seed(self):
        def weights():
            torch.manual_seed(3)
            return make_backbone("timm:resnet18", (3, 32, 32)).state_dict()

        first, second = weights(), weights()
        assert all(torch.equal(first[key], second[key]) for key in first)


class TestWeights:
    @pytest.fixture
    def whole(self):
        """A timm network with its classifier."""
        make_backbone("timm:resnet18", (3, 32, 32))
        import timm

        return timm.create_model("resnet18", num_classes=5).eval()

    def test_from_a_file(self, whole, tmp_path):
        save_file(whole.state_dict(), tmp_path / "a.safetensors")
        network = make_backbone("timm:resnet18", (3, 32, 32)).eval()
        assert "its classifier is not used (fc.bias, fc.weight)" in start_from(network, str(tmp_path / "a.safetensors"))
        x = torch.randn(2, 3, 32, 32)
        with torch.no_grad():
            torch.testing.assert_close(whole.fc(network(x)), whole(x))

    def test_pretrained_weights_come_from_the_hub(self, whole, tmp_path, monkeypatch):
        import huggingface_hub

        save_file(whole.state_dict(), tmp_path / "model.safetensors")
        asked = []

        def find(repository, name):
            asked.append(repository)
            return str(tmp_path / name) if (tmp_path / name).exists() else None

        monkeypatch.setattr(huggingface_hub, "try_to_load_from_cache", find)
        network = make_backbone("timm:resnet18.tv_in1k", (3, 32, 32))
        assert "timm/resnet18.tv_in1k: its classifier" in start_from(network, "pretrained")
        assert torch.equal(network.model.conv1.weight, whole.conv1.weight)
        assert set(asked) == {"timm/resnet18.tv_in1k"}

    def test_offline(self, monkeypatch):
        monkeypatch.setattr(weights, "_is_reachable", lambda: False)
        import huggingface_hub

        monkeypatch.setattr(huggingface_hub, "try_to_load_from_cache", lambda *_: None)
        with pytest.raises(
            ConfigError, match=r"model.weights: timm/resnet18.* could not be downloaded .* download https"
        ):
            start_from(make_backbone("timm:resnet18", (3, 32, 32)), "pretrained")

    def test_a_file_of_another_network_names_keys(self, whole, tmp_path):
        save_file(whole.state_dict(), tmp_path / "a.safetensors")
        with pytest.raises(
            ConfigError, match=r"does not fit the network: \d+ missing: model\.layer1.*of another shape"
        ):
            start_from(make_backbone("timm:resnet50", (3, 32, 32)), str(tmp_path / "a.safetensors"))

    def test_a_norm_beside_the_classifier_belongs_to_it(self):
        """A norm before it does not."""
        from surelabel.models.weights import load_weights

        for name, unused in (("levit_128s", "head.bn.bias, "), ("convnext_atto", "head.fc.bias, head.fc.weight)")):
            network = make_backbone(f"timm:{name}", (3, 224, 224))
            import timm

            assert f"not used ({unused}" in load_weights(network, timm.create_model(name).state_dict(), "file")

    def test_positions_of_a_transformer_are_resized(self, tmp_path):
        """Weights for 64 pixels in a network for 32, converted as in timm."""
        large = make_backbone("timm:vit_tiny_patch16_224", (3, 64, 64))
        state = {name.removeprefix("model."): value for name, value in large.state_dict().items()}
        save_file(state | {"head.weight": torch.ones(2, 192)}, tmp_path / "a.safetensors")
        network = make_backbone("timm:vit_tiny_patch16_224", (3, 32, 32))
        assert "(head.weight)" in start_from(network, str(tmp_path / "a.safetensors"))
        assert torch.equal(network.model.patch_embed.proj.weight, large.model.patch_embed.proj.weight)


class TestErrors:
    def test_a_name_that_timm_does_not_have(self):
        assert "timm has no network 'resnet5', did you mean timm:resnet50" in error("timm:resnet5")
        assert "timm.list_models() names them all" in error("timm:zzzzzz")

    def test_only_registered_names(self):
        assert "timm has no network 'hf-hub:a/b'" in error("timm:hf-hub:a/b")

    def test_an_unknown_tag(self):
        assert "timm:resnet50.nowhere does not work" in error("timm:resnet50.nowhere")

    def test_images_too_small(self):
        text = error("timm:inception_resnet_v2")
        assert text.startswith("model.name: timm:inception_resnet_v2 does not work for inputs of shape (3, 32, 32): ")
        assert text.endswith("; it was made for 299 pixels: data.image_size=299")

    def test_an_unknown_option(self):
        text = error("timm:resnet18", options={"wdith": 2})
        assert "with {'wdith': 2}" in text
        assert "unexpected keyword argument" in text

    @pytest.mark.parametrize("option", ["num_classes", "pretrained", "checkpoint_path"])
    def test_options_that_users_cannot_set(self, option):
        assert f"model.options.{option}: follows from the data" in error("timm:resnet18", options={option: 1})

    def test_features_are_refused(self):
        assert "timm:resnet18 takes images" in error("timm:resnet18", (20,))

    def test_without_the_package(self, monkeypatch):
        found = importlib.util.find_spec
        monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "timm" else found(name))
        assert "needs the package timm: pip install 'surelabel[photos]'" in error("timm:resnet18")

    def test_another_fault_of_torchvision_is_reported(self, monkeypatch):
        usual = builtins.__import__

        def broken(name, *args, **kwargs):
            if name == "torchvision":
                raise RuntimeError("compiled with different\nCUDA major versions")
            return usual(name, *args, **kwargs)

        monkeypatch.setattr(builtins, "__import__", broken)
        assert "cannot be imported: compiled with different CUDA major versions" in error("timm:resnet18")


@pytest.fixture(scope="module")
def fresh_process():
    """Output of a process that makes one of our networks, then imports torchvision for timm."""
    code = """
import sys
from surelabel.models import make_backbone
make_backbone("resnet18", (3, 8, 8))
print("timm" in sys.modules)
from surelabel.core.torchvision_import import import_torchvision, OPERATORS
import_torchvision()
import torch, torchvision
if OPERATORS:  # declared by us, without an implementation
    try:
        torchvision.ops.nms(torch.zeros(1, 4), torch.zeros(1), 0.5)
    except (RuntimeError, NotImplementedError):
        print("refused")
else:
    print("refused")
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    return result.stdout.split()


def test_torchvision_without_its_compiled_part(fresh_process):
    """Importing it fails at first if torch is a CPU build, and works afterwards."""
    assert fresh_process[1:] == ["refused"]


def test_timm_is_not_loaded_by_other_networks(fresh_process):
    assert fresh_process[0] == "False"


def test_the_prefix_is_part_of_the_name():
    assert timm_models.PREFIX == "timm:"
