"""Beta mixture: the fit and its degenerate cases, the targets, and both kinds of mixing."""

import math

import pytest
import torch
import torch.nn.functional as F

from surelabel.methods._mixing import draw_mixing_weight, mix
from surelabel.methods.beta_mixture import (
    BetaMixture,
    BetaPair,
    fit_beta_pair,
    matched,
    posterior_table,
    responsibilities,
    wrong_probability,
)
from surelabel.methods.dividemix import uniformity_penalty

GIVEN = torch.tensor([0, 1, 2, 0, 1, 2])
N, K = len(GIVEN), 3
X = torch.randn(N, K + 1, generator=torch.Generator().manual_seed(0))
ONE_HOT = F.one_hot(GIVEN, K).float()
WRONG = torch.tensor([0.1, 0.9, 0.5, 0.0, 1.0, 0.3])


def beta_sample(alpha: float, beta: float, count: int, seed: int = 0) -> torch.Tensor:
    """Draws from a beta distribution as a ratio of gamma draws."""
    import numpy as np

    return torch.from_numpy(np.random.default_rng(seed).beta(alpha, beta, count))


@pytest.fixture
def make(make_task):
    return lambda epochs=300, **options: BetaMixture(make_task(GIVEN, epochs=epochs), **options)


@pytest.fixture
def late(make_clock):
    return make_clock(290, epochs=300)


class TestFit:
    def test_moments_recover_the_parameters(self):
        x = beta_sample(2.0, 5.0, 20000)
        alpha, beta = matched(x, torch.ones(2, len(x), dtype=torch.float64))
        assert alpha.tolist() == pytest.approx([2, 2], rel=0.05)
        assert beta.tolist() == pytest.approx([5, 5], rel=0.05)

    def test_moments_by_hand(self):
        x = torch.tensor([0.2, 0.6], dtype=torch.float64)  # mean 0.4, variance 0.04: 0.24 / 0.04 - 1 = 5
        alpha, beta = matched(x, torch.ones(2, 2, dtype=torch.float64))
        assert alpha[0].item() == pytest.approx(0.4 * 5)
        assert beta[0].item() == pytest.approx(0.6 * 5)

    def test_finds_two_components(self):
        x = torch.cat([beta_sample(2, 12, 3000), beta_sample(12, 3, 2000, 1)])
        pair = fit_beta_pair(x, num_steps=50)
        assert pair.weight.tolist() == pytest.approx([0.6, 0.4], abs=0.01)
        assert pair.alpha.tolist() == pytest.approx([2, 12], rel=0.05)
        assert pair.beta.tolist() == pytest.approx([12, 3], rel=0.05)

    def test_ten_steps_are_enough_to_tell_them_apart(self):
        x = torch.cat([beta_sample(2, 12, 3000), beta_sample(12, 3, 2000, 1)])
        high = responsibilities(x, fit_beta_pair(x))[1] > 0.5
        assert (high == (torch.arange(5000) >= 3000)).float().mean() > 0.99

    def test_posteriors_sum_to_one(self):
        pair = fit_beta_pair(beta_sample(1, 3, 500))
        assert torch.allclose(
            responsibilities(torch.linspace(0, 1, 50).double().clamp(1e-4, 1 - 1e-4), pair).sum(0),
            torch.tensor(1.0).double(),
        )

    def test_table_does_not_fall_after_its_maximum(self):
        sharp = BetaPair(*(torch.tensor(v, dtype=torch.float64) for v in ([1.0, 30.0], [1.0, 30.0], [0.5, 0.5])))
        table = posterior_table(sharp)
        top = int(table.argmax())
        assert bool((table[top:] == table[top]).all())
        assert bool(((table >= 0) & (table <= 1)).all())


class TestWrongProbability:
    def test_separates_two_heaps_of_losses(self):
        generator = torch.Generator().manual_seed(0)
        losses = torch.cat([torch.rand(60, generator=generator), 4 + torch.rand(40, generator=generator)])
        wrong = wrong_probability(losses)
        assert wrong[:60].max() < 0.1
        assert wrong[60:].min() > 0.9

    @pytest.mark.parametrize(
        "losses", [torch.full((50,), 2.0), torch.zeros(1), torch.empty(0), torch.full((9,), torch.nan)]
    )
    def test_losses_that_say_nothing_mean_right_labels(self, losses):
        assert wrong_probability(losses).tolist() == [0] * len(losses)

    @pytest.mark.parametrize(
        "heavy", [[0.0] * 97 + [5.0] * 3, [0.0] * 50 + [5.0] * 50, [0.0, 1.0], [1e-9] * 90 + [1e4] * 10]
    )
    def test_heaps_without_spread_are_finite(self, heavy):
        wrong = wrong_probability(torch.tensor(heavy))
        assert bool(wrong.isfinite().all())
        assert bool(((wrong >= 0) & (wrong <= 1)).all())


class TestTargets:
    def test_by_hand(self, make, make_batch, late):
        guess = F.one_hot(X[:, :K].argmax(1), K).float()
        for variant, z in (("hard", guess), ("soft", X[:, :K].softmax(1))):
            method = make(variant=variant)
            method.wrong.copy_(WRONG)
            target = method.bootstrapped(make_batch(X, GIVEN), late, X[:, :K])
            assert torch.allclose(target, (1 - WRONG[:, None]) * ONE_HOT + WRONG[:, None] * z)

    def test_a_surely_wrong_label_does_not_matter(self, make, make_batch, late):
        method = make()
        method.wrong.fill_(1.0)
        one, other = (method.bootstrapped(make_batch(X, given), late, X[:, :K]) for given in (GIVEN, GIVEN.flip(0)))
        assert torch.equal(one, other)

    def test_temperature_falls_from_one_to_its_last_value(self, make, make_clock):
        method = make(variant="dynamic")
        values = [method.temperature(make_clock(epoch, epochs=300)) for epoch in (106, 111, 300)]
        assert values == pytest.approx([1, 1, 0.001])
        assert make(variant="soft").temperature(make_clock(300, epochs=300)) == 1

    def test_dynamic_starts_with_given_labels(self, make, make_batch, make_clock):
        method = make(variant="dynamic")
        method.wrong.copy_(WRONG)
        assert torch.equal(method.bootstrapped(make_batch(X, GIVEN), make_clock(110, epochs=300), X[:, :K]), ONE_HOT)
        assert not torch.equal(
            method.bootstrapped(make_batch(X, GIVEN), make_clock(111, epochs=300), X[:, :K]), ONE_HOT
        )


class TestStep:
    def test_right_labels_are_plain_mixup(self, make, make_batch, late):
        method, batch = make(), make_batch(X, GIVEN)
        plain = method.warm_up_step(batch, late)
        step = method.step(batch, late)
        assert step.terms["bootstrap"].item() == pytest.approx(plain.terms["mixup"].item(), rel=1e-6)
        assert torch.equal(step.seen, X[:, :K])
        assert plain.seen is None

    def test_by_hand(self, make, make_batch, late):
        method, batch = make(uniformity_weight=0.5), make_batch(X, GIVEN)
        method.wrong.copy_(WRONG)
        target = method.bootstrapped(batch, late, X[:, :K])
        ((x, aim),) = mix([(X, target, batch.weight)], draw_mixing_weight(32.0, late), late)
        terms = method.step(batch, late).terms
        assert terms["bootstrap"].item() == pytest.approx(F.cross_entropy(x[:, :K], aim).item(), rel=1e-5)
        assert terms["uniformity"].item() == pytest.approx(
            0.5 * uniformity_penalty(x[:, :K], batch.weight).item(), rel=1e-5
        )

    def test_dynamic_mixing_by_belief(self, make, make_batch, late):
        method, batch = make(variant="dynamic"), make_batch(X, GIVEN)
        method.wrong.copy_(WRONG)
        ((_, order),) = mix([(X, torch.eye(N), batch.weight)], 0.0, late)
        partner, trust = order.argmax(1), 1 - WRONG.clamp(1e-4, 1 - 1e-4)
        x, target = method.mix_by_belief(batch, ONE_HOT, late)
        for i, j in enumerate(partner.tolist()):
            share = trust[i] / (trust[i] + trust[j])
            assert torch.allclose(x[i], share * X[i] + (1 - share) * X[j], atol=1e-6)
            assert torch.allclose(target[i], (ONE_HOT[i] + ONE_HOT[j]) / 2)

    def test_padding_changes_nothing(self, make, make_batch, late):
        method = make()
        method.wrong.copy_(WRONG)
        index, weight = torch.tensor([0, 1, 2, 3, -1, -1]), torch.tensor([1.0] * 4 + [0.0] * 2)
        padded = method.step(make_batch(X, GIVEN, index, weight), late).terms
        real = method.step(make_batch(X[:4], GIVEN[:4]), late).terms
        assert [t.item() for t in padded.values()] == pytest.approx([t.item() for t in real.values()], rel=1e-5)

    @pytest.mark.parametrize("variant", ["hard", "soft", "dynamic"])
    def test_a_batch_of_one(self, make, make_batch, late, variant):
        terms = make(variant=variant).step(make_batch(X[:1], GIVEN[:1]), late).terms
        assert all(math.isfinite(term.item()) for term in terms.values())


class TestPlan:
    def test_mixup_in_the_warm_up(self, make, make_run):
        method, run = make(epochs=300), make_run(X, GIVEN, epoch=105)
        assert [walk.step for walk in method.plan(run)] == [method.warm_up_step]
        assert run.num_collected == 0

    def test_then_a_mixture_is_fitted_and_noted(self, make, make_run):
        x = torch.cat([20 * ONE_HOT * torch.tensor([1, 1, 1, 1, -1, -1])[:, None], torch.zeros(N, 1)], 1)
        method, run = make(epochs=300), make_run(x, GIVEN, epoch=106)
        assert [walk.step for walk in method.plan(run)] == [method.step]
        assert torch.allclose(method.wrong, wrong_probability(F.cross_entropy(x[:, :K], GIVEN, reduction="none")))
        assert (method.wrong > 0.5).tolist() == [False] * 4 + [True] * 2
        assert run.notes["noise_rate"] == pytest.approx(method.wrong.mean().item())

    @pytest.mark.parametrize(("epochs", "warm_up"), [(300, 105), (100, 35), (10, 5), (1, 1)])
    def test_warm_up_is_the_published_share(self, make, epochs, warm_up):
        assert make(epochs=epochs).warm_up == warm_up

    def test_survives_a_restart(self, make):
        before, after = make(), make()
        before.wrong.copy_(WRONG)
        after.load_state_dict(before.state_dict())
        assert torch.equal(after.wrong, WRONG)


def test_corrected_labels_are_the_targets(make, make_run, verdict_of):
    method = make()
    method.stages()[-1].then(make_run(X, GIVEN))
    corrected = verdict_of(method, X, GIVEN).corrected
    wrong = wrong_probability(F.cross_entropy(X[:, :K], GIVEN, reduction="none"))[:, None]
    assert torch.allclose(corrected, (1 - wrong) * ONE_HOT + wrong * X[:, :K].softmax(1), atol=1e-6)
    assert torch.allclose(corrected.sum(1), torch.ones(N))
