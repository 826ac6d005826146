"""How the named data sets are usually looked at: sizes, and means and deviations of pixels in 0..255."""

from surelabel.config import DataConfig
from surelabel.data.inputs import Shape
from surelabel.data.sources.interface import ImageDefaults


def pixels(*shares: float) -> tuple[float, ...]:
    """Values that papers give for pixels in 0..1."""
    return tuple(255 * share for share in shares)


IMAGENET_MEAN = pixels(0.485, 0.456, 0.406)
IMAGENET_STD = pixels(0.229, 0.224, 0.225)


def sized(config: DataConfig, image_size: int, crop: int) -> DataConfig:
    """The configuration with the usual sizes where it has none; images of another size are seen whole."""
    if config.image_size is not None:
        return config
    crop = config.crop or crop
    return config.model_copy(update={"image_size": max(image_size, crop), "crop": crop})


def coloured(config: DataConfig, side: int) -> Shape:
    """The shape of one image: three channels, `config.image_size` or else `side` pixels square.

    Stated, so that no file has to be opened to find it out.
    """
    return 3, config.image_size or side, config.image_size or side


def cropped_look(config: DataConfig, mean: tuple[float, ...], std: tuple[float, ...]) -> ImageDefaults:
    """Windows of `config.crop` out of a larger image, mirrored half the time: nothing is padded."""
    return ImageDefaults(crop=config.crop, crop_padding=0, flip=True, mean=mean, std=std)
