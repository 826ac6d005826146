"""Numbers and findings in plain words."""

from collections.abc import Iterator

import numpy as np

from surelabel.analysis.curves import accuracy_on_test, names_of_tests
from surelabel.analysis.pairs import counts, top_pairs
from surelabel.reporting.chapter import Chapter

NUM_PAIRS = 5
BUDGETS = (50, 100, 200, 500, 1000, 2000)
"""Numbers of suspects that somebody may want to look at."""
MOST_LOST = 0.5
"""Share of a class's labels that look wrong, from which on the class is named in a warning."""


def percent(share: float) -> str:
    """12.3 %, which stays on one line."""
    return f"{100 * share:.1f}\u00a0%"


def amount(count: int, noun: str) -> str:
    """1 label, 2 labels."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def warnings(chapter: Chapter) -> Iterator[str]:
    """What a reader should know before anything else."""
    if 2 * chapter.num_flagged > len(chapter.audit):
        yield (
            "More than half of the labels look wrong. That is more likely a run that did not learn than data this bad: look at the "
            "accuracy below, train longer, or try another learning rate."
        )
    yield from _lost_classes(chapter)
    yield from chapter.config.notices()
    if chapter.corpus is None:
        yield "The data of this run could not be read again, so no samples are shown, only their ids."


def _lost_classes(chapter: Chapter) -> Iterator[str]:
    if 2 * chapter.num_flagged > len(chapter.audit):
        return
    given = chapter.codes("given")
    total = np.bincount(given, minlength=len(chapter.class_names))
    flagged = np.bincount(given[chapter.flagged], minlength=len(chapter.class_names))
    for at in np.flatnonzero(flagged > MOST_LOST * total):
        yield (
            f"{flagged[at]:,} of the {total[at]:,} labels {chapter.class_names[at]!r} look wrong. If that class is rare or hard, look at "
            "them before correcting any."
        )


def summary(chapter: Chapter) -> Iterator[str]:
    """What was found."""
    share = chapter.num_flagged / max(1, len(chapter.audit))
    yield f"{chapter.num_flagged:,} of {amount(len(chapter.audit), 'label')} look wrong ({percent(share)})."
    yield from _expected(chapter)
    pairs = top_pairs(_suggested(chapter), NUM_PAIRS)
    if pairs:
        names = chapter.class_names
        listed = "; ".join(f"given {names[a]}, suggested {names[b]} ({count:,})" for a, b, count in pairs)
        yield f"Most often: {listed}."
    yield from accuracy_sentences(chapter)
    yield from _truth(chapter)


def _expected(chapter: Chapter) -> Iterator[str]:
    """What calibrated probabilities say about the whole, and about the first that somebody looks at."""
    if chapter.p_wrong is None or not len(chapter.p_wrong):
        return
    total = chapter.p_wrong.sum()
    yield f"By their probabilities, about {total:,.0f} labels are wrong in all ({percent(total / len(chapter.p_wrong))})."
    budget = max((size for size in BUDGETS if size <= chapter.num_flagged), default=chapter.num_flagged)
    first = chapter.p_wrong[:budget]
    if budget:
        yield f"Look at the first {amount(len(first), 'suspect')}: about {first.sum():,.0f} are wrong."


def _suggested(chapter: Chapter) -> np.ndarray:
    """(K, K): labels that look wrong, by given and suggested class."""
    given, suggested = (chapter.codes(name)[chapter.flagged] for name in ("given", "suggested"))
    return counts(given, suggested, len(chapter.class_names))


def accuracy_sentences(chapter: Chapter) -> Iterator[str]:
    """Accuracy of the last epoch; never of the best one, which nobody could have stopped at."""
    tests = names_of_tests(chapter.metrics)
    for name in tests:
        epochs, values = accuracy_on_test(chapter.metrics, name)
        where = "the test set" if len(tests) == 1 else f"the test set {name}"
        yield f"The network predicts {percent(values[-1])} of {where} correctly after the last epoch ({epochs[-1]})."
    if not tests:
        yield "There is no test set, so how well the network predicts new data is not known."


def _truth(chapter: Chapter) -> Iterator[str]:
    measured = chapter.audit.measures()
    if not measured:
        return
    text = f"The true labels of this run are known: {percent(measured['wrong_labels'])} of the labels are really wrong"
    if "quality_auroc" in measured:
        text += f"; the ranking finds them with an AUROC of {measured['quality_auroc']:.3f}"
    yield f"{text}, and {percent(measured['suggested_accuracy'])} of the suggestions are right."


def confidence_note(chapter: Chapter) -> str | None:
    """Why the figures do not show tau, where the method has it."""
    tau = chapter.columns["tau"][np.isfinite(chapter.columns["tau"])]
    if not len(tau) or not chapter.is_tau_flat:
        return None
    return (
        f"The confidence tau is about {np.median(tau):.2f} for nearly all labels at the end of this run and no longer tells them "
        "apart, so the figures show the quality of the labels instead."
    )


def introduction(chapter: Chapter) -> str:
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


def key_figures(chapter: Chapter) -> Iterator[tuple[str, str]]:
    """The few numbers that most readers came for."""
    yield "labels", f"{len(chapter.audit):,}"
    yield "look wrong", f"{chapter.num_flagged:,}"
    test = accuracy_on_test(chapter.metrics)[1]
    if test:
        yield "test accuracy, last epoch", percent(test[-1])
    if chapter.is_wrong is not None:
        yield "really wrong", f"{int(chapter.is_wrong.sum()):,}"


def next_steps(chapter: Chapter) -> list[tuple[str, str]]:
    """Commands, and what for."""
    run = chapter.run.path
    return [
        (f"surelabel review {run}", "look at the suspects and decide, by keyboard"),
        (f"surelabel export {run}", "write the cleaned labels; the data stay as they are"),
        (f"surelabel audit {run}", "all labels as a table, the most suspicious first"),
    ]
