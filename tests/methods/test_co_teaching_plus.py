"""Co-teaching+: all samples at first, then those in dispute, and a zero if there are none."""

import pytest
import torch
import torch.nn.functional as F

from surelabel.methods.co_teaching import CoTeaching
from surelabel.methods.co_teaching_plus import CoTeachingPlus

K = 2
GIVEN = torch.zeros(8, dtype=torch.long)
FIRST = torch.tensor([1.0, 2.0, 3.0, 4.0, -1.0, -2.0, -3.0, -4.0])
SECOND = torch.tensor([1.0, 2.0, -3.0, -4.0, 1.0, 2.0, -3.0, -4.0])
IN_DISPUTE = [2, 3, 4, 5]


def inputs(first, second):
    """Return columns (z, 0, h) for each network.

    A network predicts class 0 for z > 0, and a larger z is a smaller loss at label 0.
    """
    zero = torch.zeros_like(first)
    return torch.stack([first, zero, zero, second, zero, zero], 1)


X = inputs(FIRST, SECOND)
LOSS_FIRST, LOSS_SECOND = (F.cross_entropy(X[:, c : c + 2], GIVEN, reduction="none") for c in (0, 3))


@pytest.fixture
def make(make_task):
    def method(given=GIVEN, epochs=200, kind=CoTeachingPlus, **options):
        return kind(make_task(given, K, epochs, num_networks=2), **options)

    return method


def trained_rows(method, batch, clock, x):
    """Return the rows from which each network gets a gradient."""
    terms = method.step(batch, clock).terms
    grads = [torch.autograd.grad(terms[name], x, retain_graph=True)[0] for name in ("first", "second")]
    return [
        grad[:, c : c + 2].abs().sum(1).nonzero().squeeze(1).tolist() for grad, c in zip(grads, (0, 3), strict=True)
    ]


class TestStep:
    def test_forgetting_nothing_is_the_mean_over_the_dispute(self, make, make_batch, make_clock):
        terms = make(forget_rate=0.0, all_samples=0).step(make_batch(X, GIVEN), make_clock(1)).terms
        assert terms["first"].item() == pytest.approx(LOSS_FIRST[IN_DISPUTE].mean().item(), rel=1e-6)
        assert terms["second"].item() == pytest.approx(LOSS_SECOND[IN_DISPUTE].mean().item(), rel=1e-6)

    def test_each_learns_from_the_disputed_rows_that_the_other_finds_easy(self, make, make_batch, make_clock):
        x = X.clone().requires_grad_()
        method = make(forget_rate=0.5, ramp=1, all_samples=0)
        # The second network finds 4 and 5 easy among 2..5, the first 2 and 3.
        assert trained_rows(method, make_batch(x, GIVEN), make_clock(1), x) == [[4, 5], [2, 3]]

    def test_sample_0_may_be_in_dispute(self, make, make_batch, make_clock):
        x = inputs(torch.tensor([1.0, 1.0]), torch.tensor([-1.0, 1.0])).requires_grad_()
        method = make(forget_rate=0.0, all_samples=0)
        assert trained_rows(method, make_batch(x, GIVEN[:2]), make_clock(1), x) == [[0], [0]]

    def test_at_first_it_is_co_teaching(self, make, make_batch, make_clock):
        options = {"forget_rate": 0.5, "ramp": 1}
        plus = make(all_samples=3, **options)
        for epoch in (1, 3):
            expected = make(kind=CoTeaching, **options).step(make_batch(X, GIVEN), make_clock(epoch)).terms
            terms = plus.step(make_batch(X, GIVEN), make_clock(epoch)).terms
            assert {k: v.item() for k, v in terms.items()} == {k: v.item() for k, v in expected.items()}
        terms = plus.step(make_batch(X, GIVEN), make_clock(4)).terms
        assert terms["first"].item() == pytest.approx(LOSS_FIRST[[4, 5]].mean().item(), rel=1e-6)

    def test_a_dispute_about_everything_is_co_teaching(self, make, make_batch, make_clock):
        x, options = inputs(FIRST, -FIRST), {"forget_rate": 0.25, "ramp": 1}
        expected = make(kind=CoTeaching, **options).step(make_batch(x, GIVEN), make_clock(1)).terms
        terms = make(all_samples=0, **options).step(make_batch(x, GIVEN), make_clock(1)).terms
        assert {k: v.item() for k, v in terms.items()} == {k: v.item() for k, v in expected.items()}

    def test_agreement_is_a_zero_that_has_a_gradient(self, make, make_batch, make_clock):
        method = make(forget_rate=0.2, all_samples=0)
        terms = method.step(make_batch(inputs(FIRST, FIRST), GIVEN), make_clock(1)).terms
        sum(terms.values()).backward()
        assert [term.item() for term in terms.values()] == [0, 0]
        assert not method.first.classifier.weight.grad.any()

    @pytest.mark.parametrize("second", [1.0, -1.0])
    def test_a_batch_of_one(self, make, make_batch, make_clock, second):
        x = inputs(torch.tensor([1.0]), torch.tensor([second]))
        terms = make(forget_rate=0.9, ramp=1, all_samples=0).step(make_batch(x, GIVEN[:1]), make_clock(1)).terms
        expected = F.cross_entropy(x[:, :2], GIVEN[:1]).item() if second < 0 else 0
        assert terms["first"].item() == pytest.approx(expected, rel=1e-6)

    def test_padding_is_not_in_dispute(self, make, make_batch, make_clock):
        weight = torch.tensor([1.0, 1, 0, 1, 0, 1, 1, 1])
        index = torch.where(weight > 0, torch.arange(8), -1)
        x = X.clone().requires_grad_()
        method = make(forget_rate=0.5, ramp=1, all_samples=0)
        assert trained_rows(method, make_batch(x, GIVEN, index, weight), make_clock(1), x) == [[5], [3]]


@pytest.mark.parametrize(
    ("epochs", "options", "all_samples"),
    [(200, {"forget_rate": 0.2}, 20), (200, {}, 20), (40, {}, 7), (2, {}, 2), (1, {}, 2), (200, {"all_samples": 0}, 0)],
)
def test_dispute_starts_after_the_published_fraction_and_never_before_the_ramp_ends(make, epochs, options, all_samples):
    assert make(epochs=epochs, **options).all_samples == all_samples
