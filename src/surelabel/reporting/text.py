"""Numbers and findings in plain words."""

import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from surelabel.plotting.curves import accuracy_on_test, names_of_tests
from surelabel.reporting.reported_run import ReportedRun
from surelabel.verdicts import Rate


def percent(share: float) -> str:
    """12.3 %, which stays on one line."""
    return f"{100 * share:.1f}\u00a0%"


def amount(count: int, noun: str, plural: str | None = None) -> str:
    """1 label, 2 labels."""
    return f"{count:,} {noun if count == 1 else plural or f'{noun}s'}"


def distinct(short: Sequence[str], paths: Sequence[Path]) -> list[str]:
    """Short names; whole paths where two are called alike."""
    return list(short) if len(set(short)) == len(short) else [str(path) for path in paths]


def rate_text(rate: Rate) -> str:
    """12.3 % (10.1 to 15.0)."""
    if rate.rate is None or rate.interval is None:
        return "-"
    low, high = rate.interval
    return f"{percent(rate.rate)} ({100 * low:.1f}\u00a0to\u00a0{100 * high:.1f})"


def warnings(chapter: ReportedRun) -> Iterator[str]:
    """What a reader should know before anything else."""
    yield from chapter.audit.warnings
    yield from chapter.config.notices()
    if chapter.corpus is None:
        yield "The data of this run could not be read again, so no samples are shown, only their ids."


def summary(chapter: ReportedRun) -> Iterator[str]:
    """What was found."""
    look = f"{chapter.num_flagged:,} of {amount(len(chapter.audit), 'label')} look wrong"
    yield f"{look}: their P(wrong) is {chapter.audit.min_probability:g} or more."
    yield from chapter.audit.sentences()
    yield from accuracy_sentences(chapter)


def accuracy_sentences(chapter: ReportedRun) -> Iterator[str]:
    """Accuracy of the last epoch; never of the best one, which nobody could have stopped at."""
    tests = names_of_tests(chapter.metrics)
    for name in tests:
        epochs, values = accuracy_on_test(chapter.metrics, name)
        where = "the test set" if len(tests) == 1 else f"the test set {name}"
        yield f"The network predicts {percent(values[-1])} of {where} correctly after the last epoch ({epochs[-1]})."
    if not tests:
        yield "There is no test set, so how well the network predicts new data is not known."


def confidence_note(chapter: ReportedRun) -> str | None:
    """Why the figures do not show tau, where the method has it."""
    tau = chapter.columns["tau"][np.isfinite(chapter.columns["tau"])]
    if not len(tau) or not chapter.is_tau_flat:
        return None
    return (
        f"The confidence tau is about {np.median(tau):.2f} for nearly all labels at the end of this run and no longer tells them "
        "apart, so the figures show the quality of the labels instead."
    )


def introduction(chapter: ReportedRun) -> str:
    """What the run was."""
    settings, last = chapter.config, chapter.metrics[-1] if chapter.metrics else {}
    noise = settings.noise
    added = (
        ""
        if noise is None
        else f", with {noise.kind} noise added" + (f" at {percent(noise.rate)}" if noise.rate else "")
    )
    return (
        f"{amount(len(chapter.audit), 'label')} in {len(chapter.class_names):,} classes of {settings.data.source}{added}; method "
        f"{settings.method.name}, {amount(last.get('epoch', 0), 'epoch')}, seed {settings.train.seed}."
    )


def key_figures(chapter: ReportedRun) -> Iterator[tuple[str, str]]:
    """The few numbers that most readers came for."""
    yield "labels", f"{len(chapter.audit):,}"
    yield "look wrong", f"{chapter.num_flagged:,}"
    yield "probably wrong in all", rate_text(chapter.audit.noise_rate) if chapter.audit.can_tell else "not known"
    test = accuracy_on_test(chapter.metrics)[1]
    if test:
        yield "test accuracy, last epoch", percent(test[-1])
    if chapter.is_wrong is not None:
        yield "really wrong", f"{int(chapter.is_wrong.sum()):,}"


def next_steps(chapter: ReportedRun) -> list[tuple[str, str]]:
    """Commands, and what for."""
    run = shlex.quote(str(chapter.run.path))
    return [
        (f"surelabel review {run}", "look at the suspects and decide, by keyboard"),
        (f"surelabel export {run}", "write the cleaned labels; the data stay as they are"),
        (f"surelabel audit {run}", "all labels as a table, the most suspicious first"),
    ]
