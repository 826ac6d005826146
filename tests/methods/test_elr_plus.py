"""ELR+: which average writes which targets, what is mixed, and how averages follow."""

import math

import pytest
import torch
import torch.nn.functional as F

from surelabel.methods.elr_plus import ELRPlus, reweight

GIVEN = torch.tensor([0, 1, 2, 0, 1, 2])
N, K = len(GIVEN), 3
X = torch.randn(N, 2 * (K + 1), generator=torch.Generator().manual_seed(0))
FIRST, SECOND = X[:, :3], X[:, 4:7]


@pytest.fixture
def make(make_task):
    def method(given=GIVEN, epochs=200, **options):
        return ELRPlus(make_task(given, K, epochs, num_networks=2), **options)

    return method


class TestTargets:
    def test_first_visit_by_hand(self, make, make_batch, make_clock):
        method = make(momentum=0.7)
        method.first_step(make_batch(X, GIVEN), make_clock(1))
        # The first network's targets come from the second's average, which is still its copy.
        assert torch.allclose(method.first_target.whole(), 0.3 * SECOND.softmax(1), atol=1e-6)
        assert not method.second_target.whole().any()
        method.second_step(make_batch(X, GIVEN), make_clock(1))
        assert torch.allclose(method.second_target.whole(), 0.3 * FIRST.softmax(1), atol=1e-6)

    def test_own_predictions_never_touch_own_targets(self, make, make_batch, make_clock):
        tables = []
        for first in (FIRST, FIRST.flip(1)):
            method = make()
            x = torch.cat([first, X[:, 3:]], 1)
            method.first_step(make_batch(x, GIVEN), make_clock(1))
            tables.append(method.first_target.whole())
        assert torch.equal(*tables)

    def test_mass_after_n_visits(self, make, make_batch, make_clock):
        method = make(momentum=0.6)
        for epoch in range(1, 4):
            method.first_step(make_batch(X, GIVEN), make_clock(epoch))
        assert torch.allclose(method.first_target.whole().sum(1), torch.full((N,), 1 - 0.6**3))

    def test_padding_is_not_written(self, make, make_batch, make_clock):
        weight = (torch.arange(N) < 4).float()
        method = make()
        method.first_step(make_batch(X, GIVEN, torch.where(weight > 0, torch.arange(N), -1), weight), make_clock(1))
        assert (method.first_target.whole().sum(1) > 0).tolist() == [True] * 4 + [False] * 2

    def test_verdict_is_the_normalised_sum(self, make, make_batch, make_clock, verdict_of):
        method = make()
        method.first_step(make_batch(X, GIVEN), make_clock(1))
        method.second_step(make_batch(X, GIVEN), make_clock(1))
        expected = (FIRST.softmax(1) + SECOND.softmax(1)) / 2
        assert torch.allclose(verdict_of(method, X, GIVEN).corrected, expected, atol=1e-6)
        assert torch.allclose(sum(t.store.whole() for t in method.target_tables()), 0.6 * expected, atol=1e-6)
        assert all(table.is_current for table in method.target_tables())
        assert torch.allclose(method.first_target.whole(), 0.3 * SECOND.softmax(1), atol=1e-6)


class TestStep:
    def test_without_pull_and_mixing_it_is_cross_entropy(self, make, make_batch, make_clock):
        method = make(regularisation=0.0, mixup_alpha=0.0)
        for step, logits in ((method.first_step, FIRST), (method.second_step, SECOND)):
            terms = step(make_batch(X, GIVEN), make_clock(1)).terms
            assert terms["cross_entropy"].item() == pytest.approx(F.cross_entropy(logits, GIVEN).item(), rel=1e-5)
            assert terms["early_learning"].item() == 0

    def test_pull_by_hand(self, make, make_batch, make_clock):
        terms = (
            make(regularisation=2.0, momentum=0.7, mixup_alpha=0.0)
            .first_step(make_batch(X, GIVEN), make_clock(1))
            .terms
        )
        expected = 2 * (1 - (0.3 * SECOND.softmax(1) * FIRST.softmax(1)).sum(1)).log().mean().item()
        assert terms["early_learning"].item() == pytest.approx(expected, rel=1e-4)
        assert expected < 0

    def test_mixing_by_hand(self, make, make_batch, make_clock, monkeypatch):
        monkeypatch.setattr("surelabel.methods.elr_plus.draw_mixing_weight", lambda *_: 0.75)
        clock = make_clock(1)
        order = torch.randperm(N, generator=clock.generator("partners"))
        method = make(regularisation=3.0, momentum=0.7)
        terms = method.first_step(make_batch(X, GIVEN), clock).terms
        # The network is linear, so the logits of mixed inputs are mixed logits.
        logits, given, target = (
            0.75 * rows + 0.25 * rows[order] for rows in (FIRST, F.one_hot(GIVEN, K).float(), 0.3 * SECOND.softmax(1))
        )
        pull = (1 - (target * logits.softmax(1)).sum(1)).log().mean().item()
        assert terms["cross_entropy"].item() == pytest.approx(F.cross_entropy(logits, given).item(), rel=1e-5)
        assert terms["early_learning"].item() == pytest.approx(3 * pull, rel=1e-4)

    def test_the_pull_may_be_ramped(self, make, make_batch, make_clock):
        options = {"mixup_alpha": 0.0, "ramp": 10}
        plain, ramped = (make(ramped=flag, **options) for flag in (False, True))
        one, other = (
            m.first_step(make_batch(X, GIVEN), make_clock(6)).terms["early_learning"] for m in (plain, ramped)
        )
        assert other.item() == pytest.approx(math.exp(-5 * 0.25) * one.item(), rel=1e-5)

    def test_only_one_network_gets_a_gradient(self, make, make_batch, make_clock):
        method = make()
        sum(method.second_step(make_batch(X, GIVEN), make_clock(1)).terms.values()).backward()
        assert method.second.classifier.weight.grad.any()
        assert method.first.classifier.weight.grad is None

    def test_says_what_the_average_saw(self, make, make_batch, make_clock):
        step = make().first_step(make_batch(X, GIVEN), make_clock(1))
        assert torch.allclose(step.seen, SECOND, atol=1e-6)
        assert not step.seen.requires_grad

    def test_a_batch_of_one_and_a_sure_network_are_finite(self, make, make_batch, make_clock):
        method = make(momentum=0.0)
        x = torch.zeros(1, 8)
        x[:, [0, 4]] = 300
        terms = method.first_step(make_batch(x, GIVEN[:1]), make_clock(1)).terms
        sum(terms.values()).backward()
        assert terms["early_learning"].item() == pytest.approx(3 * math.log(1e-4), rel=1e-2)
        assert bool(method.first.classifier.weight.grad.isfinite().all())

    def test_an_epoch_is_a_pass_for_each(self, make):
        method = make()
        assert [walk.step for walk in method.stages()[0].plan] == [method.first_step, method.second_step]


class TestReweighting:
    def test_by_hand(self):
        label, q = torch.tensor([[0.6, 0.4, 0.0]]), torch.tensor([[0.1, 0.3, 0.5]])
        assert torch.allclose(reweight(label, q), torch.tensor([[1 / 3, 2 / 3, 0.0]]), atol=1e-5)

    def test_targets_that_say_nothing_leave_the_label(self):
        label = torch.tensor([[0.6, 0.4, 0.0]])
        assert torch.allclose(reweight(label, torch.zeros(1, 3)), label)

    def test_is_used(self, make, make_batch, make_clock):
        # A label that is not mixed stays one-hot, whatever its weight.
        one, other = (
            make(reweighted=flag, mixup_alpha=0.0)
            .first_step(make_batch(X, GIVEN), make_clock(1))
            .terms["cross_entropy"]
            for flag in (False, True)
        )
        assert one.item() == pytest.approx(other.item(), rel=1e-5)
        one, other = (
            make(reweighted=flag).first_step(make_batch(X, GIVEN), make_clock(1)).terms["cross_entropy"]
            for flag in (False, True)
        )
        assert one.item() != pytest.approx(other.item(), rel=1e-6)


class TestAverages:
    def test_follow_by_gamma_times_the_ramp(self, make, make_batch, make_clock):
        method = make(average_decay=0.9, ramp=10)
        for epoch, decay in ((1, 0.9 * math.exp(-5)), (6, 0.9 * math.exp(-5 * 0.25)), (11, 0.9), (50, 0.9)):
            method.first_step(make_batch(X, GIVEN), make_clock(epoch))
            weight = method.first_average.network.classifier.weight
            before = weight.clone()
            with torch.no_grad():
                method.first.classifier.weight.add_(1)
            method.first_average.advance()
            assert torch.allclose(weight, decay * before + (1 - decay) * method.first.classifier.weight, atol=1e-6)

    def test_without_decay_they_are_copies(self, make):
        method = make(average_decay=0.0)
        with torch.no_grad():
            method.first.classifier.weight.add_(1)
        method.first_average.advance()
        assert torch.equal(method.first_average.network.classifier.weight, method.first.classifier.weight)

    def test_are_not_trained(self, make):
        assert list(make().networks()) == ["first", "second"]

    def test_predictions_are_the_networks_own(self, make):
        method = make()
        with torch.no_grad():
            method.first_average.network.classifier.weight.zero_()
        assert torch.allclose(method.predict(X), ((FIRST + SECOND) / 2).softmax(1), atol=1e-6)


@pytest.mark.parametrize(("epochs", "ramp"), [(200, 114), (100, 57), (1, 1)])
def test_ramp_is_the_published_share(make, epochs, ramp):
    assert make(epochs=epochs).ramp == ramp
