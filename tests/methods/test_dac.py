"""DAC: the abstaining loss, its rising price, and what is removed."""

import math

import pytest
import torch
import torch.nn.functional as F

from surelabel.methods.dac import DAC, abstaining_terms, log_kept, price

GIVEN = torch.tensor([0, 1, 2] * 10)
N, K = len(GIVEN), 3
X = torch.randn(N, K + 1, generator=torch.Generator().manual_seed(0))
A = X.softmax(1)[:, -1]
H = F.cross_entropy(X[:, :K], GIVEN, reduction="none")


@pytest.fixture
def make(make_task):
    return lambda given=GIVEN, epochs=100, seed=0, **options: DAC(make_task(given, epochs=epochs, seed=seed), **options)


class TestLoss:
    def test_by_hand(self):
        logits = torch.tensor([[math.log(2), 0.0, 0.0]])  # p is 1/2, 1/4 and a = 1/4
        kept, abstaining = abstaining_terms(logits, torch.tensor([1]))
        assert kept.item() == pytest.approx(3 / 4 * -math.log(1 / 3), rel=1e-6)
        assert abstaining.item() == pytest.approx(-math.log(3 / 4), rel=1e-6)

    def test_never_abstaining_is_cross_entropy(self):
        logits = torch.cat([X[:, :K], torch.full((N, 1), -80.0)], 1)
        kept, abstaining = abstaining_terms(logits, GIVEN)
        assert torch.allclose(kept, H, atol=1e-5)
        assert abstaining.abs().max() < 1e-5

    def test_cross_entropy_over_all_outputs_is_h_plus_abstaining(self):
        expected = F.cross_entropy(X, GIVEN, reduction="none")
        assert torch.allclose(H + abstaining_terms(X, GIVEN)[1], expected, atol=1e-5)

    def test_a_constant_changes_nothing(self):
        for one, other in zip(abstaining_terms(X, GIVEN), abstaining_terms(X + 7, GIVEN), strict=True):
            assert torch.allclose(one, other, atol=1e-5)

    def test_abstention_grows_if_and_only_if_it_is_cheaper(self):
        for alpha in (0.1, 0.5, 2.0):
            x = X.clone().requires_grad_()
            kept, abstaining = abstaining_terms(x, GIVEN)
            (grad,) = torch.autograd.grad((kept + alpha * abstaining).sum(), x)
            assert torch.allclose(grad[:, -1], A * (alpha - (1 - A) * H), atol=1e-5)
            assert bool((grad[torch.arange(N), GIVEN] <= 1e-6).all())

    def test_sure_abstention_keeps_its_gradient(self):
        x = torch.tensor([[0.0, 0.0, 0.0, 100.0]], requires_grad=True)
        assert log_kept(x).item() == pytest.approx(math.log(3) - 100, rel=1e-5)
        (grad,) = torch.autograd.grad(log_kept(x).sum(), x)
        assert grad[0, -1].item() == pytest.approx(-1)


class TestPrice:
    def test_is_linear_from_first_to_last(self):
        prices = [price(epoch, 6, 10, 0.2, 1.0) for epoch in range(6, 11)]
        assert prices == pytest.approx([0.2, 0.4, 0.6, 0.8, 1.0])

    def test_of_a_single_abstaining_epoch(self):
        assert price(10, 10, 10, 0.2, 1.0) == 0.2

    def test_first_price_is_the_mean_loss_by_its_divisor_once(self, make, make_run):
        method, run = make(warm_up=3, price_divisor=50.0), make_run(X, GIVEN, epoch=3)
        method.mean_loss.fill_(2.0)
        method.abstain_plan(run)
        assert method.first_price.isnan()
        run = make_run(X, GIVEN, epoch=4)
        method.abstain_plan(run)
        assert method.first_price.item() == pytest.approx(0.04)
        assert run.notes == {"first_price": method.first_price.item()}
        method.mean_loss.fill_(9.0)
        method.abstain_plan(make_run(X, GIVEN, epoch=5))
        assert method.first_price.item() == pytest.approx(0.04)

    def test_mean_loss_moves_with_every_step(self, make, make_batch, make_clock):
        method = make(warm_up=3)
        method.mean_loss.fill_(2.0)
        method.abstain_step(make_batch(X, GIVEN), make_clock(1))
        assert method.mean_loss.item() == pytest.approx(0.95 * 2 + 0.05 * ((1 - A) * H).mean().item(), rel=1e-5)

    def test_without_a_warm_up_starts_from_knowing_nothing(self, make, make_run):
        method = make(warm_up=0, price_divisor=1.0)
        method.abstain_plan(make_run(X, GIVEN, epoch=1))
        assert method.first_price.item() == pytest.approx(math.log(3))


class TestSteps:
    def test_warm_up_is_cross_entropy_over_all_outputs(self, make, make_batch, make_clock):
        step = make(warm_up=3).abstain_step(make_batch(X, GIVEN), make_clock(3))
        assert step.terms["cross_entropy"].item() == pytest.approx(F.cross_entropy(X, GIVEN).item(), rel=1e-5)
        assert torch.equal(step.seen, X[:, :K])

    def test_abstaining_by_hand(self, make, make_batch, make_clock):
        method = make(warm_up=4)
        method.first_price.fill_(0.2)
        terms = method.abstain_step(make_batch(X, GIVEN), make_clock(7, epochs=9)).terms
        assert terms["kept"].item() == pytest.approx(((1 - A) * H).mean().item(), rel=1e-5)
        assert terms["abstaining"].item() == pytest.approx(0.6 * -(1 - A).log().mean().item(), rel=1e-5)

    def test_second_training_has_no_abstaining_output(self, make, make_batch, make_clock):
        method = make()
        step = method.step(make_batch(X, GIVEN), make_clock(1))
        assert step.terms["cross_entropy"].item() == pytest.approx(H.mean().item(), rel=1e-5)
        assert torch.allclose(method.predict(X), X[:, :K].softmax(1))

    def test_a_batch_of_one_and_padding(self, make, make_batch, make_clock):
        method = make(warm_up=0)
        method.first_price.fill_(0.1)
        weight = torch.tensor([1.0, 0.0])
        padded = method.abstain_step(make_batch(X[:2], GIVEN[:2], torch.tensor([0, -1]), weight), make_clock(1)).terms
        real = method.abstain_step(make_batch(X[:1], GIVEN[:1]), make_clock(1)).terms
        assert [t.item() for t in padded.values()] == pytest.approx([t.item() for t in real.values()])


class TestJudgement:
    @pytest.mark.parametrize("rule", ["misclassified", "abstained"])
    def test_rules(self, make, make_run, rule):
        method, run = make(remove=rule), make_run(X, GIVEN)
        method.judge(run)
        expected = X[:, :K].argmax(1) != GIVEN if rule == "misclassified" else X.argmax(1) == K
        assert torch.equal(method.removed, expected)
        assert 0 < expected.sum() < N
        assert run.notes["removed_share"] == pytest.approx(expected.float().mean().item())
        (walk,) = method.stages()[-1].plan
        assert walk.views["batch"].indices.tolist() == (~expected).nonzero().squeeze(1).tolist()

    def test_nothing_is_removed_if_too_few_would_be_left(self, make, make_run):
        method = make(remove="abstained")
        method.judge(make_run(torch.tensor([[0.0, 0.0, 0.0, 9.0]]).repeat(N, 1), GIVEN))
        assert not method.removed.any()

    def test_verdict_is_of_the_real_outputs(self, make, make_run, verdict_of):
        method = make()
        method.judge(make_run(X, GIVEN))
        verdict = verdict_of(method, X, GIVEN)
        assert torch.allclose(verdict.quality, X[:, :K].softmax(1).gather(1, GIVEN[:, None]).squeeze(1))
        assert torch.allclose(verdict.corrected, X[:, :K].softmax(1))
        assert torch.allclose(verdict.evidence["abstention"], A)

    def test_survives_a_restart(self, make, make_run):
        before, after = make(), make(seed=1)
        before.judge(make_run(X, GIVEN))
        after.load_state_dict(before.state_dict())
        assert torch.equal(after.removed, before.removed)
        assert torch.equal(after.held_out, before.held_out)


class TestStages:
    @pytest.mark.parametrize(
        ("epochs", "lengths", "warm_up"),
        [(400, [200, 200], 20), (24, [12, 12], 5), (7, [4, 3], 3), (2, [1, 1], 1), (1, [1], 1)],
    )
    def test_divide_the_run(self, make, epochs, lengths, warm_up):
        method = make(epochs=epochs)
        assert [stage.epochs for stage in method.stages()] == lengths
        assert method.warm_up == warm_up

    def test_a_tenth_chooses_the_epoch_and_is_not_trained_on(self, make, make_run):
        given = GIVEN.repeat(5)
        method = make(given)
        first, second = method.stages()
        held_out = first.validate_on.indices.tolist()
        (walk,) = method.abstain_plan(make_run(X.repeat(5, 1), given))
        assert len(held_out) == 15
        assert sorted(held_out + walk.views["batch"].indices.tolist()) == list(range(150))
        assert (first.keep, second.keep, second.reset) == ("best", "last", "new")

    def test_too_few_rows_to_choose_by(self, make):
        first, _ = make(given=GIVEN.repeat(5)[:149]).stages()
        assert (first.keep, first.validate_on) == ("last", None)
