"""What image networks ask of their input."""

from surelabel.errors import ConfigError


def image_shape(input_shape: tuple[int, ...], network: str) -> tuple[int, int, int]:
    """(C, H, W), or an error that says what to use instead."""
    if len(input_shape) != 3:
        raise ConfigError(
            f"model.name: {network} takes images (channels, height, width), and these inputs have the shape "
            f"{tuple(input_shape)}; use mlp"
        )
    channels, height, width = input_shape
    return channels, height, width
