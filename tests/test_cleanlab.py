"""The estimator as the model of cleanlab."""

import numpy as np
import pytest

from surelabel import NoisyLabelClassifier

pytest.importorskip("cleanlab", reason="the extra `interop` (cleanlab) is not installed")


@pytest.mark.training
def test_clean_learning_trains_prunes_and_refits():
    from cleanlab.classification import CleanLearning

    rng = np.random.default_rng(0)
    clean = rng.integers(0, 3, 150)
    x = rng.normal(size=(150, 4)) + 4 * np.eye(3, 4)[clean]
    given = np.where(np.arange(150) % 6 == 0, (clean + 1) % 3, clean)
    model = NoisyLabelClassifier(
        "gce",
        model="mlp",
        model_options={"widths": [16], "norm": "none"},
        epochs=10,
        batch_size=16,
        device="cpu",
        threads=1,
    )
    # cleanlab's own worker processes are forked, which may hang beside the threads of other tests.
    alone = {"n_jobs": 1}
    cleaner = CleanLearning(model, seed=0, cv_n_folds=3, find_label_issues_kwargs=alone).fit(x, given)
    found = cleaner.get_label_issues()["is_label_issue"].to_numpy()
    assert (found == (given != clean)).mean() > 0.9
    assert cleaner.score(x, clean) > 0.9
    assert isinstance(cleaner.clf, NoisyLabelClassifier)
