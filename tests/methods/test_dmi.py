"""L_DMI: the determinant by hand, its invariances, and batches without one."""

import math

import pytest
import torch
import torch.nn.functional as F

from surelabel.methods.dmi import DMI, default_batch_size, dmi_loss, label_prediction_sums

T = torch.tensor([[0.7, 0.2, 0.1], [0.0, 0.9, 0.1], [0.3, 0.3, 0.4]], dtype=torch.float64)


def sums_of(p, label):
    return label_prediction_sums(p.log(), label, torch.ones(len(label), dtype=p.dtype))


class TestLoss:
    P = torch.tensor([[0.8, 0.2], [0.6, 0.4], [0.1, 0.9]], dtype=torch.float64)
    LABEL = torch.tensor([0, 0, 1])

    def test_matrix_by_hand(self):
        expected = torch.tensor([[1.4, 0.6], [0.1, 0.9]], dtype=torch.float64)
        assert torch.allclose(sums_of(self.P, self.LABEL), expected)

    def test_loss_by_hand(self):
        # U is a third of the sums: det = (1.4 x 0.9 - 0.6 x 0.1) / 9.
        assert dmi_loss(sums_of(self.P, self.LABEL)).item() == pytest.approx(-math.log(1.2 / 9))

    def test_gradient_is_that_of_the_plain_determinant(self):
        logits = self.P.log().requires_grad_()
        weight = torch.ones(3, dtype=torch.float64)
        (grad,) = torch.autograd.grad(dmi_loss(label_prediction_sums(logits, self.LABEL, weight)), logits)
        plain = F.one_hot(self.LABEL, 2).double().t() @ logits.softmax(1) / 3
        (expected,) = torch.autograd.grad(-plain.det().abs().log(), logits)
        assert torch.allclose(grad, expected)

    def test_perfect_predictions(self):
        """|det| of B U is n^K for n samples of each class."""
        label = torch.arange(12) % 3
        p = F.one_hot(label, 3).double().clamp(min=1e-12)
        assert dmi_loss(sums_of(p, label)).item() == pytest.approx(-3 * math.log(4 / 12), abs=1e-6)

    def test_permuted_classes_change_nothing(self):
        p = torch.randn(30, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).softmax(1)
        label = torch.arange(30) % 4
        expected = dmi_loss(sums_of(p, label)).item()
        assert dmi_loss(sums_of(p[:, [2, 0, 3, 1]], label)).item() == pytest.approx(expected)

    def test_noise_adds_a_constant(self):
        """Labels drawn by T raise the loss by -log |det T|, whatever the network predicts."""
        generator = torch.Generator().manual_seed(0)
        clean = torch.arange(30) % 3
        for _ in range(3):
            p = torch.randn(30, 3, dtype=torch.float64, generator=generator).softmax(1)
            sums = sums_of(p, clean)
            noisy = T.t() @ sums
            difference = dmi_loss(noisy) - dmi_loss(sums)
            assert difference.item() == pytest.approx(-math.log(T.det().item()))

    def test_many_classes_do_not_overflow(self):
        label = torch.arange(500) % 100
        logits = (10 * F.one_hot(label, 100)).float().requires_grad_()
        loss = dmi_loss(label_prediction_sums(logits, label, torch.ones(500)))
        loss.backward()
        assert loss.item() == pytest.approx(100 * math.log(100), rel=0.01)
        assert bool(logits.grad.isfinite().all())

    @pytest.mark.parametrize(
        ("logits", "label"),
        [
            (torch.eye(3), torch.tensor([0, 1, 1])),
            (torch.zeros(3, 3), torch.tensor([0, 1, 2])),
            (torch.eye(3)[[0, 0, 1]], torch.tensor([0, 1, 2])),
            (torch.eye(3)[:1], torch.tensor([2])),
        ],
        ids=["a class is absent", "predictions are constant", "two labels are predicted alike", "a batch of one"],
    )
    def test_without_a_determinant_is_zero_and_connected(self, logits, label):
        logits = logits.clone().requires_grad_()
        loss = dmi_loss(label_prediction_sums(logits, label, torch.ones(len(label))))
        (grad,) = torch.autograd.grad(loss, logits)
        assert loss.item() == 0
        assert torch.equal(grad, torch.zeros_like(grad))


@pytest.mark.parametrize(
    ("samples", "classes", "expected"),
    [(50000, 10, 260), (50000, 3, 256), (50000, 100, 2600), (1500, 10, 260), (75, 3, 15), (3, 3, 2)],
)
def test_default_batch_size(samples, classes, expected):
    assert default_batch_size(samples, classes) == expected


class TestMethod:
    GIVEN = torch.arange(60) % 3
    X = torch.randn(60, 4, generator=torch.Generator().manual_seed(0)) + 2 * F.one_hot(GIVEN, 4)

    @pytest.fixture
    def make(self, make_task):
        return lambda epochs=220, given=self.GIVEN, num_classes=3, seed=0, **options: DMI(
            make_task(given, num_classes, epochs, seed=seed), **options
        )

    @pytest.mark.parametrize(("epochs", "expected"), [(220, [120, 100]), (4, [2, 2]), (2, [1, 1]), (1, [1])])
    def test_stages_share_the_epochs(self, make, epochs, expected):
        stages = make(epochs).stages()
        assert [stage.epochs for stage in stages] == expected
        assert [stage.name for stage in stages] == ["pretrain", "train"][: len(expected)]

    def test_the_second_stage_continues_at_a_lower_rate(self, make):
        first, second = make(rate_factor=0.001).stages()
        assert (first.rate_factor, second.rate_factor) == (1, 0.001)
        assert second.reset is None
        assert (first.keep, second.keep) == ("best", "last")

    def test_a_tenth_is_held_out_of_pretraining_only(self, make):
        first, second = make().stages()
        (walk,) = first.plan
        held_out = first.validate_on.indices.tolist()
        assert len(held_out) == 6
        assert sorted([*held_out, *walk.views["batch"].indices.tolist()]) == list(range(60))
        (walk,) = second.plan
        assert walk.views["batch"].indices is None
        assert walk.views["batch"].batch_size == 12

    def test_too_few_samples_to_hold_out(self, make):
        first, _ = make(given=torch.tensor([0, 1, 2])).stages()
        assert (first.keep, first.validate_on) == ("last", None)

    def test_pretraining_is_cross_entropy(self, make, make_batch, make_clock):
        terms = make().stages()[0].step(make_batch(self.X, self.GIVEN), make_clock(1)).terms
        expected = F.cross_entropy(self.X[:, :3], self.GIVEN).item()
        assert terms["cross_entropy"].item() == pytest.approx(expected, rel=1e-6)

    def test_step_and_padding(self, make, make_batch, make_clock):
        weight = (torch.arange(60) < 50).float()
        done = make().step(make_batch(self.X, self.GIVEN, weight=weight), make_clock(1))
        expected = dmi_loss(sums_of(self.X[:50, :3].softmax(1), self.GIVEN[:50])).item()
        assert done.terms["dmi"].item() == pytest.approx(expected, rel=1e-5)
        assert torch.equal(done.seen, self.X[:, :3])

    def test_a_batch_below_the_batch_size_counts(self, make, make_batch, make_clock):
        """Batches are equally large: if the batch size leaves a rest, all are smaller."""
        x = self.X[:11].clone().requires_grad_()
        value = make().step(make_batch(x, self.GIVEN[:11]), make_clock(1)).terms["dmi"]
        assert value.item() == pytest.approx(dmi_loss(sums_of(x[:, :3].softmax(1), self.GIVEN[:11])).item(), rel=1e-5)
        assert torch.autograd.grad(value, x)[0].any()

    def test_a_class_that_no_label_names_is_left_out(self, make, make_batch, make_clock):
        given = torch.where(self.GIVEN == 1, 0, self.GIVEN)
        value = make(given=given).step(make_batch(self.X, given), make_clock(1)).terms["dmi"].item()
        sums = sums_of(self.X[:, :3].softmax(1), given)[[0, 2]][:, [0, 2]]
        assert value == pytest.approx(-(sums / sums.sum()).det().abs().log().item(), rel=1e-5)

    def test_verdict_is_the_final_prediction(self, make, verdict_of):
        verdict = verdict_of(make(), self.X, self.GIVEN, seen=torch.full((60,), 0.5))
        p = self.X[:, :3].softmax(1)
        assert torch.allclose(verdict.corrected, p)
        assert torch.allclose(verdict.quality, p[torch.arange(60), self.GIVEN])

    def test_warns_of_batches_without_a_rare_class(self, make):
        rare = torch.zeros(60, dtype=torch.long)
        rare[:6] = 1
        (text,) = make(given=rare, num_classes=2, batch_size=12).advice("settings")
        assert text.endswith("use batch_size=30 or more")
        assert make(given=rare, num_classes=2, batch_size=30).advice("settings") == []
        assert make().advice("settings") == []
