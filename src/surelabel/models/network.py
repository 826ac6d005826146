"""A backbone with classifier and indicator branch, and the same branch for any other network."""

from collections.abc import Sequence
from threading import get_ident
from typing import Any, Self, cast

import torch
from torch import Tensor, nn

from surelabel.core.batch import Outputs


def _at_least_float32(x: Tensor) -> Tensor:
    """Convert half precision (from autocast) and integers to float32; keep float64."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def _make_indicator(num_features: int, layers: int, **tensor_options: Any) -> nn.Module:
    """Make the branch of Section 3.2: fully connected layers from the M features to the value h."""
    if layers < 1:
        raise ValueError(f"an indicator branch has at least 1 layer, got {layers}")
    hidden: list[nn.Module] = []
    for _ in range(layers - 1):
        hidden += [nn.Linear(num_features, num_features, **tensor_options), nn.ReLU()]
    last = nn.Linear(num_features, 1, **tensor_options)
    return nn.Sequential(*hidden, last) if hidden else last


class Extractor(nn.Module):
    """Maps raw inputs to features (B, M): normalisation and backbone.

    `mean` and `std` are in units of the raw input, in a shape that broadcasts to it: (C, 1, 1) for
    pixels in 0..255, (D,) for features. They are buffers, so a saved network needs nothing else to
    predict. A std of 0 (a constant input) counts as 1. A frozen backbone gets no gradient and
    stays in evaluation mode while the rest trains, so its weights and batch-norm statistics do not
    change.
    """

    mean: Tensor
    std: Tensor

    def __init__(
        self,
        backbone: nn.Module,
        *,
        mean: Tensor | Sequence[float] | None = None,
        std: Tensor | Sequence[float] | None = None,
        frozen: bool = False,
    ) -> None:
        super().__init__()
        mean = torch.as_tensor((0.0,) if mean is None else mean, dtype=torch.float32)
        std = torch.as_tensor((1.0,) if std is None else std, dtype=torch.float32)
        self.register_buffer("mean", mean.clone())
        self.register_buffer("std", torch.where(std > 0, std, 1.0))
        self.frozen = frozen
        self.backbone = backbone.requires_grad_(False).eval() if frozen else backbone

    @property
    def num_features(self) -> int:
        """M, from the backbone."""
        return cast(int, self.backbone.num_features)

    def train(self, mode: bool = True) -> Self:
        """Set the training mode; a frozen backbone stays in evaluation mode."""
        super().train(mode)
        if self.frozen:
            self.backbone.eval()
        return self

    def features(self, x: Tensor) -> Tensor:
        """Return features (B, M), in half precision under autocast."""
        features: Tensor = self.backbone((_at_least_float32(x) - self.mean) / self.std)
        return features

    def forward(self, x: Tensor) -> Any:
        """Return features (B, M), never in half precision."""
        return _at_least_float32(self.features(x))


class Network(Extractor):
    """Maps raw inputs to Outputs: normalisation, backbone, classifier, and indicator if wanted."""

    def __init__(
        self,
        backbone: nn.Module,
        num_features: int,
        num_outputs: int,
        *,
        mean: Tensor | Sequence[float] | None = None,
        std: Tensor | Sequence[float] | None = None,
        frozen: bool = False,
        indicator: bool = False,
        indicator_layers: int = 1,
    ) -> None:
        super().__init__(backbone, mean=mean, std=std, frozen=frozen)
        self.classifier = nn.Linear(num_features, num_outputs)
        # Made last, so that a seed yields the same backbone and classifier with and without it.
        self.indicator = _make_indicator(num_features, indicator_layers) if indicator else None

    def forward(self, x: Tensor) -> Outputs:
        """Return logits (B, K), features (B, M) and, with an indicator, its logit (B,).

        They are never in half precision.
        """
        features = self.features(x)
        confidence_logit = None
        if self.indicator is not None:
            confidence_logit = _at_least_float32(self.indicator(features).squeeze(1))
        logits = _at_least_float32(self.classifier(features))
        return Outputs(logits, _at_least_float32(features), confidence_logit)


class WithIndicator(nn.Module):
    """Any classifier, unchanged, with an indicator branch on the input of its last Linear layer."""

    def __init__(self, model: nn.Module, layer: str, indicator: nn.Module) -> None:
        super().__init__()
        self.model = model
        self.indicator = indicator
        self.layer = layer

    def forward(self, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        """Return the model's logits (B, K) and the confidence logit (B,)."""
        logits, features, linear_output = self._run_model(*args, **kwargs)
        _check_is_final(self.layer, logits, linear_output)
        return logits, self.indicator(features).squeeze(1)

    def _run_model(self, *args: Any, **kwargs: Any) -> tuple[Any, Tensor, Tensor]:
        """Return the output of the model, and the input and output of its last Linear layer.

        The hook lives for one call and writes to a local list. So a copy or pickle of the model
        has no hook that points to the original, the model alone does no extra work, and no
        features outlive their call.
        """
        seen: list[tuple[Tensor, Tensor]] = []
        thread = get_ident()

        def observe(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Tensor) -> None:
            if get_ident() == thread:  # another thread may be running the same layer
                seen[:] = [(args[0] if args else kwargs["input"], output)]

        handle = self.model.get_submodule(self.layer).register_forward_hook(observe, with_kwargs=True)
        try:
            output = self.model(*args, **kwargs)
        finally:
            handle.remove()
        if not seen:
            raise ValueError(
                f"the Linear layer {_named(self.layer)} took no part in the forward pass; name the final layer, "
                f"add_indicator(model, layer=...), one of {', '.join(_linear_layers(self.model))}; "
                f"a model that is compiled or data-parallel gets its indicator before that"
            )
        return output, *seen[0]


def add_indicator(model: nn.Module, layers: int = 1, *, layer: str | None = None) -> nn.Module:
    """Wrap `model` in a module that returns `(logits, confidence_logit)`; `model` is not changed.

    The branch of `layers` fully connected layers reads the input of the model's final Linear
    layer, which is the last one registered unless `layer` names another (as in
    `model.named_modules()`). The model must return that layer's output. Compile it or make it
    data-parallel after this, not before.
    """
    if isinstance(model, WithIndicator):
        raise ValueError("this model already has an indicator branch")
    linear = _linear_layers(model)
    if not linear:
        found = ", ".join(sorted({type(module).__name__ for module in model.modules()}))
        raise ValueError(
            f"an indicator branch needs a model that ends in a Linear layer; this one has none, only {found}"
        )
    name = next(reversed(linear)) if layer is None else layer
    if name not in linear:
        raise ValueError(f"the model has no Linear layer {name!r}; it has {', '.join(linear)}")
    weight = linear[name].weight
    if isinstance(weight, nn.UninitializedParameter):
        raise ValueError(
            f"the layer {_named(name)} does not know its size yet: call the model once before add_indicator"
        )
    branch = _make_indicator(weight.shape[1], layers, device=weight.device, dtype=weight.dtype)
    return WithIndicator(model, name, branch)


def _linear_layers(model: nn.Module) -> dict[str, nn.Linear]:
    return {name: module for name, module in model.named_modules() if isinstance(module, nn.Linear)}


def _named(layer: str) -> str:
    return repr(layer) if layer else "that the model is"


def _check_is_final(layer: str, output: Any, linear_output: Tensor) -> None:
    """Raise ValueError unless the model returned the output (B, K) of its last Linear layer."""
    if output is linear_output and linear_output.dim() == 2:
        return  # the usual case, without a comparison of values
    rule = (
        f"the model must return the (B, K) output of its Linear layer {_named(layer)}, which is {_shape(linear_output)}"
    )
    hint = "name another layer with add_indicator(model, layer=...), or let the model return its logits"
    if not isinstance(output, Tensor) or output.shape != linear_output.shape or output.dim() != 2:
        raise ValueError(f"{rule}, and returned {_shape(output)}; {hint}")
    if not torch.equal(output, linear_output.to(output.dtype)):
        raise ValueError(f"{rule}, and returned other values{_looks_like(output)}; {hint}")


def _shape(value: Any) -> str:
    return f"of shape {tuple(value.shape)}" if isinstance(value, Tensor) else f"a value of type {type(value).__name__}"


def _looks_like(output: Tensor) -> str:
    sums = output.detach().exp().sum(1) if bool((output <= 0).all()) else output.detach().sum(1)
    near_one = torch.allclose(sums, torch.ones_like(sums), atol=1e-3)
    return " (their rows sum to one: is there a softmax after it?)" if near_one else ""
