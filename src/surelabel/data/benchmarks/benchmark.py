"""What all named data sets share: finding them, their options, and the usual preprocessing."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

import numpy as np
from pydantic import ValidationError

from surelabel.config import DataConfig, Part, one_line
from surelabel.data.benchmarks.dataset_directory import DatasetDirectory
from surelabel.data.inputs import Inputs, Shape
from surelabel.data.sources.interface import ImageDefaults, Parts, Rows
from surelabel.errors import ConfigError, DataError, did_you_mean

_Options = TypeVar("_Options", bound=Part)


class NoOptions(Part):
    """The options of a data set that has none."""


@dataclass(frozen=True)
class Request(Generic[_Options]):
    """What to read of a data set, and from where."""

    directory: DatasetDirectory
    root: Path
    options: _Options
    config: DataConfig
    """The configuration, with the usual sizes of the data set where the user set none."""
    requested_shape: Shape | None
    """The shape of one image; None leaves it to the data set."""
    side: int
    """Usual side of the images in pixels."""

    @property
    def shape(self) -> Shape:
        """The shape of one image in colour; it is known before any file is opened."""
        side = self.config.image_size or self.side
        return self.requested_shape or (3, side, side)


@dataclass(eq=False)
class Benchmark(Generic[_Options]):
    """A source that reads one published data set by its name."""

    directory: DatasetDirectory
    options: type[_Options]
    read_parts: Callable[[Request[_Options]], Parts]
    read_test: Callable[[Request[_Options]], Rows]
    side: int
    """Usual side of the images in pixels."""
    crop: int | None = None
    """Usual side of the window that networks see; None is the whole image."""

    def __post_init__(self) -> None:
        self.KIND = self.directory.name
        self.BUNDLED: tuple[str, ...] = (self.directory.name,)

    def accepts(self, source: str) -> bool:
        """Return whether `source` is the name of this data set."""
        return source in self.BUNDLED

    def read(self, config: DataConfig, shape: Shape | None = None) -> Parts:
        """Read the training and test rows."""
        return self.read_parts(self._request(config, shape))

    def read_inputs(self, config: DataConfig, shape: Shape) -> tuple[Inputs, np.ndarray]:
        """Read the images of the test rows and their ids."""
        test = self.read_test(self._request(config, shape))
        return test.x, test.ids

    def _request(self, config: DataConfig, shape: Shape | None) -> Request[_Options]:
        options = parse_options(config, self.options)
        root = self.directory.find(config)
        return Request(self.directory, root, options, self._set_sizes(config), shape, self.side)

    def _set_sizes(self, config: DataConfig) -> DataConfig:
        """Set the usual sizes; images for which the user set a size are seen whole."""
        if config.image_size is not None or self.crop is None:
            return config
        crop = config.crop or self.crop
        return config.model_copy(update={"image_size": max(self.side, crop), "crop": crop})


def parse_options(config: DataConfig, model: type[_Options]) -> _Options:
    """Validate the options of a data set; errors name the option and the allowed values."""
    known = list(model.model_fields)
    for option in config.options:
        if option not in known:
            exist = f"{did_you_mean(option, known)}available: {', '.join(known)}" if known else "it has none"
            raise ConfigError(f"data.options.{option}: {config.source} has no such option; {exist}")
    try:
        return model.model_validate(config.options)
    except ValidationError as error:
        raise ConfigError(one_line(error, prefix="data.options.")) from None


def to_class_names(numbers: np.ndarray, classes: Sequence[str], where: str) -> np.ndarray:
    """Return the names of class numbers (N,), all of which must exist."""
    bad = np.flatnonzero((numbers < 0) | (numbers >= len(classes)))
    if len(bad):
        raise DataError(f"{where} of row {bad[0]} is {numbers[bad[0]]}; expected 0..{len(classes) - 1}")
    return np.asarray(np.array(classes)[numbers])


def numbered_ids(part: str, count: int) -> np.ndarray:
    """Return the ids PART/00000, PART/00001, ... of rows that have no names."""
    return np.array([f"{part}/{row:05d}" for row in range(count)])


def to_pixel_range(*values: float) -> tuple[float, ...]:
    """Scale the means or deviations that papers give for pixels in 0..1 to 0..255."""
    return tuple(255 * value for value in values)


IMAGENET_MEAN = to_pixel_range(0.485, 0.456, 0.406)
IMAGENET_STD = to_pixel_range(0.229, 0.224, 0.225)


def crop_defaults(config: DataConfig, mean: tuple[float, ...], std: tuple[float, ...]) -> ImageDefaults:
    """Return the augmentation by windows of `config.crop` and flips, without padding."""
    return ImageDefaults(crop=config.crop, crop_padding=0, flip=True, mean=mean, std=std)
