"""Options that make a run's configuration, for all commands that need one: a file, named options over it, --set over all."""

import functools
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from surelabel.config import RunConfig, validated
from surelabel.errors import ConfigError
from surelabel.overrides import parsed_assignment, read_config, set_field


def takes_settings(command: Callable[..., None]) -> Callable[..., None]:
    """A command with the options of `configuration`, whose result it is given as `settings`."""
    shared = inspect.signature(configuration).parameters
    own = {name: p for name, p in inspect.signature(command).parameters.items() if name != "settings"}

    @functools.wraps(command)
    def with_options(**given: Any) -> None:
        settings = configuration(**{name: given.pop(name) for name in shared})
        command(settings=settings, **given)

    parameters = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in (*shared.values(), *own.values())]
    # typer reads both.
    with_options.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    with_options.__annotations__ = {p.name: p.annotation for p in parameters}
    return with_options


def configuration(
    data: Annotated[
        str | None,
        typer.Argument(
            metavar="DATA",
            help="A data set's name (digits, cifar10, ...), an .npz or .npy file, a folder of class folders, a .csv or .parquet table.",
        ),
    ] = None,
    root: Annotated[str | None, typer.Option(metavar="DIR", help="Folder of a named data set.")] = None,
    test: Annotated[str | None, typer.Option(metavar="PATH", help="Test data of the same kind.")] = None,
    labels: Annotated[
        str | None, typer.Option(metavar="FILE.csv", help="id,label: labels over the data's own.")
    ] = None,
    trusted: Annotated[
        str | None, typer.Option(metavar="FILE.csv", help="id[,label]: rows whose label a person has confirmed.")
    ] = None,
    label_column: Annotated[str | None, typer.Option(metavar="NAME", help="Tables: the column with labels.")] = None,
    unreadable: Annotated[
        str | None, typer.Option(metavar="refuse|skip", help="Images that cannot be read. Default: refuse")
    ] = None,
    noise: Annotated[
        str | None,
        typer.Option(
            metavar="KIND:RATE", help="Inject noise: symmetric:0.4, asymmetric:0.4, file:PATH (docs/noise.md)."
        ),
    ] = None,
    method: Annotated[
        str | None, typer.Option(metavar="NAME", help="As `surelabel methods` lists them. Default: car")
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="auto, mlp, fast_cnn, resnet18, ..., timm:NAME (docs/networks.md)."),
    ] = None,
    epochs: Annotated[int | None, typer.Option(metavar="N", help="Epochs of the whole run.")] = None,
    batch_size: Annotated[int | None, typer.Option(metavar="N", help="Rows of a batch.")] = None,
    rate: Annotated[float | None, typer.Option(metavar="X", help="Highest learning rate.")] = None,
    seed: Annotated[int | None, typer.Option(metavar="S", help="Of weights, order, augmentation and noise.")] = None,
    warm_start: Annotated[
        str | None, typer.Option(metavar="RUN", help="Start from the weights of a finished run.")
    ] = None,
    device: Annotated[str | None, typer.Option(metavar="NAME", help="auto, cpu, cuda or mps.")] = None,
    devices: Annotated[int | None, typer.Option(metavar="N", help="Processes that train together.")] = None,
    threads: Annotated[int | None, typer.Option(metavar="N", help="CPU threads of each process.")] = None,
    precision: Annotated[str | None, typer.Option(metavar="P", help="32-true, bf16-mixed or 16-mixed.")] = None,
    cache: Annotated[
        str | None, typer.Option(metavar="on|off", help="Keep decoded images on disk. Default: on")
    ] = None,
    config: Annotated[Path | None, typer.Option(metavar="FILE", help="Settings as YAML; options go over them.")] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="FIELD=VALUE", help="Any setting, e.g. method.penalty_weight=10; goes over all."),
    ] = None,
) -> RunConfig:
    """All settings, checked as far as that goes without the data."""
    content: dict[str, Any] = {} if config is None else read_config(config)
    named = {
        "data.source": data,
        "data.root": root,
        "data.test": test,
        "data.labels": labels,
        "data.trusted": trusted,
        "data.label_column": label_column,
        "data.unreadable": unreadable,
        "data.cache": _switch("--cache", cache),
        "noise": _noise(noise),
        "train.epochs": epochs,
        "train.batch_size": batch_size,
        "optimiser.rate": rate,
        "train.seed": seed,
        "train.warm_start": warm_start,
        "train.device": device,
        "train.devices": devices,
        "train.threads": threads,
        "train.precision": precision,
    }
    _choose(content, "method", method)
    _choose(content, "model", model)
    for field, value in named.items():
        if value is not None:
            set_field(content, field, value)
    for assignment in set_ or []:
        set_field(content, *parsed_assignment(assignment))
    return _whole(content)


def _choose(content: dict[str, Any], part: str, name: str | None) -> None:
    """Take another method or model than the file's, whose options are then not its own."""
    before, default = content.get(part), RunConfig.model_fields[part].default.name
    if name is not None and name != (before.get("name", default) if isinstance(before, dict) else before):
        content[part] = name


def _switch(option: str, text: str | None) -> bool | None:
    if text not in (None, "on", "off"):
        raise ConfigError(f"{option} {text}: expected on or off")
    return None if text is None else text == "on"


def _noise(text: str | None) -> dict[str, Any] | None:
    from surelabel.noise import parsed

    return None if text is None else parsed(text)


def _whole(content: dict[str, Any]) -> RunConfig:
    data = content.get("data")
    if data is None or (isinstance(data, dict) and data.get("source") is None):
        raise ConfigError("DATA is missing: name a data set or a path, or give --config FILE with data.source")
    return validated(content)
