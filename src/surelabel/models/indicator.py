"""The indicator branch of the paper's Section 3.2, and how to add it to any classifier."""

from threading import get_ident
from typing import Any

import torch
from torch import Tensor, nn


def make_indicator(num_features: int, layers: int, **tensor_options: Any) -> nn.Module:
    """Make the branch of Section 3.2: fully connected layers from the M features to the value h."""
    if layers < 1:
        raise ValueError(f"an indicator branch has at least 1 layer, got {layers}")
    hidden: list[nn.Module] = []
    for _ in range(layers - 1):
        hidden += [nn.Linear(num_features, num_features, **tensor_options), nn.ReLU()]
    last = nn.Linear(num_features, 1, **tensor_options)
    return nn.Sequential(*hidden, last) if hidden else last


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
                f"add the indicator before compiling a model or making it data-parallel"
            )
        return output, *seen[0]


def add_indicator(model: nn.Module, layers: int = 1, *, layer: str | None = None) -> nn.Module:
    """Wrap `model` in a module that returns `(logits, confidence_logit)`; `model` is not changed.

    The branch of `layers` fully connected layers reads the input of the model's final Linear
    layer, which is the last one registered unless `layer` names another (as in
    `model.named_modules()`). The model must return that layer's output. Compile it or make it
    data-parallel after this, not before.

    >>> import torch
    >>> import surelabel
    >>> from torch.nn import Linear, ReLU, Sequential
    >>> classifier = Sequential(Linear(4, 8), ReLU(), Linear(8, 3))
    >>> logits, confidence_logit = surelabel.add_indicator(classifier)(torch.zeros(5, 4))
    >>> logits.shape, confidence_logit.shape
    (torch.Size([5, 3]), torch.Size([5]))
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
    branch = make_indicator(weight.shape[1], layers, device=weight.device, dtype=weight.dtype)
    return WithIndicator(model, name, branch)


def _linear_layers(model: nn.Module) -> dict[str, nn.Linear]:
    return {name: module for name, module in model.named_modules() if isinstance(module, nn.Linear)}


def _named(layer: str) -> str:
    return repr(layer) if layer else "(the model itself)"


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
