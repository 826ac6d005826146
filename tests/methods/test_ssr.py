"""SSR: votes and selection by hand, the authors' formulas for both, and the two losses."""

import pytest
import torch
import torch.nn.functional as F

from surelabel.core import Batch
from surelabel.methods._mixing import draw_mixing_weight, mix
from surelabel.methods.ssr import SSR, balance_votes, count_votes, draw_evenly

GIVEN = torch.tensor([0, 0, 0, 1, 1, 1])
X = torch.tensor([[5.0, 0, 0], [6, 0, 0], [0, 1, 0], [0, 5, 0], [0, 6, 0], [0, 7, 0]])
"""Two directions: row 2 is given class 0 and lies with class 1."""


@pytest.fixture
def make(make_task):
    def method(trusted=None, **options):
        return SSR(make_task(GIVEN, num_classes=2, trusted=trusted), **{"neighbours": 3, **options})

    return method


def authors_votes(features, label, num_classes, k):
    """The balanced votes as the authors' code has them, from the notes on it."""
    features = F.normalize(features, dim=1)
    share = torch.tensor([(label == c).sum().item() for c in range(num_classes)]) + 1e-10
    indices = (features @ features.T).topk(k, dim=-1).indices
    one_hot = torch.zeros(indices.numel(), num_classes).scatter(1, label[indices].view(-1, 1), 1.0)
    score = (one_hot.view(len(features), k, num_classes) / k).sum(1) / (share / share.sum())
    return score / score.sum(1, keepdim=True)


class TestVotes:
    def test_by_hand(self):
        """Rows 0 and 1 are each other's nearest; all of the rest point the same way."""
        votes = count_votes(X, GIVEN, 2, 2)
        assert votes[:2].tolist() == [[1, 0], [1, 0]]
        assert torch.allclose(count_votes(X, GIVEN, 2, 6), torch.full((6, 2), 0.5))

    def test_a_rare_class_weighs_more(self):
        """One of four votes for a class that one of four labels has: as good as its share."""
        balanced = balance_votes(torch.tensor([[0.75, 0.25], [0.5, 0.5]] * 2), torch.tensor([0, 0, 0, 1]))
        assert torch.allclose(balanced[:2], torch.tensor([[0.5, 0.5], [0.25, 0.75]]))

    @pytest.mark.parametrize("neighbours", [1, 20, 300])
    def test_they_are_the_authors(self, neighbours):
        """In three chunks, and with a class that no label has."""
        generator = torch.Generator().manual_seed(0)
        features = torch.randn(2100, 8, generator=generator)
        label = torch.randint(4, (2100,), generator=generator)
        found = balance_votes(count_votes(features, label, 5, neighbours), label)
        assert torch.allclose(found, authors_votes(features, label, 5, neighbours), atol=1e-6)


class TestSelection:
    def test_by_hand(self, make, make_run):
        """Row 2 is predicted as 1 with 0.73: below 0.9 it keeps its label and loses the vote."""
        method, run = make(), make_run(X, GIVEN)
        method.select(run)
        assert method.label.tolist() == GIVEN.tolist()
        assert method.clean.tolist() == [True, True, False, True, True, True]
        assert run.notes == {"clean_share": pytest.approx(5 / 6), "relabelled_share": 0}
        votes = balance_votes(count_votes(X, GIVEN, 2, 3), GIVEN)
        assert torch.allclose(method.vote, votes.gather(1, GIVEN[:, None]).squeeze(1))

    def test_a_sure_prediction_relabels_and_the_given_label_comes_back(self, make, make_run):
        method = make(relabel_threshold=0.7)
        method.select(make_run(X, GIVEN))
        assert method.label.tolist() == [0, 0, 1, 1, 1, 1]
        assert method.clean.all()
        assert method.vote[2] < 0.5, "the verdict is on the given label"
        method.relabel_threshold = 0.9
        method.select(make_run(X, GIVEN))
        assert method.label.tolist() == GIVEN.tolist()

    def test_a_confirmed_label_stays_and_is_clean(self, make, make_run):
        trusted = torch.tensor([False, False, True, False, False, False])
        method = make(trusted, relabel_threshold=0.7)
        method.select(make_run(X, GIVEN))
        assert method.label.tolist() == GIVEN.tolist()
        assert method.clean.all()

    def test_classes_are_drawn_evenly(self):
        rows, label = torch.tensor([3, 5, 7, 8, 9, 11, 20]), torch.tensor([0, 0, 0, 0, 0, 2, 2])
        drawn = draw_evenly(rows, label, torch.Generator().manual_seed(0))
        counts = drawn.bincount(minlength=21)
        assert counts[[3, 5, 7, 8, 9]].tolist() == [1] * 5
        assert sorted(counts[[11, 20]].tolist()) == [2, 3]
        assert len(drawn) == 10

    def test_all_rows_if_too_few_are_clean(self, make, make_run):
        method = make()
        method.select = lambda _run: method.clean.zero_()
        (plan,) = method.plan(make_run(X, GIVEN))
        assert set(plan.views["clean"].indices.tolist()) == set(range(6))


class TestPlan:
    def test_views(self, make, make_run):
        (plan,) = make().plan(make_run(X, GIVEN))
        assert list(plan.views) == ["batch", "clean"]
        assert (plan.views["batch"].indices, plan.views["batch"].augment) == (None, "strong_copies")
        assert (plan.views["clean"].augment, plan.views["clean"].copies) == ("strong", 2)
        assert sorted(plan.views["clean"].indices.unique().tolist()) == [0, 1, 3, 4, 5]
        (weak,) = make(strong=False, consistency_weight=0.0).plan(make_run(X, GIVEN))
        assert (weak.views["batch"].copies, weak.views["clean"].augment) == (1, True)


class TestStep:
    def batches(self):
        whole = Batch(torch.arange(6), (X, X.flip(0)), GIVEN, torch.ones(6))
        rows = torch.tensor([0, 2, 4])
        return whole, Batch(rows, (X[rows], 2 * X[rows]), GIVEN[rows], torch.ones(3))

    def test_mixup_by_hand(self, make, make_clock):
        """The labels are y', not the given ones: row 2 is relabelled."""
        method = make(consistency_weight=0.0)
        method.label.copy_(torch.tensor([0, 0, 1, 1, 1, 1]))
        whole, clean = self.batches()
        clock = make_clock(1)
        step = method.mix_step(whole, clock, clean=clean)
        target = F.one_hot(torch.tensor([0, 1, 1]), 2).float()
        parts = [(x, target, clean.weight) for x in clean.copies]
        mixes = mix(parts, draw_mixing_weight(4.0, clock), clock)
        expected = [-(t * x[:, :2].log_softmax(1)).sum(1).mean() for x, t in mixes]
        assert step.terms["mixup"].item() == pytest.approx((sum(expected) / 2).item(), rel=1e-5)
        assert list(step.terms) == ["mixup"]
        assert step.is_mixed
        assert step.seen is None

    def test_consistency_is_a_cosine_without_gradient_through_the_weak_view(self, make, make_clock):
        method = make(consistency_weight=2.0)
        method.eval()
        whole, clean = self.batches()
        weak, strong = (x.clone().requires_grad_() for x in whole.copies)
        step = method.mix_step(Batch(whole.index, (weak, strong), GIVEN, whole.weight), make_clock(1), clean=clean)
        anchor, predicted = method.heads.project(X), method.heads.predict(method.heads.project(X.flip(0)))
        cosine = (F.normalize(anchor, dim=1) * F.normalize(predicted, dim=1)).sum(1)
        assert step.terms["consistency"].item() == pytest.approx(-2 * cosine.mean().item(), rel=1e-5)
        step.terms["consistency"].backward()
        assert weak.grad is None
        assert strong.grad.abs().sum() > 0
        assert torch.equal(step.seen, X[:, :2])

    def test_heads_are_drawn_by_the_seed_and_not_for_ssr(self, make_task):
        first, same, other = (SSR(make_task(GIVEN, 2, seed=seed)) for seed in (0, 0, 1))
        for (one, a), (_, b) in zip(first.heads.state_dict().items(), same.heads.state_dict().items(), strict=True):
            assert torch.equal(a, b), one
        assert not torch.equal(first.heads.project[0].weight, other.heads.project[0].weight)
        assert list(SSR(make_task(GIVEN, 2), consistency_weight=0.0).networks()) == ["network"]


def test_verdict_has_the_vote_for_the_given_label_as_evidence(make, make_run, verdict_of):
    method = make(relabel_threshold=0.7)
    method.select(make_run(X, GIVEN))
    seen = torch.tensor([0.8, 0.9, 0.2, 0.7, 0.6, 0.9])
    verdict = verdict_of(method, X, GIVEN, seen=seen)
    assert torch.equal(verdict.quality, seen)
    assert verdict.evidence["vote"].argmin() == 2
    assert torch.equal(verdict.corrected, X[:, :2].softmax(1))


def test_a_vote_of_all_rows_is_told(make):
    (text,) = make(neighbours=6).advice("settings")
    assert "neighbours=6" in text
    assert "use neighbours=1" in text
    assert make(neighbours=5).advice("settings") == []


def test_state_survives_a_restart(make, make_run):
    before, after = make(), make()
    before.select(make_run(X, GIVEN))
    after.load_state_dict(before.state_dict())
    for name in ("label", "clean", "vote"):
        assert torch.equal(getattr(after, name), getattr(before, name))
