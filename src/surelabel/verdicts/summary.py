"""The figures of an audit as sentences, and as one value for JSON."""

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from surelabel import notebook
from surelabel.class_names import describe_alike
from surelabel.runs.decisions import FILE_NAME
from surelabel.verdicts import advice
from surelabel.verdicts.answers import TO_REMOVE
from surelabel.verdicts.calibration import MIN_ROWS
from surelabel.verdicts.classes import Rate
from surelabel.verdicts.corrections import MOST_NAMED, listed, losing_counts
from surelabel.verdicts.evidence import HELD_OUT, TRAINED
from surelabel.verdicts.kinds import AMBIGUOUS, DUPLICATE, OUTLIER

if TYPE_CHECKING:
    from surelabel.verdicts.audit import Audit

NUM_PAIRS = 10
NOTEBOOK_COLUMNS = ("rank", "id", "given", "suggested", "p_wrong", "quality", "kind")
NOTEBOOK_ROWS = 10
"""What a notebook shows of the table."""
STRONG = 0.75
"""If random labels look worse than the given ones less often, inputs hardly predict labels."""
MAY_FOLLOW_INPUTS = (
    "Mistakes may follow the inputs, as those of rules, word lists, language models and tired people do: many more "
    "labels are unclear from their inputs than contradict the other rows. Models repeat such mistakes, so P(wrong) is "
    "a rank here and no probability. To find out, check 40 labels at random on the review page, or better 100."
)
NARROW = 0.02
"""A narrower interval for a rate is shown with a decimal."""


def as_dict(audit: "Audit") -> dict[str, Any]:
    """Return everything except the rows, as plain Python values."""
    return {
        "rows": len(audit),
        "suspicious": audit.num_suspicious,
        "suspicious_from": audit.min_probability,
        "own_labels": audit.num_own,
        "confidence": audit.confidence,
        **{f"noise_{key}": value for key, value in audit.noise_rate.to_dict().items() if key != "labels"},
        "classes": {name: rate.to_dict() for name, rate in audit.class_rates.items()},
        "class_names": list(audit.class_names),
        "transition_matrix": audit.transition_matrix.tolist(),
        "confused_pairs": [
            {"given": p.given, "true": p.true, "labels": p.num_labels, "share_of_given": p.share_of_given}
            for p in audit.confused_pairs(NUM_PAIRS)
        ],
        "kinds": audit.kinds.counts(),
        "ambiguous_unknown_because": audit.kinds.doubt,
        "losing_classes": losing_counts(audit.losing),
        "worth_a_look": audit.worth_a_look.to_dict(),
        "budgets": [plan.to_dict() for plan in audit.budgets()],
        "review": _review(audit),
        "measures": audit.measures() or None,
        "basis": list(audit.basis),
        "may_follow_inputs": audit.may_follow_inputs,
        "can_tell": audit.can_tell,
        "drift": [drift.to_dict() for drift in audit.drifts],
        "warnings": audit.warnings,
    }


def headline(audit: "Audit") -> str:
    """Return the size of an audit and the number of labels that look wrong."""
    return f"Audit of {len(audit):,} labels: {audit.num_suspicious:,} look wrong."


def as_html(audit: "Audit") -> str:
    """Return the figures, the warnings and the most suspicious rows for a notebook."""
    columns = [name for name in NOTEBOOK_COLUMNS if name in audit.columns]
    rows = ([np.asarray(row[name]).item() for name in columns] for row in audit.head(NOTEBOOK_ROWS))
    texts = [headline(audit), *audit.sentences(), *(f"Warning: {text}" for text in audit.warnings)]
    return notebook.paragraphs(texts) + notebook.table(columns, rows)


def sentences(audit: "Audit") -> Iterator[str]:
    """Yield the figures in plain words, without those that the audit cannot tell."""
    after = _after_review(audit)
    if not audit.can_tell:
        yield from (_join(after, text) for text in _unknown(audit))
        yield from audit.basis
        yield from _own_labels(audit)
        yield from _random_labels(audit)
        yield from _worth_a_look(audit)
        yield from _kinds(audit)
        yield from _truth(audit)
        return
    yield _join(after, " ".join(_count(audit)))
    yield from audit.basis
    yield from _own_labels(audit)
    yield from _random_labels(audit)
    yield from _worth_a_look(audit)
    pairs = [f"{p.num_labels:,.0f} given as {p.given!r} are {p.true!r}" for p in audit.confused_pairs(3)]
    if pairs:
        yield f"Most often confused: about {', '.join(pairs)}."
    yield from _worst_class(audit)
    yield from _kinds(audit)
    yield from _truth(audit)


def _unknown(audit: "Audit") -> Iterator[str]:
    """Yield what is known if the number of wrong labels is not."""
    rate = audit.noise_rate
    if not audit.is_doubtful:
        known = f" {_between(rate)}" if audit.is_calibrated else ""
        yield f"How many of the {rate.num_labels:,} labels are wrong is not known{known}."
        return
    yield (
        f"About {rate.num_wrong:,.0f} of {rate.num_labels:,} labels contradict the other rows; "
        f"how many are wrong is not known {_between(rate)}."
    )


def _count(audit: "Audit") -> Iterator[str]:
    """Yield how many labels are wrong, and what that leaves out."""
    rate = audit.noise_rate
    many = f"{'Roughly' if audit.is_rough else 'About'} {rate.num_wrong:,.0f} of {rate.num_labels:,} labels"
    yield f"{many} {audit.claim}: {_percent(rate.rate)} {_between(rate)}."
    if audit.combined is None:
        signs = ", of which there is no sign" if audit.may_follow_inputs is False else ""
        yield f"Not counted: mistakes that follow the inputs{signs}."


def _worth_a_look(audit: "Audit") -> Iterator[str]:
    """Yield how long a list is worth a look, and what it holds."""
    plan = audit.worth_a_look
    if plan.num_wrong < 0.5:
        return
    ends = f"between {plan.low:,.0f} and {plan.high:,.0f}"
    if not audit.can_tell:
        known = "" if audit.is_doubtful else f": {ends} are wrong"
        yield f"Look at the first {plan.budget:,}{known}."
        return
    every = "all wrong ones" if audit.review is None else "the wrong ones that are left"
    yield (
        f"Look at the first {plan.budget:,}: about {plan.num_wrong:,.0f} are wrong ({ends}), which is "
        f"{_percent(plan.recall)} of {every} ({100 * plan.recall_low:.0f} to {100 * plan.recall_high:.0f} %)."
    )


def _own_labels(audit: "Audit") -> Iterator[str]:
    """Yield how many labels an earlier run has suggested, and what their P(wrong) rests on."""
    if count := audit.num_own:
        one = count == 1
        basis = (
            f"{'its' if one else 'their'} P(wrong) rests on the inputs and the labels as given, not on this training."
            if audit.power is not None
            else "this training cannot tell how many of them are wrong. Look at some labels drawn at random."
        )
        are = "label is surelabel's own suggestion" if one else "labels are surelabel's own suggestions"
        yield f"{count:,} of {len(audit):,} {are}; {basis}"


def _kinds(audit: "Audit") -> Iterator[str]:
    """Yield a sentence for each kind other than wrong, where there is something to say."""
    texts = {
        DUPLICATE: ("has a copy or near-copy", "have copies or near-copies", "with another label."),
        OUTLIER: ("is an outlier:", "are outliers:", "far from all other rows."),
        AMBIGUOUS: ("is ambiguous:", "are ambiguous:", "two or more classes fit the input."),
    }
    counts = audit.kinds.counts()
    for kind, (one, many, meaning) in texts.items():
        if count := counts[kind]:
            yield f"{count:,} {'row' if count == 1 else 'rows'} {one if count == 1 else many} {meaning}"
    if audit.kinds.doubt is not None:
        yield f"Which rows are ambiguous is not known: {audit.kinds.doubt}."


def _after_review(audit: "Audit") -> str:
    """Return how many decisions there are, and of how many a person has seen the row."""
    if audit.review is None or not audit.review.num_decided:
        return ""
    count, looked, sample = audit.review.num_decided, audit.review.num_looked, audit.review.answers.sample
    drawn = 0 if sample is None else int((~sample.is_skipped).sum())
    after = f"After {count:,} decision{'s'[: count != 1]}"
    if not looked:
        return f"{after} made in bulk: "
    if looked == count:
        return f"{after}, {drawn:,} of them drawn at random: " if drawn else f"{after}: "
    at_random = f" ({drawn:,} drawn at random)" if drawn else ""
    return f"{after}, {looked:,} of them looked at{at_random} and {count - looked:,} made in bulk: "


def _join(after: str, sentence: str) -> str:
    return after + (sentence[0].lower() + sentence[1:] if after else sentence)


def _random_labels(audit: "Audit") -> Iterator[str]:
    """Yield what a random sample says by itself."""
    sample = None if audit.review is None else audit.review.answers.sample
    if sample is None or not sample.size:
        return
    low, high = sample.interval(audit.confidence)
    rate = Rate(sample.num_labels, 0, low, high)
    labels = f"{sample.size:,} label{'s'[: sample.size != 1]}"
    part = labels if sample.size == sample.num_drawn else f"first {labels}"
    verb = "is" if sample.num_wrong == 1 else "are"
    num_skipped = int(sample.is_skipped.sum())
    skipped = f"; {num_skipped:,} skipped, each may be either" if num_skipped else ""
    alone = _between(rate)[1:-1]
    yield f"Of the {part} drawn at random, {sample.num_wrong:,} {verb} wrong{skipped}: by them alone {alone}."


def _review(audit: "Audit") -> dict[str, Any] | None:
    """Return the decisions in numbers, for JSON; None without any."""
    if audit.review is None:
        return None
    answers, sample = audit.review.answers, audit.review.answers.sample
    found: dict[str, Any] = {
        "decided": audit.review.num_decided,
        "bulk": audit.review.num_decided - audit.review.num_looked,
        "wrong": int(answers.is_wrong.sum()),
        "removed": int((audit.review.labels == TO_REMOVE).sum()),
        "random": None,
    }
    if sample is not None:
        ends = [end / max(1, sample.num_labels) for end in sample.interval(audit.confidence)]
        counts = {"drawn": sample.num_drawn, "checked": sample.size, "skipped": int(sample.is_skipped.sum())}
        found["random"] = {**counts, "wrong": sample.num_wrong, "interval": ends}
    return found


def warnings(audit: "Audit") -> Iterator[str]:
    """Yield what a reader must know before relying on the figures."""
    yield from _damage(audit)
    yield from audit.caveats
    yield from _alike(audit)
    yield from _unclear(audit)
    yield from _contradiction(audit)
    yield from advice.causes(audit)
    yield from _losing(audit)


def _alike(audit: "Audit") -> Iterator[str]:
    """Yield which of the classes that have labels have names that look alike."""
    yield from describe_alike(Counter(audit.columns["given"].tolist()))


def _damage(audit: "Audit") -> Iterator[str]:
    """Yield that decisions are lost, if they are."""
    if audit.damage:
        yield (
            f"The journal of decisions, {FILE_NAME}, is damaged: {audit.damage}. Decisions in it are lost to these "
            "figures. Restore the file from a backup, or accept the loss with `surelabel review --accept-damage`."
        )


def _contradiction(audit: "Audit") -> Iterator[str]:
    """Yield that the random sample and the model disagree, if they do."""
    both = audit.combined
    if both is not None and both.contradicts:
        model, sample = (_between(Rate(len(audit), 0, *ends))[1:-1] for ends in (both.by_model, both.by_sample))
        yield (
            f"The labels drawn at random contradict the model: it expected {model} wrong labels, they say {sample}. "
            "The figures follow them; look at random labels of each class before you rely on P(wrong)."
        )


def _losing(audit: "Audit") -> Iterator[str]:
    """Yield warnings about classes that would lose most labels; one sentence for many."""
    if len(audit.losing) > MOST_NAMED:
        yield (
            f"Accepting all suggestions would change most labels of {len(audit.losing):,} classes: "
            f"{listed(audit.losing)}. Look at rare or hard ones first, or cap the changes per class."
        )
        return
    for name, (lost, size) in audit.losing.items():
        yield (
            f"Accepting all suggestions would change {lost:,} of the {size:,} labels {name!r}. "
            "If that class is rare or hard, look at them first, or cap the changes per class."
        )


def _unclear(audit: "Audit") -> Iterator[str]:
    """Yield warnings about labels that do not separate into right and wrong ones."""
    parts = {TRAINED: "labels", HELD_OUT: "held-out labels"}
    for verdict, text in parts.items():
        rows = np.flatnonzero(audit.columns["verdict"] == verdict)
        if not len(rows) or audit.calibration.is_separated_for(verdict):
            continue
        if len(rows) < MIN_ROWS:
            yield f"Only {len(rows)} {text}: too few to calibrate, so P(wrong) is 1 - quality."
        else:
            yield (
                f"The {text} do not fall into right and wrong ones, so P(wrong) is near 1 - quality: "
                "a rank, not a probability."
            )
    low, high = audit.noise_rate.interval or (0.0, 1.0)
    if audit.is_rough:
        yield f"The number of wrong labels is uncertain: between {_percent(low)} and {_percent(high)}."
    elif audit.is_doubtful:
        yield MAY_FOLLOW_INPUTS
    elif audit.power is not None and not audit.can_tell and audit.combined is None:
        yield _cannot_tell(audit.power)


def _cannot_tell(power: float) -> str:
    """Return why the second opinion cannot tell how many labels are wrong."""
    if power < STRONG:
        return (
            "Cannot tell on this data how many labels are wrong: the inputs hardly predict them. A label drawn at "
            f"random looks worse than the given one in only {_percent(power)} of the rows (chance is 50 %)."
        )
    return (
        "Cannot tell on this data how many labels are wrong: the classes of many rows are unclear from their inputs, "
        "and such labels may be wrong or merely hard. To find out, check 100 labels at random on the review page."
    )


def _worst_class(audit: "Audit") -> Iterator[str]:
    """Yield the worst class whose interval lies above the overall rate."""
    overall = audit.noise_rate.rate or 0
    rates = {name: rate for name, rate in audit.class_rates.items() if rate.interval and rate.interval[0] > overall}
    if rates:
        name, rate = max(rates.items(), key=lambda item: item[1].rate or 0)
        yield f"The class with the largest share of wrong labels is {name!r}: {_percent(rate.rate)} {_between(rate)}."


def _truth(audit: "Audit") -> Iterator[str]:
    """Yield the measures, if clean labels are known."""
    found = audit.measures()
    if not found:
        return
    ranked = (
        f"AUROC {found['quality_auroc']:.3f}, average precision {found['average_precision']:.3f}, "
        if "quality_auroc" in found
        else ""
    )
    yield (
        f"The true labels are known here: {_percent(found['wrong_labels'], 1)} are wrong, "
        f"estimated {_percent(found['estimated_wrong_labels'], 1)}; {ranked}"
        f"calibration error {found.get('calibration_error', 0):.3f}, "
        f"suggestions are right in {_percent(found['suggested_accuracy'], 1)}."
    )


def _percent(share: float | None, digits: int = 0) -> str:
    return "unknown" if share is None else f"{100 * share:.{digits}f} %"


def _between(rate: Rate) -> str:
    low, high = rate.interval or (0.0, 1.0)
    digits = 0 if high - low >= NARROW else 1
    return f"(between {100 * low:.{digits}f} and {100 * high:.{digits}f} %)"
