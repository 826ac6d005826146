"""Numbers and findings of a run in plain sentences."""

import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from surelabel.plotting.curves import accuracy_on_test, names_of_tests
from surelabel.reporting.reported_run import ReportedRun
from surelabel.verdicts.classes import Rate


def percent(fraction: float) -> str:
    """Format a fraction as 12.3 %, with a space that does not break the line."""
    return f"{100 * fraction:.1f}\u00a0%"


def amount(count: int, noun: str, plural: str | None = None) -> str:
    """Format a count with its noun: 1 label, 2 labels."""
    return f"{count:,} {noun if count == 1 else plural or f'{noun}s'}"


def distinct_names(names: Sequence[str], paths: Sequence[Path]) -> list[str]:
    """Return the names, or the whole paths if two names are equal."""
    return list(names) if len(set(names)) == len(names) else [str(path) for path in paths]


def rate_text(rate: Rate) -> str:
    """Format a rate with its interval: 12.3 % (10.1 to 15.0)."""
    if rate.rate is None or rate.interval is None:
        return "-"
    low, high = rate.interval
    return f"{percent(rate.rate)} ({100 * low:.1f}\u00a0to\u00a0{100 * high:.1f})"


def noise_rate_text(run: ReportedRun) -> str:
    """Format the estimated fraction of wrong labels, if the audit can tell."""
    return rate_text(run.audit.noise_rate) if run.audit.can_tell else "not known"


def introduction(run: ReportedRun) -> str:
    """Describe the run: data, noise, method, epochs and seed."""
    config, last = run.config, run.metrics[-1] if run.metrics else {}
    noise = ""
    if config.noise is not None:
        rate = f" at {percent(config.noise.rate)}" if config.noise.rate else ""
        noise = f", with {config.noise.kind} noise added{rate}"
    return (
        f"{amount(len(run.audit), 'label')} in {len(run.class_names):,} classes of {config.data.source}{noise}; "
        f"method {config.method.name}, {amount(last.get('epoch', 0), 'epoch')}, seed {config.train.seed}."
    )


def warnings(run: ReportedRun) -> Iterator[str]:
    """Yield what a reader should know before anything else."""
    yield from run.audit.warnings
    yield from run.config.notices()
    if run.corpus is None:
        yield "The data of this run could not be read again, so no samples are shown, only their ids."


def key_figures(run: ReportedRun) -> Iterator[tuple[str, str]]:
    """Yield name and value of the few numbers that most readers look for."""
    yield "labels", f"{len(run.audit):,}"
    yield "look wrong", f"{run.num_suspicious:,}"
    yield run.audit.claim if run.audit.can_tell else "are wrong", noise_rate_text(run)
    test = accuracy_on_test(run.metrics)[1]
    if test:
        yield "test accuracy, last epoch", percent(test[-1])
    if run.is_wrong is not None:
        yield "really wrong", f"{int(run.is_wrong.sum()):,}"


def findings(run: ReportedRun) -> Iterator[str]:
    """Yield what the run found out about the labels and the network."""
    suspicious = f"{run.num_suspicious:,} of {amount(len(run.audit), 'label')} look wrong"
    yield f"{suspicious}: their P(wrong) is {run.audit.min_probability:g} or more."
    yield from run.audit.sentences()
    yield from _accuracy_sentences(run)


def _accuracy_sentences(run: ReportedRun) -> Iterator[str]:
    """Yield the accuracy of the last epoch; choosing the best epoch would need the test labels."""
    tests = names_of_tests(run.metrics)
    for name in tests:
        epochs, values = accuracy_on_test(run.metrics, name)
        where = "the test set" if len(tests) == 1 else f"the test set {name}"
        yield f"The network predicts {percent(values[-1])} of {where} correctly after the last epoch ({epochs[-1]})."
    if not tests:
        yield "There is no test set, so how well the network predicts new data is not known."


def confidence_note(run: ReportedRun) -> str | None:
    """Explain why the figures do not show tau, if the method has one."""
    tau = run.columns["tau"][np.isfinite(run.columns["tau"])]
    if not len(tau) or not run.is_tau_flat:
        return None
    return (
        f"The confidence tau is about {np.median(tau):.2f} for nearly all labels at the end of this run and no longer "
        "tells them apart, so the figures show the quality of the labels instead."
    )


def next_steps(run: ReportedRun) -> list[tuple[str, str]]:
    """Return the commands to run next, each with its purpose."""
    path = shlex.quote(str(run.run_dir.path))
    return [
        (f"surelabel review {path}", "look at the suspects and decide, by keyboard"),
        (f"surelabel export {path}", "write the cleaned labels; the data stay as they are"),
        (f"surelabel audit {path}", "all labels as a table, the most suspicious first"),
    ]
