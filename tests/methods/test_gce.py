"""Generalized cross entropy; the loss itself is tested in tests/core/test_losses.py."""

import pytest
import torch
import torch.nn.functional as F

from surelabel.api import Interrupted, fit, resume
from surelabel.methods.gce import GCE, kept_by_truncation

GIVEN = torch.tensor([0, 1, 2])
X = torch.tensor([[2.0, 0.0, 1.0, 0.0], [0.0, 0.5, 0.0, 0.0], [1.0, 1.0, -1.0, 0.0]])
P = X[:, :3].softmax(1)
AT_GIVEN = P[torch.arange(3), GIVEN]


@pytest.fixture
def loss(make_task, make_batch, make_clock):
    def step(q, x=X, **batch):
        options = {} if q is None else {"q": q}
        return GCE(make_task(GIVEN), **options).step(make_batch(x, GIVEN, **batch), make_clock(1)).terms["gce"]

    return step


def test_by_hand_with_the_papers_default(loss):
    assert loss(None).item() == pytest.approx(((1 - AT_GIVEN**0.7) / 0.7).mean().item(), rel=1e-5)


def test_near_zero_is_cross_entropy(loss):
    assert loss(1e-6).item() == pytest.approx(-AT_GIVEN.log().mean().item(), abs=1e-5)


def test_one_is_half_the_mean_absolute_error(loss):
    error = (P - F.one_hot(GIVEN, 3)).abs().sum(1).mean().item()
    assert loss(1.0).item() == pytest.approx(error / 2, rel=1e-5)


def test_gradient_is_cross_entropys_times_p_to_the_q(loss):
    x = X.clone().requires_grad_()
    (grad,) = torch.autograd.grad(loss(0.7, x), x)
    expected = AT_GIVEN[:, None] ** 0.7 * (P - F.one_hot(GIVEN, 3)) / 3
    assert torch.allclose(grad[:, :3], expected, atol=1e-6)


def test_padding_does_not_count(loss):
    weight = torch.tensor([1.0, 1.0, 0.0])
    assert loss(1.0, weight=weight).item() == pytest.approx((1 - AT_GIVEN[:2]).mean().item(), rel=1e-5)


def test_returns_the_logits_it_saw(make_task, make_batch, make_clock):
    assert torch.equal(GCE(make_task(GIVEN)).step(make_batch(X, GIVEN), make_clock(1)).seen, X[:, :3])


class TestTruncated:
    @pytest.fixture
    def make(self, make_task):
        return lambda epochs=120, **options: GCE(make_task(GIVEN, epochs=epochs), truncated=True, **options)

    def test_kept_are_those_above_the_threshold(self):
        assert kept_by_truncation(torch.tensor([0.2, 0.5, 0.51, 0.9]), 0.5).tolist() == [0, 0, 1, 1]

    def test_if_none_is_above_all_are_kept(self):
        assert kept_by_truncation(torch.tensor([0.2, 0.3]), 0.5).tolist() == [1, 1]

    def test_starts_as_the_plain_loss(self, make, loss, make_batch, make_clock):
        done = make().step(make_batch(X, GIVEN), make_clock(1))
        assert done.terms["gce"].item() == loss(0.7).item()

    @pytest.mark.parametrize(
        ("epochs", "expected"), [(120, [40, 50, 60, 70, 80, 90, 100, 110, 120]), (12, [*range(4, 13)])]
    )
    def test_prunes_at_the_published_fractions(self, make, make_run, epochs, expected):
        method, pruned = make(epochs), []
        for epoch in range(1, epochs + 1):
            run = make_run(X, GIVEN, epoch=epoch)
            (walk,) = method.stages()[0].plan(run)
            assert walk.views["batch"].indices is None
            if run.num_collected:
                pruned.append(epoch)
        assert pruned == expected

    def test_pruning_and_the_loss_by_hand(self, make, make_run, make_batch, make_clock):
        method = make(threshold=0.3)
        run = make_run(X, GIVEN, epoch=40)
        method.plan(run)
        assert (AT_GIVEN > 0.3).tolist() == [True, True, False]
        assert method.kept.whole().tolist() == [1, 1, 0]
        assert run.notes["kept_share"] == pytest.approx(2 / 3)
        x = X.clone().requires_grad_()
        value = method.step(make_batch(x, GIVEN), make_clock(41)).terms["gce"]
        expected = (sum((1 - AT_GIVEN[:2] ** 0.7) / 0.7) + (1 - 0.3**0.7) / 0.7) / 3
        assert value.item() == pytest.approx(expected.item(), rel=1e-5)
        (grad,) = torch.autograd.grad(value, x)
        assert (grad.abs().sum(1) > 0).tolist() == [True, True, False]

    def test_a_sample_may_return(self, make, make_run):
        method = make(threshold=0.3)
        method.plan(make_run(X, GIVEN, epoch=40))
        method.plan(make_run(-X, GIVEN, epoch=50))
        assert method.kept.whole().tolist() == [0, 0, 1]

    def test_a_batch_of_dropped_samples_is_constant_and_connected(self, make, make_batch, make_clock):
        method = make()
        method.kept.replace(torch.zeros(3))
        x = X.clone().requires_grad_()
        value = method.step(make_batch(x, GIVEN), make_clock(50)).terms["gce"]
        assert value.item() == pytest.approx((1 - 0.5**0.7) / 0.7, rel=1e-5)
        assert not torch.autograd.grad(value, x)[0].any()

    def test_the_kept_samples_survive_a_restart(self, make, make_run):
        before, after = make(threshold=0.3), make(threshold=0.3)
        before.plan(make_run(X, GIVEN, epoch=40))
        after.load_state_dict(before.state_dict())
        assert after.kept.whole().tolist() == [1, 1, 0]

    def test_resumes_bit_equal(self, tiny, tmp_path, outcome):
        config = tiny("gce", method__options={"truncated": True})
        whole = fit(config, tmp_path / "whole")
        with pytest.raises(Interrupted):
            fit(config, tmp_path / "pieces", interrupt=iter([False] * 12 + [True]).__next__)
        assert outcome(resume(tmp_path / "pieces")) == outcome(whole)
        assert any("kept_share" in row.get("estimates", {}) for row in whole.metrics())


def test_the_plain_loss_keeps_no_state(make_task):
    method = GCE(make_task(GIVEN))
    assert method.stages()[0].plan is None
    assert not [name for name in method.state_dict() if not name.startswith("network")]
