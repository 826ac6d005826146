"""Training methods, one file each.

The name of the file is the name of the method: to add a method, add a file.
"""

import inspect
import pkgutil
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from pydantic import ConfigDict, ValidationError, create_model

from surelabel.config import METHOD_ALIASES, one_line
from surelabel.errors import ConfigError, did_you_mean

if TYPE_CHECKING:
    from surelabel.core.method import Method


def names() -> list[str]:
    """Return the names of all built-in methods."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__) if not module.name.startswith("_"))


def check_name(name: str) -> str:
    """Return the file or dotted name of a method; raise ConfigError if there is no such file.

    It loads no method, and so not PyTorch.
    """
    name = METHOD_ALIASES.get(name, name)
    if "." not in name and name not in names():
        hint = did_you_mean(name, names())
        raise ConfigError(f"method.name: there is no method {name!r}; {hint}available: {', '.join(names())}")
    return name


def find(name: str) -> type["Method"]:
    """Return the method of that name, or the only Method in the module with that dotted name."""
    name = check_name(name)
    from surelabel.core.method import Method

    module = _import(name if "." in name else f"{__name__}.{name}")
    classes = [
        item
        for item in vars(module).values()
        if inspect.isclass(item) and issubclass(item, Method) and item.__module__ == module.__name__
    ]
    if len(classes) != 1:
        found = ", ".join(c.__name__ for c in classes) or "none"
        raise ConfigError(f"method.name: {name} must define exactly one Method, found {found}")
    return classes[0]


def _import(name: str) -> ModuleType:
    if not all(part.isidentifier() for part in name.split(".")):
        raise ConfigError(f"method.name: {name!r} is not the name of a module; expected for example my_methods.mine")
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if not name.startswith(str(error.name)):
            raise  # the module exists, and one of its own imports fails
        raise ConfigError(f"method.name: {name}: there is no module {error.name}") from None


def validate_options(name: str, options: dict[str, Any]) -> dict[str, Any]:
    """Return `options` in the types of the constructor; raise ConfigError if one is not allowed."""
    method = find(name)
    from surelabel.core.method import options_of

    known = options_of(method)
    for option in options:
        if option not in known:
            exist = f"{did_you_mean(option, known)}it has {', '.join(known)}" if known else "it has no options"
            raise ConfigError(f"method.{option}: {name} has no such option; {exist}")
    fields: dict[str, Any] = {key: (parameter.annotation, parameter.default) for key, parameter in known.items()}
    model = create_model("Options", __config__=ConfigDict(extra="forbid", allow_inf_nan=False), **fields)
    try:
        return {key: getattr(model(**options), key) for key in options}
    except ValidationError as error:
        raise ConfigError(one_line(error, prefix="method.")) from None


__all__ = ["check_name", "find", "names", "validate_options"]
