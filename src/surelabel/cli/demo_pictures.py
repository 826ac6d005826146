"""A folder of small photos with known wrong labels, made of pictures that pip installs.

The pictures are part of the wheel of scikit-image, which is neither imported nor asked to download
anything. All of them are free of rights, as the documentation of `skimage.data` says:

- CC0: camera (Lav Varshney), chelsea (Stefan van der Walt), coffee (Rachel Michetti), brick and
  gravel (CC0Textures), grass (linolafett), retina (Mikael Häggström).
- Public domain: astronaut and hubble_deep_field (NASA), rocket (SpaceX).
"""

import csv
import math
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
from PIL import Image, ImageEnhance, ImageFilter

from surelabel.encoding.registry import locate
from surelabel.errors import missing_package

PACKAGE, EXTRA = "scikit-image", "photos"
PICTURES: Mapping[str, str] = {
    "astronaut": "astronaut.png",
    "brick": "brick.png",
    "camera": "camera.png",
    "cat": "chelsea.png",
    "coffee": "coffee.png",
    "galaxies": "hubble_deep_field.jpg",
    "grass": "grass.png",
    "gravel": "gravel.png",
    "retina": "retina.jpg",
    "rocket": "rocket.jpg",
}
"""The picture of each class, in `skimage/data`."""
WRONG = 0.2
"""Fraction of photos that are filed into a wrong folder."""
SIDES = (96, 160)
"""Least and most pixels per side of a photo."""
WINDOW = (0.12, 0.7)
"""Longer side of a photo at least and at most, as a part of the shorter side of its picture."""
TILT = 30.0
"""Degrees that a photo is turned at most, either way."""
SPARE = 2
"""Pixels by which the part is larger before it is turned, so that its corners are not empty."""
GREY = 0.15
"""Fraction of photos without colour."""


class Photos(NamedTuple):
    """A folder of photos, and the folder in which each belongs."""

    folder: Path
    truth: dict[str, str]
    """Class by id, which is the path within the folder."""

    @property
    def num_wrong(self) -> int:
        """Number of photos in a wrong folder."""
        return sum(not id.startswith(f"{name}/") for id, name in self.truth.items())


def write_photos(folder: Path, seed: int, count: int) -> Photos:
    """Write photos into class folders, some into a wrong one, and FOLDER-truth.csv beside them."""
    pictures, random = open_pictures(), np.random.default_rng(seed)
    names = list(pictures)
    clean = random.permutation(np.arange(count) % len(names))
    given = misfile(clean, len(names), random)
    truth = {}
    for name in names:
        (folder / name).mkdir(parents=True)
    for number, (true, filed) in enumerate(zip(clean, given, strict=True)):
        id = f"{names[filed]}/{number:04d}.jpg"
        take_photo(pictures[names[true]], random).save(folder / id, quality=90)
        truth[id] = names[true]
    with folder.with_name(f"{folder.name}-truth.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("id", "label"), *truth.items()])
    return Photos(folder, truth)


def open_pictures() -> dict[str, Image.Image]:
    """Read the picture of each class; raise if scikit-image is not installed."""
    paths = {name: locate(PACKAGE, f"skimage/data/{file}") for name, file in PICTURES.items()}
    found = {name: path for name, path in paths.items() if path is not None}
    if len(found) < len(PICTURES):
        raise missing_package("demo photos", PACKAGE, EXTRA)
    return {name: Image.open(path).convert("RGB") for name, path in found.items()}


def misfile(clean: np.ndarray, num_classes: int, random: np.random.Generator) -> np.ndarray:
    """Return classes (N,) of which exactly the fraction WRONG differs from the clean ones."""
    given = clean.copy()
    moved = random.choice(len(clean), round(WRONG * len(clean)), replace=False)
    given[moved] = (clean[moved] + random.integers(1, num_classes, len(moved))) % num_classes
    return given


def take_photo(picture: Image.Image, random: np.random.Generator) -> Image.Image:
    """Return a part of the picture as if photographed: tilted, perhaps mirrored, in other light."""
    size = random.integers(SIDES[0], SIDES[1] + 1, 2)
    scale = random.uniform(*WINDOW) * min(picture.size) / max(size)
    tilt = random.uniform(-TILT, TILT)
    # Before it is turned, the part lies in a larger box, which must lie in the picture.
    cosine, sine = abs(math.cos(math.radians(tilt))), abs(math.sin(math.radians(tilt)))
    outer = np.ceil(np.array([[cosine, sine], [sine, cosine]]) @ size) + SPARE
    left, top = random.uniform(0, np.array(picture.size) - scale * outer)
    box = (left, top, left + scale * outer[0], top + scale * outer[1])
    straight = picture.resize(_pixels(outer), Image.Resampling.LANCZOS, box)
    turned = straight.rotate(tilt, Image.Resampling.BICUBIC)
    edge = (np.array(turned.size) - size) // 2
    photo = turned.crop((*_pixels(edge), *_pixels(edge + size)))
    if random.random() < 0.5:
        photo = photo.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    return change_light(photo, random)


def _pixels(place: np.ndarray) -> tuple[int, int]:
    return int(place[0]), int(place[1])


def change_light(photo: Image.Image, random: np.random.Generator) -> Image.Image:
    """Change brightness, contrast and colours, and add a little blur and noise of a sensor."""
    photo = ImageEnhance.Brightness(photo).enhance(random.uniform(0.65, 1.35))
    photo = ImageEnhance.Contrast(photo).enhance(random.uniform(0.65, 1.35))
    photo = ImageEnhance.Color(photo).enhance(0 if random.random() < GREY else random.uniform(0.5, 1.4))
    photo = photo.filter(ImageFilter.GaussianBlur(random.uniform(0, 1.2)))
    pixels = np.asarray(photo, dtype=np.float32) * random.uniform(0.93, 1.07, 3)
    pixels += random.normal(0, random.uniform(0, 8), pixels.shape)
    return Image.fromarray(pixels.clip(0, 255).astype(np.uint8))
