"""Import torchvision beside a CPU build of torch."""

import torch

OPERATORS: list[torch.library.Library] = []
"""Kept alive, because operators are declared only as long as their library object exists."""


def import_torchvision() -> None:
    """Import torchvision even if its compiled part does not match a CPU build of torch.

    timm and transformers import torchvision, and PyPI's torchvision for Linux is compiled against
    CUDA. With a CPU build of torch its library cannot be loaded, and the import fails with
    "operator torchvision::nms does not exist", because torchvision refers to operators that were
    never declared. None of our networks uses them. Declared without an implementation, as below,
    they raise an error when called, and the rest of torchvision works. This is done only after
    that exact error, so an intact installation is left alone.
    """
    try:
        import torchvision
    except RuntimeError as error:
        if "operator torchvision::" not in str(error):
            raise
        operators = torch.library.Library("torchvision", "DEF")  # type: ignore[no-untyped-call]  # torch has no types here
        for name in ("nms", "qnms"):
            signature = f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
            operators.define(signature)  # type: ignore[no-untyped-call]  # nor here
        OPERATORS.append(operators)
        import torchvision  # noqa: F401  # imported for its side effects, which may now succeed
