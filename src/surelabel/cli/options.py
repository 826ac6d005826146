"""The Typer application, its one-line errors, and options that several commands share.

Settings of a run come from a file, from named options and from --set; later ones take precedence.
"""

import functools
import inspect
import logging
import shlex
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer
import typer.core

import surelabel
from surelabel import console
from surelabel.cli.flags import naming_flags
from surelabel.cli.help_texts import choices_text, default_text, method_names
from surelabel.config import RunConfig, validate
from surelabel.errors import ConfigError, SurelabelError, describe_os_error
from surelabel.methods import check_name
from surelabel.overrides import parsed_assignment, read_config, set_field
from surelabel.overrides import recipe as find_recipe

if TYPE_CHECKING:
    from surelabel.runs.decisions import Damage

COMMANDS = (
    "demo",
    "fit",
    "plan",
    "resume",
    "audit",
    "gate",
    "predict",
    "report",
    "figures",
    "review",
    "export",
    "tune",
    "reproduce",
    "methods",
    "backbones",
    "settings",
    "noise",
)
"""The commands in the order in which --help lists them."""


class CommandGroup(typer.core.TyperGroup):
    """All commands; the user's errors are printed as one line on stderr, with exit code 2."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of the commands in the order of COMMANDS."""
        return sorted(super().list_commands(ctx), key=COMMANDS.index)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """List the commands with their whole first sentence, which Typer would cut."""
        found = {name: self.get_command(ctx, name) for name in self.list_commands(ctx)}
        rows = [(name, _first_paragraph(command.help)) for name, command in found.items() if command is not None]
        with formatter.section("Commands"):
            formatter.write_dl(rows)

    def main(self, *args: Any, **extra: Any) -> NoReturn:
        """Run a command and exit."""
        try:
            code = super().main(*args, **{**extra, "standalone_mode": False})
        except SurelabelError as error:
            code = _failed(str(error))
        except OSError as error:
            code = _failed(describe_os_error(error))
        except MemoryError as error:
            code = _failed(
                f"not enough memory: {str(error) or 'the system has no more'}; surelabel plan says what is needed"
            )
        except typer.Abort:
            code = 130
        except Exception as error:
            # Usage errors are a class of click or of typer's copy of it, depending on the version.
            if not hasattr(error, "format_message"):
                raise
            command = getattr(getattr(error, "ctx", None), "command_path", "surelabel")
            code = _failed(f"{error.format_message().rstrip('.')}; see: {command} --help")
        sys.exit(code if isinstance(code, int) else 0)


def _first_paragraph(text: str | None) -> str:
    return " ".join((text or "").split("\n\n")[0].split())


def _failed(text: str) -> int:
    console.tell(f"error: {' '.join(text.split())}")
    return 2


app = typer.Typer(
    cls=CommandGroup,
    help="Train on wrong labels, find them, correct them.",
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


Json = Annotated[bool, typer.Option("--json", help="Print the result as one line of JSON.")]
Run = Annotated[Path, typer.Argument(metavar="RUN", help="A run directory.", show_default=False)]
Trust = Annotated[
    bool,
    typer.Option("--trust", help="Import the run's method even if it is not part of surelabel. This runs its code."),
]
Device = Annotated[
    str | None,
    typer.Option(metavar="NAME", help=f"Train on {choices_text('train.device')}. {default_text('train.device')}"),
]
Devices = Annotated[int | None, typer.Option(metavar="N", help="Number of processes that train together. Default: 1")]
Threads = Annotated[int | None, typer.Option(metavar="N", help="CPU threads per process. Default: PyTorch's choice")]


@app.callback(invoke_without_command=True)
def _start(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version.", is_eager=True)] = False,
) -> None:
    if version or context.invoked_subcommand is None:
        console.say(f"surelabel {surelabel.__version__}" if version else context.get_help())
        raise typer.Exit
    log = logging.getLogger("surelabel")
    log.handlers, log.propagate = [console.NoteHandler()], False
    log.setLevel(logging.INFO)


def takes_settings(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options of `configuration` to a command, which gets the result as `settings`."""
    return takes_some_settings(*inspect.signature(configuration).parameters)(command)


def takes_some_settings(*names: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add only these options of `configuration` to a command: those that it acts on."""
    shared = {name: p for name, p in inspect.signature(configuration).parameters.items() if name in names}
    return functools.partial(_add_options, shared)


def _add_options(shared: Mapping[str, inspect.Parameter], command: Callable[..., None]) -> Callable[..., None]:
    asked = inspect.signature(command).parameters  # it may also ask for a shared option itself
    own = {name: p for name, p in asked.items() if name != "settings" and name not in shared}

    @functools.wraps(command)
    def with_options(**given: Any) -> None:
        chosen = {name: given.pop(name) for name in shared}
        with naming_flags(_typed_fields(chosen["set_"] or [], chosen["config"])):
            # A command without --trust imports no method.
            again = {name: value for name, value in chosen.items() if name in asked}
            command(settings=configuration(**{"trust": True} | chosen), **again, **given)

    parameters = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in (*shared.values(), *own.values())]
    # Typer reads both attributes.
    with_options.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    with_options.__annotations__ = {p.name: p.annotation for p in parameters}
    return with_options


def _typed_fields(assignments: list[str], config: Path | None) -> set[str]:
    """Return the settings that the user named themselves, with --set or in a file."""
    typed = {assignment.partition("=")[0].strip() for assignment in assignments}
    content = {} if config is None else read_config(config)
    for part, fields in content.items():
        typed |= {f"{part}.{name}" for name in fields} if isinstance(fields, dict) else {f"{part}.name"}
    return typed


def configuration(
    data: Annotated[
        str | None,
        typer.Argument(
            metavar="DATA",
            help="The name of a data set (digits, cifar10, ...), an .npz or .npy file, a folder with a "
            "sub-folder per class, or a .csv or .parquet table.",
        ),
    ] = None,
    root: Annotated[str | None, typer.Option(metavar="DIR", help="Folder with the files of a named data set.")] = None,
    test: Annotated[str | None, typer.Option(metavar="PATH", help="Test data of the same kind as DATA.")] = None,
    labels: Annotated[
        str | None, typer.Option(metavar="FILE.csv", help="CSV with columns id,label; overrides the labels in DATA.")
    ] = None,
    trusted: Annotated[
        str | None,
        typer.Option(
            metavar="FILE.csv", help="CSV with id, optionally label, of rows whose label a person has confirmed."
        ),
    ] = None,
    merge_classes: Annotated[
        list[str] | None,
        typer.Option(
            metavar="variants|OLD=NEW",
            help="Merge classes: variants, whose names differ only by case, spaces or accents, or OLD into NEW. "
            "May be repeated. Default: none",
        ),
    ] = None,
    image_root: Annotated[
        str | None,
        typer.Option(
            metavar="DIR", help="Tables: the folder with the images that it names. Default: that of the table"
        ),
    ] = None,
    label_column: Annotated[
        str | None, typer.Option(metavar="NAME", help="Tables: the column with labels. Default: found by its name")
    ] = None,
    text_column: Annotated[
        str | None, typer.Option(metavar="NAME", help="Tables: the column with text. Default: found by its content")
    ] = None,
    group: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="The column, or the array of an .npz, with the group of each row, such as a patient or a video; rows "
            "of a group are left out together. Default: near-copies alone",
        ),
    ] = None,
    unreadable: Annotated[
        str | None,
        typer.Option(
            metavar="refuse|skip",
            help="Rows whose image, text or features cannot be read: stop, or leave them out. Default: refuse",
        ),
    ] = None,
    noise: Annotated[
        str | None,
        typer.Option(
            metavar="KIND:RATE",
            help="Make labels wrong on purpose: symmetric:0.4, or asymmetric, superclass, block, pair or instance with "
            "a rate, or file:PATH (docs/noise.md). Default: none",
        ),
    ] = None,
    method: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help=f"Training method; `surelabel methods` describes them: {method_names()}. "
            f"{default_text('method.name')}",
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Network: auto, mlp, cnn, fast_cnn, resnet18, resnet34, resnet50, preact_resnet18, wide_resnet or "
            f"timm:NAME (docs/networks.md). {default_text('model.name')}",
        ),
    ] = None,
    recipe: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Settings that belong together; other options override them. fast trains small photos in few epochs "
            "(docs/results/speed.md). Default: none",
        ),
    ] = None,
    features: Annotated[
        str | None,
        typer.Option(
            metavar="NAME[=FILE]",
            help="Pretrained network for images or text, whose features help to judge the labels and are trained on if "
            "they predict better: auto, none, a name that `surelabel backbones` lists, timm:NAME with its weights from "
            "the hub or FILE, hf:NAME or sentence:NAME. A named one is trained on; --model mlp chooses the layers on "
            f"its features. {default_text('model.features')}",
        ),
    ] = None,
    feature_size: Annotated[
        int | None,
        typer.Option(
            metavar="PIXELS", help="Pixels per side at which a pretrained network sees images. Default: its own size"
        ),
    ] = None,
    epochs: Annotated[
        int | None, typer.Option(metavar="N", help=f"Training epochs. {default_text('train.epochs')}")
    ] = None,
    batch_size: Annotated[
        int | None,
        typer.Option(metavar="N", help=f"Maximum number of rows per batch. {default_text('train.batch_size')}"),
    ] = None,
    rate: Annotated[
        float | None, typer.Option(metavar="X", help=f"Highest learning rate. {default_text('optimiser.rate')}")
    ] = None,
    folds: Annotated[
        int | None,
        typer.Option(
            metavar="N", help="Also train N networks (2 to 20) that judge rows they have not seen. Default: 0"
        ),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(
            metavar="S",
            help=f"Random seed for weights, batch order, augmentation and noise. {default_text('train.seed')}",
        ),
    ] = None,
    warm_start: Annotated[
        str | None,
        typer.Option(metavar="RUN", help="Start from the weights of a finished run. Default: random weights"),
    ] = None,
    device: Device = None,
    devices: Devices = None,
    threads: Threads = None,
    precision: Annotated[
        str | None,
        typer.Option(metavar="P", help=f"{choices_text('train.precision')}. {default_text('train.precision')}"),
    ] = None,
    cache: Annotated[
        str | None, typer.Option(metavar="on|off", help="Keep decoded images on disk. Default: on")
    ] = None,
    config: Annotated[
        Path | None, typer.Option(metavar="FILE", help="YAML or JSON file with settings; options override it.")
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="FIELD=VALUE",
            help="Override any setting, such as method.penalty_weight=10; takes precedence over all other options. "
            "`surelabel settings` lists them. May be repeated.",
        ),
    ] = None,
    trust: Annotated[
        bool,
        typer.Option("--trust", help="Import the method that FILE names even if it is not part of surelabel."),
    ] = False,
) -> RunConfig:
    """Combine all settings, and check what can be checked without the data."""
    content: dict[str, Any] = {} if config is None else read_config(config)
    for field, value in {} if recipe is None else find_recipe(recipe).items():
        set_field(content, field, value)
    named = {
        "data.source": data,
        "data.root": root,
        "data.test": test,
        "data.labels": labels,
        "data.trusted": trusted,
        "data.merge_classes": merge_classes or None,
        "data.image_root": image_root,
        "data.label_column": label_column,
        "data.text_column": text_column,
        "data.group": group,
        "data.unreadable": unreadable,
        "data.cache": _parse_switch("--cache", cache),
        "noise": _parse_noise(noise),
        "model.features": features,
        "model.feature_size": feature_size,
        "train.epochs": epochs,
        "train.batch_size": batch_size,
        "train.folds": folds,
        "optimiser.rate": rate,
        "train.seed": seed,
        "train.warm_start": warm_start,
        "train.device": device,
        "train.devices": devices,
        "train.threads": threads,
        "train.precision": precision,
    }
    _choose_component(content, "method", method)
    _choose_component(content, "model", model)
    for field, value in named.items():
        if value is not None:
            set_field(content, field, value)
    assignments = [parsed_assignment(assignment) for assignment in set_ or []]
    for assignment in assignments:
        set_field(content, *assignment)
    settings = _validate(content)
    check_name(settings.method.name)
    settings = _train_as_long(settings)
    typed = method is not None or any(name in ("method", "method.name") for name, _ in assignments)
    if config is not None and settings.method.is_foreign and not (typed or trust):
        raise ConfigError(
            f"{config}: its method {settings.method.name} is not part of surelabel; import it with "
            "--trust, or choose another with --method NAME"
        )
    return settings


def _train_as_long(settings: RunConfig) -> RunConfig:
    """Train as long as the run of --warm-start, unless told otherwise."""
    if settings.train.warm_start is None:
        return settings
    from surelabel.training.warm_start import train_as_long  # it loads PyTorch

    settings, note = train_as_long(settings)
    if note is not None:
        console.tell(f"note: {note}; --epochs changes that")
    return settings


def _choose_component(content: dict[str, Any], part: str, name: str | None) -> None:
    """Choose a method or model; if the file names another, drop that one's options."""
    before, default = content.get(part), RunConfig.model_fields[part].default.name
    if name is not None and name != (before.get("name", default) if isinstance(before, dict) else before):
        content[part] = name


def _parse_switch(option: str, text: str | None) -> bool | None:
    if text not in (None, "on", "off"):
        raise ConfigError(f"{option} {text}: expected on or off")
    return None if text is None else text == "on"


def _parse_noise(text: str | None) -> dict[str, Any] | None:
    from surelabel.noise import parse_noise

    return None if text is None else parse_noise(text)


def _validate(content: dict[str, Any]) -> RunConfig:
    data = content.get("data")
    if data is None or (isinstance(data, dict) and data.get("source") is None):
        raise ConfigError("DATA is missing: name a data set or a path, or give --config FILE with data.source")
    return validate(content)


def warn_of_damage(run: Path, damage: "Damage") -> None:
    """Warn on stderr that decisions of a run are lost, if they are."""
    from surelabel.runs.decisions import FILE_NAME

    if damage:
        remedies = f"restore it from a backup, or accept the loss: surelabel review {shlex.quote(str(run))}"
        console.tell(f"warning: {run / FILE_NAME} is damaged: {damage}; {remedies} --accept-damage")
