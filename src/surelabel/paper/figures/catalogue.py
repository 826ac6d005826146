"""Figures 1 to 13 of the paper: the runs of their panels, and the presets that train these runs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from surelabel.errors import ConfigError, RunError
from surelabel.files import replace_text
from surelabel.paper.figures import figure_kinds
from surelabel.paper.figures.figure_kinds import Draw, draw_corrected_images, draw_panels
from surelabel.paper.figures.gradient_share import MEASURED
from surelabel.paper.figures.panel_runs import (
    ANNEALED,
    FULL_CAR,
    GIVEN_LABELS,
    PAPER_DATA,
    SELECTED,
    STEPPED,
    FoundRun,
    RunQuery,
    method_text,
    setting_text,
)
from surelabel.paper.figures.sensitivity import draw_study
from surelabel.plotting.drawing import Drawing, add_headline, plain_text

SYMMETRIC_40, SYMMETRIC_60, SYMMETRIC_80 = ("symmetric", 0.4), ("symmetric", 0.6), ("symmetric", 0.8)
ASYMMETRIC_40 = ("asymmetric", 0.4)
NUMBERED = "figure-"
"""How the names of files begin that show a figure of the paper."""
BETAS = (0.0, 0.1, 0.3, 0.5)


@dataclass(frozen=True)
class NumberedFigure:
    """A figure of the paper, or one of its kind from other runs."""

    number: int | None
    """None for a figure that only shows runs of a user."""
    name: str
    title: str
    """May contain {method} and {setting} (data and noise), which are those of the first run."""
    panels: Mapping[str, RunQuery]
    """By the title that a panel has while it is empty."""
    presets: tuple[str, ...]
    """The presets of `surelabel reproduce` that train its runs."""
    draw: Draw
    condition: str = ""
    """What else the runs must have, for the error about missing runs."""

    def draw_from(self, available: Sequence[FoundRun]) -> tuple[Drawing, Sequence[FoundRun]]:
        """Draw the figure, and return it with the runs it shows; raise if there are none."""
        picture = self.draw(self.panels, available)
        if picture is None:
            raise RunError(self._describe_missing_runs())
        title = self.title.format(method=method_text(picture.runs[0]), setting=setting_text(picture.runs[0]))
        add_headline(picture.figure, title)
        name, heading = self._name(picture.runs), plain_text(title)
        if name.startswith(NUMBERED):
            heading = f"Figure {self.number}: {heading}"
        return Drawing(name, heading, picture.text, picture.figure), picture.runs

    def _name(self, runs: Sequence[FoundRun]) -> str:
        """Return number and name of the paper, or the name with the data where those are others."""
        if self.number is None:
            return self.name
        if all(one.data is not None for one in runs):
            return f"{NUMBERED}{self.number:02d}-{self.name}"
        kind = next((self.name.removesuffix(f"-{data}") for data in PAPER_DATA if self.name.endswith(data)), self.name)
        return "-".join([kind, *dict.fromkeys(one.file_name for one in runs)])

    def _describe_missing_runs(self) -> str:
        wanted = "; ".join(dict.fromkeys(one.text for one in self.panels.values()))
        commands = " and ".join(f"surelabel reproduce {preset}" for preset in self.presets)
        subject = f"figure {self.number} ({self.name}) needs finished runs that are not there"
        return f"{subject}: {wanted}{self.condition}; make them with: {commands} (--dry-run says how much that is)"


def _three_ways(measured: str | None = None) -> dict[str, RunQuery]:
    """Return the columns of Figures 1 and 3."""
    return {
        "(a) cross entropy, multi-step": RunQuery(
            "cifar10", SYMMETRIC_40, "cross_entropy", GIVEN_LABELS, schedules=STEPPED, measured=measured
        ),
        "(b) cross entropy, cosine": RunQuery(
            "cifar10", SYMMETRIC_40, "cross_entropy", GIVEN_LABELS, schedules=ANNEALED, measured=measured
        ),
        "(c) CAR": RunQuery("cifar10", SYMMETRIC_40, options=FULL_CAR, preferred=SELECTED, measured=measured),
    }


def _pair(noise: tuple[str, float]) -> dict[str, RunQuery]:
    return {_cifar10(noise): RunQuery("cifar10", noise, options=FULL_CAR, preferred=SELECTED)}


def _cifar10(noise: tuple[str, float]) -> str:
    return f"CIFAR-10, {100 * noise[1]:g} % {noise[0]} noise"


def _sensitivity(number: int, data: str) -> NumberedFigure:
    panels = {"": RunQuery(data, SYMMETRIC_60, options=FULL_CAR)}
    title = "Test accuracy by one parameter at a time: {method}, {setting}"
    condition = ", with at least two values of lambda, beta, E_c, alpha or delta"
    return NumberedFigure(number, f"sensitivity-{data}", title, panels, ("sensitivity",), draw_study, condition)


def _confidence(number: int, noise: tuple[str, float]) -> NumberedFigure:
    title = "Average confidence by clean and false label (CAR)"
    name = f"confidence-{100 * noise[1]:g}"
    return NumberedFigure(
        number, name, title, _pair(noise), ("correction",), draw_panels(figure_kinds.draw_confidences)
    )


def _images(number: int, data: str, preset: str) -> NumberedFigure:
    panels = {"": RunQuery(data, images=True)}
    title = "Given label above in red, corrected label below in green: {method}, {setting}"
    return NumberedFigure(number, f"corrected-{data}", title, panels, (preset,), draw_corrected_images)


_DENSITIES = {
    f"{name}, 40 % symmetric noise": RunQuery(data, SYMMETRIC_40, options={**FULL_CAR, "reverse_weight": 0.0})
    for name, data in (("CIFAR-10", "cifar10"), ("CIFAR-100", "cifar100"))
}
_BY_BETA = {
    rf"$\beta$ = {beta:g}": RunQuery("cifar100", SYMMETRIC_40, options={**FULL_CAR, "reverse_weight": beta})
    for beta in BETAS
}
_CORRECTIONS = {
    name: one for noise in (SYMMETRIC_60, SYMMETRIC_80, ASYMMETRIC_40) for name, one in _pair(noise).items()
}
_CORRECTED = "Corrected against clean labels (CAR)"

FIGURES: tuple[NumberedFigure, ...] = (
    NumberedFigure(
        1,
        "memorisation",
        "What becomes of clean and of false labels: {setting}",
        _three_ways(),
        ("memorisation",),
        draw_panels(figure_kinds.draw_memorisation),
    ),
    NumberedFigure(
        2,
        "density",
        r"Density of confidence $\tau$ (CAR, $\beta$ = 0)",
        _DENSITIES,
        ("confidence",),
        draw_panels(figure_kinds.draw_densities),
    ),
    NumberedFigure(
        3,
        "gradients",
        "Share of the gradient from clean and from false labels: {setting}",
        _three_ways(MEASURED),
        ("memorisation",),
        draw_panels(figure_kinds.draw_gradients),
    ),
    NumberedFigure(
        4,
        "density-by-beta",
        r"Effect of $\beta$ on the density of confidence $\tau$: {method}, {setting}",
        _BY_BETA,
        ("confidence",),
        draw_panels(figure_kinds.draw_densities_by_option),
    ),
    _confidence(5, SYMMETRIC_40),
    NumberedFigure(
        6, "correction-40", _CORRECTED, _pair(SYMMETRIC_40), ("correction",), draw_panels(figure_kinds.draw_corrections)
    ),
    NumberedFigure(
        7, "correction", _CORRECTED, _CORRECTIONS, ("correction",), draw_panels(figure_kinds.draw_corrections)
    ),
    _confidence(8, SYMMETRIC_60),
    _confidence(9, SYMMETRIC_80),
    _sensitivity(10, "cifar10"),
    _sensitivity(11, "cifar100"),
    _images(12, "webvision", "table3"),
    _images(13, "clothing1m", "table2"),
)


def find_figure(text: str) -> NumberedFigure:
    """Return a figure by its number or name."""
    for figure in FIGURES:
        if text in (str(figure.number), figure.name):
            return figure
    known = ", ".join(f"{figure.number} ({figure.name})" for figure in FIGURES)
    raise ConfigError(f"there is no figure {text!r}; available: {known}")


def figure_files(drawing: Drawing, folder: Path) -> list[Path]:
    """Return the files of a figure: svg, png and text."""
    return [*drawing.files(folder), folder / f"{drawing.name}.md"]


def write_figure(drawing: Drawing, runs: Sequence[FoundRun], folder: Path) -> list[Path]:
    """Write a figure and which runs it shows to `folder`; return its files."""
    files = figure_files(drawing, folder)
    drawing.write(folder)
    replace_text(files[-1], _describe(drawing, runs))
    return files


def _describe(drawing: Drawing, runs: Sequence[FoundRun]) -> str:
    lines = [f"- {one.run.path.name}: {one.config.train.epochs} epochs, seed {one.seed}" for one in runs]
    return "\n".join([f"# {drawing.title}", "", drawing.text, "", "Drawn from these runs:", "", *lines, ""])
