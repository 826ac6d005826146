"""The audit of a run: every label with its P(wrong), the most suspicious first."""

from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from surelabel.errors import ConfigError
from surelabel.runs.decisions import FILE_NAME, Damage, Journal
from surelabel.runs.run_dir import RECORDED, RunDir
from surelabel.verdicts import advice, classes, corrections, evidence, kinds, measures, summary
from surelabel.verdicts import budget as budgets
from surelabel.verdicts.answers import Review, ReviewReader
from surelabel.verdicts.budget import Expected
from surelabel.verdicts.calibration import Calibration, read_calibration, uncalibrated
from surelabel.verdicts.classes import Pair, Rate
from surelabel.verdicts.corrections import Rules
from surelabel.verdicts.drift import Drift
from surelabel.verdicts.random_sample import Combined
from surelabel.verdicts.ranking import DECIDED, REMOVED, in_order, rank_rows, ranked_columns, sum_alternatives
from surelabel.verdicts.reviewed import ReviewedCalibration, Updater
from surelabel.verdicts.table import Table

SUSPICIOUS_FROM = 0.5
"""P(wrong) from which a label looks wrong."""
CONFIDENCE = 0.95
"""Level of intervals."""
TOO_WIDE = 0.4
"""Width of the interval for the rate of wrong labels above which the rate is unknown."""
WIDE = 0.2
"""Width above which the rate is only roughly known."""


class Audit(Table):
    """Every label with its P(wrong), most suspicious first, and estimates for each class.

    The table is ranked: `audit[0]`, `columns`, `head`, `flagged`, `to_frame`, `table` and `to_csv`.
    Its column `row` says where each row is in the user's data, counted from 0. Attributes with a
    value for each row are in the order of those data: `y[audit.is_suspicious]`.
    """

    def __init__(
        self,
        columns: dict[str, np.ndarray],
        class_names: tuple[str, ...],
        *,
        calibration: Calibration | None = None,
        joint_counts: np.ndarray | None = None,
        position: np.ndarray | None = None,
        p_suggested: np.ndarray | None = None,
        training: advice.Training | None = None,
        power: float | None = None,
        may_follow_inputs: bool | None = None,
        review: Review | None = None,
        damage: Damage | None = None,
        caveats: Sequence[str] = (),
        basis: Sequence[str] = (),
        drifts: Sequence[Drift] = (),
        min_probability: float = SUSPICIOUS_FROM,
        confidence: float = CONFIDENCE,
    ) -> None:
        self.calibration = calibration or uncalibrated(columns["quality"], evidence.TRAINED)
        usual = {"row": np.arange(len(columns["id"])), "p_wrong": self.calibration.p_wrong}
        super().__init__({**columns, **{name: usual[name] for name in usual if name not in columns}})
        self._by_row = np.argsort(self.columns["row"], kind="stable")  # the table's rows in the order of the data
        self.class_names, self.min_probability, self.confidence = class_names, min_probability, confidence
        self.joint_counts = np.diag(self._sizes()) if joint_counts is None else joint_counts
        """(K, K) expected number of labels by true class (row) and given class (column)."""
        self._position = np.arange(len(self)) if position is None else position  # of the table's rows in the run
        self._p_suggested = p_suggested
        self.training = training
        """How the run was trained; None if unknown."""
        self.power = power
        """How often a random label looks worse than the given one to the second opinion; None
        without one."""
        self.may_follow_inputs = may_follow_inputs
        """Whether mistakes may follow the inputs; None if that was not tested."""
        self.review = review
        """What people decided since the run ended; None if nothing."""
        self.damage = damage or Damage()
        """What of the journal of decisions cannot be read; False if nothing."""
        self.caveats = tuple(caveats)
        """Sentences on evidence that is missing, and on how far the verdict can be relied on."""
        self.basis = tuple(basis)
        """Sentences on what kind of verdict this is, if it is not that of a finished run."""
        self.drifts = tuple(drifts)
        """Comparisons of new data with those of the run."""
        self.ranked_kinds = kinds.find_kinds(self)
        """The same as `kinds`, in the order of the table."""
        self.columns = in_order(kinds.add_columns(self.columns, self.ranked_kinds))

    def __repr__(self) -> str:
        return f"{summary.headline(self)} {self.sentences()[0]}"

    def _repr_html_(self) -> str:
        return summary.as_html(self)

    @property
    def row(self) -> np.ndarray:
        """(N,) position of each judged row in the user's data, counted from 0 and rising."""
        return self.columns["row"][self._by_row]

    def ranked(self, values: np.ndarray) -> np.ndarray:
        """Return (N,) values that are in the order of the data in the order of the table."""
        found = np.empty_like(values)
        found[self._by_row] = values
        return found

    @cached_property
    def kinds(self) -> kinds.Kinds:
        """Which rows are wrong, duplicates with conflicting labels, outliers, or ambiguous."""
        return self.ranked_kinds.reorder(self._by_row)

    @cached_property
    def is_decided(self) -> np.ndarray:
        """(N,) whether a person has decided on each label."""
        if self.review is None:
            return np.zeros(len(self), dtype=bool)
        return self.review.is_decided[self._position[self._by_row]]

    @property
    def num_own(self) -> int:
        """The number of labels that an earlier run suggested and no person has decided on."""
        return int((evidence.is_own(self.columns) & ~self.ranked(self.is_decided)).sum())

    @property
    def num_open(self) -> int:
        """The number of labels that no person has decided on; they come first in the table."""
        return len(self) - (0 if self.review is None else self.review.num_decided)

    @property
    def combined(self) -> Combined | None:
        """The number of wrong labels by the model and a random sample; None without a sample."""
        return self.calibration.combined if isinstance(self.calibration, ReviewedCalibration) else None

    @cached_property
    def p_suggested(self) -> np.ndarray:
        """(N,) the probability that the suggestion is right; 0 where it is the given label."""
        if self._p_suggested is not None:
            return self._p_suggested[self._by_row]
        # A table without a run: P(wrong) times the probability of the suggestion is a lower bound.
        columns = self.columns
        right = columns["p_wrong"] * np.asarray(columns["suggested_probability"], dtype=np.float64)
        return np.where(columns["suggested"] != columns["given"], right, 0.0)[self._by_row]

    def _sizes(self) -> np.ndarray:
        sizes = Counter(self.columns["given"].tolist())
        return np.array([sizes[name] for name in self.class_names], dtype=np.float64)

    @property
    def num_suspicious(self) -> int:
        """The number of labels that look wrong: P(wrong) is at least `min_probability`."""
        return int(self.is_suspicious.sum())

    @cached_property
    def p_wrong(self) -> np.ndarray:
        """(N,) the probability that each label is wrong."""
        return self.columns["p_wrong"][self._by_row]

    @property
    def is_calibrated(self) -> bool:
        """Whether right and wrong labels separated; if not, P(wrong) is near 1 - quality."""
        return self.calibration.is_separated

    @property
    def can_tell(self) -> bool:
        """Whether the estimated rate of wrong labels is meaningful.

        It must be calibrated, and its interval must not be too wide.
        """
        return self.is_calibrated and self._width <= TOO_WIDE and not self.is_doubtful

    @property
    def is_doubtful(self) -> bool:
        """Whether mistakes may follow the inputs, and no random sample says how many there are."""
        return bool(self.may_follow_inputs) and self.combined is None

    @property
    def claim(self) -> str:
        """What the estimated labels do or are: only a random sample tells how many are wrong."""
        return "contradict the other rows" if self.combined is None else "are wrong"

    @property
    def is_vouched(self) -> np.ndarray:
        """(N,) whether somebody looked at suspects that rank no higher."""
        if not isinstance(self.calibration, ReviewedCalibration):
            return np.zeros(len(self), dtype=bool)
        return self.calibration.vouched[self._by_row]

    @property
    def is_rough(self) -> bool:
        """Whether the estimated rate is only roughly known."""
        return self.can_tell and self._width > WIDE

    @property
    def _width(self) -> float:
        low, high = self.noise_rate.interval or (0.0, 1.0)
        return high - low

    @cached_property
    def repeated(self) -> float:
        """The fraction of training rows whose given label the network predicts in the end."""
        trained = self.columns["verdict"] == evidence.TRAINED
        if not trained.any() or "prediction" not in self.columns:
            return 0.0
        return float((self.columns["prediction"] == self.columns["given"])[trained].mean())

    @property
    def is_suspicious(self) -> np.ndarray:
        """(N,) whether each label looks wrong and no person has decided on it."""
        found: np.ndarray = (self.p_wrong >= self.min_probability) & ~self.is_decided
        return found

    @cached_property
    def noise_rate(self) -> Rate:
        """The estimated fraction of wrong labels, with an interval."""
        return classes.rate_of(self.calibration, np.arange(len(self)), self.confidence)

    @cached_property
    def class_rates(self) -> dict[str, Rate]:
        """The same for the labels of each given class, by name."""
        rows, nothing = classes.rows_by_name(self.columns["given"]), np.array([], dtype=np.int64)
        return {
            name: classes.rate_of(self.calibration, rows.get(name, nothing), self.confidence)
            for name in self.class_names
        }

    @property
    def transition_matrix(self) -> np.ndarray:
        """(K, K) estimated P(given | true), rows and columns in the order of `class_names`."""
        return classes.transition_matrix(self.joint_counts)

    def confused_pairs(self, most: int = 10) -> list[Pair]:
        """Return which classes are given for which others, the most frequent pairs first."""
        return classes.confused_pairs(self.joint_counts, self.class_names, most)

    def expected(self, budget: int) -> Expected:
        """Return how many of the first `budget` labels are probably wrong.

        Labels that a person has decided on come last in the table and do not count.
        """
        if budget < 0:
            raise ConfigError(f"budget={budget}: expected a number of labels, 0 or more")
        return budgets.expected(self.calibration, int(budget), self.confidence, self.num_open)

    @cached_property
    def worth_a_look(self) -> Expected:
        """The list of first labels that is worth a look: the suspects, or longer."""
        limits = self.num_open, self.num_suspicious, self.min_probability
        return self.expected(budgets.worth_a_look(self.calibration, *limits))

    def budgets(self) -> list[Expected]:
        """Return what to expect of about six lengths, up to nearly all wrong labels."""
        left = self.columns["p_wrong"][: self.num_open]
        sizes = budgets.lengths(left, self.num_suspicious, self.worth_a_look.budget)
        return [self.expected(size) for size in sizes]

    def flagged(
        self, budget: int | None = None, min_probability: float | None = None, kind: str | None = None
    ) -> Table:
        """Return the first `budget` rows, or those whose P(wrong) is at least `min_probability`.

        `kind` returns the rows of a kind instead: wrong, duplicate, outlier or ambiguous.
        """
        if sum(choice is not None for choice in (budget, min_probability, kind)) > 1:
            raise ConfigError("budget, min_probability and kind: give one of them")
        if kind is not None:
            return Table({name: values[self.ranked_kinds.rows(kind)] for name, values in self.columns.items()})
        limit = self.min_probability if min_probability is None else min_probability
        corrections.check_share("min_probability", limit)
        is_flagged = self.ranked((self.p_wrong >= limit) & ~self.is_decided)
        rows = slice(self.expected(budget).budget) if budget is not None else is_flagged
        return Table({name: values[rows] for name, values in self.columns.items()})

    def corrected(
        self, min_probability: float | None = None, class_cap: float | None = None, accept: str = corrections.SAFE
    ) -> np.ndarray:
        """Return (N,) class names in the order of the user's data, corrected as `export` does.

        accept="safe" takes suggestions that are more likely right than wrong, and none if the rate
        of wrong labels is unknown; accept="all" takes every one whose P(wrong) is at least
        `min_probability`. `class_cap` is the largest fraction of the labels of any given class that
        may change; the likeliest wrong ones do. Decisions of people always hold.
        """
        limit = self.min_probability if min_probability is None else min_probability
        changes = corrections.accept(self, Rules(accept, limit, class_cap)).rows
        chosen = np.where(changes, self.columns["suggested"], self.columns["given"])
        if DECIDED in self.columns:
            decided = self.columns[DECIDED]
            chosen = np.where((decided != "") & (decided != REMOVED), decided, chosen)
        return chosen[self._by_row].astype(np.array(self.class_names).dtype)

    @cached_property
    def losing(self) -> dict[str, tuple[int, int]]:
        """Classes that would lose most labels if all suggestions were accepted, as (lost, size)."""
        everything = corrections.accept(self, Rules(corrections.ALL, self.min_probability)).rows
        return corrections.losing_classes(self.columns["given"], everything, self.class_names)

    @cached_property
    def warnings(self) -> list[str]:
        """What a reader must know before relying on the figures."""
        return list(summary.warnings(self))

    def measures(self) -> dict[str, float]:
        """Return how well wrong labels are ranked, counted and corrected, if the truth is known."""
        if "clean" not in self.columns or not len(self):
            return {}
        found = measures.against_clean(self.columns)
        number = {name: code for code, name in enumerate(self.class_names)}
        given, clean = ([number[str(name)] for name in self.columns[key]] for key in ("given", "clean"))
        return {**found, "transition_error": measures.transition_error(self.joint_counts, given, clean)}

    def summary(self) -> dict[str, Any]:
        """Return all figures and warnings as plain values for JSON."""
        return summary.as_dict(self)

    def sentences(self) -> list[str]:
        """Return the figures in plain words, without the warnings."""
        return list(summary.sentences(self))


def audit(
    run: str | Path | RunDir,
    *,
    min_probability: float = SUSPICIOUS_FROM,
    confidence: float = CONFIDENCE,
    annotators: str = "last",
) -> Audit:
    """Return the ranked table of a finished run; nothing is trained or fitted.

    A label looks wrong if P(wrong) is at least `min_probability`. Intervals are for `confidence`;
    docs/results/verdicts.md says how often they hold the truth. `annotators` is the rule by
    which one decision follows from those of several: last, majority or agree.

    >>> import numpy as np
    >>> import surelabel
    >>> y = np.arange(60) % 3
    >>> x = 4 * np.eye(3)[y] + np.random.default_rng(0).normal(size=(60, 3))
    >>> run = surelabel.fit((x, y), "runs/first", epochs=10, noise="symmetric:0.2")
    >>> surelabel.audit(run)
    Audit of 60 labels: 12 look wrong. About 12 of 60 labels are wrong: 20 % ...
    """
    check_levels(min_probability, confidence)
    run = run if isinstance(run, RunDir) else RunDir.open(run)
    return Auditor(run).audit(Journal(run.path / FILE_NAME, rule=annotators), min_probability, confidence)


def check_levels(min_probability: float, confidence: float) -> None:
    """Raise unless both are probabilities."""
    corrections.check_share("min_probability", min_probability)
    if not 0 < confidence < 1:
        raise ConfigError(f"confidence={confidence}: expected a number between 0 and 1")


class Auditor:
    """Audits a run again and again, as decisions are made; the run itself is read once."""

    def __init__(self, run: RunDir) -> None:
        self.found = evidence.read(run)
        self.calibration = read_calibration(run, self.found.columns)
        opinion = run.second_opinion()
        self.training, self.power = advice.training_of(run), opinion.get("power")
        self.may_follow_inputs = opinion.get("may_follow_inputs")
        self.updater = Updater(self.calibration, bool(self.may_follow_inputs))
        self.caveats = run.data().get(RECORDED, {}).get("missing", ())
        self.reviews = ReviewReader(
            [str(id) for id in self.found.columns["id"]],
            self.found.columns["given"],
            self.found.class_names,
            self.calibration.bounds()[1] > 0,
        )

    def audit(
        self, journal: Journal, min_probability: float = SUSPICIOUS_FROM, confidence: float = CONFIDENCE
    ) -> Audit:
        """Return the ranked table, with the decisions in the journal."""
        review = self.reviews.read(journal)
        calibration = self.calibration if review is None else self.updater.update(review.answers)
        return assemble(
            self.found,
            calibration,
            review,
            is_updated=calibration is not self.calibration,
            training=self.training,
            power=self.power,
            may_follow_inputs=self.may_follow_inputs,
            damage=journal.damage(),
            caveats=self.caveats,
            min_probability=min_probability,
            confidence=confidence,
        )


def assemble(
    found: evidence.Evidence,
    calibration: Calibration,
    review: Review | None = None,
    is_updated: bool = False,
    **facts: Any,
) -> Audit:
    """Rank the rows by P(wrong); `is_updated` says that it is no longer that of the evidence."""
    columns = {**found.columns, "p_wrong": calibration.p_wrong}
    if is_updated:
        columns = found.with_p_wrong(calibration.p_wrong)
    joint, p_suggested = sum_alternatives(found, columns, review)
    order = rank_rows(columns, review)
    return Audit(
        ranked_columns(found.class_names, columns, order, review),
        found.class_names,
        calibration=calibration.reorder(order),
        joint_counts=joint,
        position=order,
        review=review,
        p_suggested=p_suggested[order],
        **facts,
    )
