"""Mistakes that follow the inputs, for benchmarks/verdicts.py.

Each function takes random numbers, inputs (N, D), right labels (N,) and the rate of wrong labels,
and returns given labels. The rates are aimed at, not exact.
"""

import numpy as np

Rng = np.random.Generator
Labels = np.ndarray


def part(rng: Rng, x: np.ndarray, clean: Labels, rate: float) -> Labels:
    """Draw labels by a random linear map of the input: part-dependent noise (Xia et al., 2020)."""
    from surelabel.noise.instance import probabilities

    scaled = standardise(x)
    scaled *= 3 / np.maximum(np.linalg.norm(scaled, axis=1, keepdims=True), 1e-9)
    num_classes, given = len(np.unique(clean)), clean.copy()
    flip = np.clip(rng.normal(rate, 0.1, len(clean)), 0, 1)
    for label in range(num_classes):
        rows = np.flatnonzero(clean == label)
        weights = rng.normal(size=(x.shape[1], num_classes))
        p = probabilities(scaled[rows], weights, flip[rows], label)
        given[rows] = [rng.choice(num_classes, p=one) for one in p]
    return given


def hard(rng: Rng, x: np.ndarray, clean: Labels, rate: float) -> Labels:
    """Give the rows with the least margin their second class, four of five."""
    margin, second = margins(predict(rng, x, clean), clean)
    rows = np.argsort(margin)[: round(rate * len(clean) / 0.8)]
    return swap(clean, second, rows[rng.random(len(rows)) < 0.8])


def margin(rng: Rng, x: np.ndarray, clean: Labels, rate: float) -> Labels:
    """Give second classes more often, the smaller the margin is (as PMD, Zhang et al., 2021)."""
    gap, second = margins(predict(rng, x, clean), clean)
    p = (1 - np.clip(gap, 0, 1)) ** 2
    p = np.minimum(0.6, p * rate / max(p.mean(), 1e-9))
    return swap(clean, second, np.flatnonzero(rng.random(len(clean)) < p))


def rule(rng: Rng, x: np.ndarray, clean: Labels, rate: float) -> Labels:
    """Label everything by a model of a few columns and rows, wrong about as often as wanted."""
    few, found = max(10 * len(np.unique(clean)), 60), []
    for columns in (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64):
        if columns <= x.shape[1]:
            found += [predict(rng, x, clean, columns, few).argmax(1) for _ in range(3)]
    return min(found, key=lambda given: abs((given != clean).mean() - rate))


def cluster(rng: Rng, x: np.ndarray, clean: Labels, rate: float) -> Labels:
    """Give whole clusters of rows one other class, nine of ten."""
    from sklearn.cluster import KMeans

    num_classes, given = len(np.unique(clean)), clean.copy()
    count = min(8 * num_classes, len(clean) // 8)
    of = KMeans(count, n_init=1, random_state=int(rng.integers(1e6))).fit_predict(standardise(x))
    for number in rng.permutation(count):
        rows = np.flatnonzero(of == number)
        if ((given != clean).sum() + len(rows)) > 1.1 * rate * len(clean):
            continue
        new = (np.bincount(clean[rows]).argmax() + rng.integers(1, num_classes)) % num_classes
        given[rows[rng.random(len(rows)) < 0.9]] = new
    return given


def team(rng: Rng, x: np.ndarray, clean: Labels, rate: float) -> Labels:
    """Let five annotators label a fifth each: mostly hard rows go wrong, and some at random."""
    num_classes, given, of = len(np.unique(clean)), clean.copy(), rng.integers(0, 5, len(clean))
    for number in range(5):
        rows = np.flatnonzero(of == number)
        knowledge = predict(rng, x, clean, max(2, x.shape[1] // 2), max(15 * num_classes, 100))[rows]
        gap, second = margins(knowledge, clean[rows])
        count = round(rate * rng.uniform(0.3, 1.7) * len(rows))
        hardest = np.argsort(gap)[: round(0.7 * count)]
        given[rows[hardest]] = second[hardest]
        slips = rows[rng.choice(len(rows), round(0.3 * count), replace=False)]
        given[slips] = (clean[slips] + rng.integers(1, num_classes, len(slips))) % num_classes
    return given


KINDS = (part, hard, margin, rule, cluster, team)


def standardise(x: np.ndarray) -> np.ndarray:
    """Return columns with mean 0 and deviation 1."""
    scaled: np.ndarray = (x - x.mean(0)) / np.maximum(x.std(0), 1e-9)
    return scaled


def predict(rng: Rng, x: np.ndarray, clean: Labels, columns: int | None = None, rows: int | None = None) -> np.ndarray:
    """Return (N, K) probabilities by logistic regression on some columns, fitted to some rows."""
    from sklearn.linear_model import LogisticRegression

    scaled = standardise(x)[:, rng.permutation(x.shape[1])[:columns]]
    chosen = rng.permutation(len(clean))[:rows]
    while len(np.unique(clean[chosen])) < len(np.unique(clean)):
        chosen = rng.permutation(len(clean))[: 2 * len(chosen)]
    found: np.ndarray = LogisticRegression(C=0.3, max_iter=300).fit(scaled[chosen], clean[chosen]).predict_proba(scaled)
    return found


def margins(p: np.ndarray, clean: Labels) -> tuple[np.ndarray, Labels]:
    """Return by how much the right class (N,) leads the best other one, and which that is."""
    rows, others = np.arange(len(clean)), p.copy()
    others[rows, clean] = -1
    return p[rows, clean] - others.max(1), others.argmax(1)


def swap(clean: Labels, other: Labels, rows: Labels) -> Labels:
    """Return labels with those of some rows replaced."""
    given = clean.copy()
    given[rows] = other[rows]
    return given
