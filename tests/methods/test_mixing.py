"""Parts of MixMatch: sharpening and mixup."""

import pytest
import torch

from surelabel.core import Clock
from surelabel.methods._mixing import draw_mixing_weight, mix, sharpen


def clock(step: int = 0, seed: int = 0) -> Clock:
    return Clock("train", 1, 10, step, 1000, 0.0, seed)


class TestSharpen:
    P = torch.tensor([[0.5, 0.3, 0.2], [0.1, 0.1, 0.8]])

    def test_by_hand(self):
        expected = self.P**2 / (self.P**2).sum(1, keepdim=True)
        assert torch.allclose(sharpen(self.P, 0.5), expected)

    def test_temperature_one_is_the_identity(self):
        assert torch.allclose(sharpen(self.P, 1.0), self.P)

    def test_towards_zero_is_the_one_hot_argmax(self):
        assert torch.allclose(sharpen(self.P, 1e-3), torch.tensor([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]))

    @pytest.mark.parametrize("temperature", [0.1, 0.5, 2.0])
    def test_uniform_stays_uniform_and_rows_sum_to_one(self, temperature):
        assert torch.allclose(sharpen(torch.full((1, 4), 0.25), temperature), torch.full((1, 4), 0.25))
        assert torch.allclose(sharpen(self.P, temperature).sum(1), torch.ones(2))

    def test_one_hot_stays_exactly_one_hot(self):
        assert sharpen(torch.tensor([[0.0, 1.0, 0.0]]), 0.5).tolist() == [[0, 1, 0]]

    def test_does_not_underflow(self):
        p = torch.tensor([[1e-20, 3e-20]])
        assert torch.allclose(sharpen(p, 0.5), torch.tensor([[0.1, 0.9]]))


class TestMixingShare:
    def test_is_at_least_a_half_and_at_most_one(self):
        shares = [draw_mixing_weight(4.0, clock(step)) for step in range(200)]
        assert 0.5 <= min(shares) < 0.52
        assert 0.7 < max(shares) <= 1
        assert len(set(shares)) == 200

    def test_follows_the_beta_distribution(self):
        shares = torch.tensor([draw_mixing_weight(0.5, clock(step)) for step in range(1000)])
        # P(max(u, 1 - u) > 0.9) of Beta(1/2, 1/2), the arcsine law, is 4 / pi arcsin(sqrt(0.1)).
        assert (shares > 0.9).double().mean().item() == pytest.approx(0.4097, abs=0.05)

    def test_depends_only_on_seed_and_step(self):
        torch.manual_seed(1)
        first = draw_mixing_weight(4.0, clock(3))
        torch.manual_seed(2)
        assert draw_mixing_weight(4.0, clock(3)) == first
        assert draw_mixing_weight(4.0, clock(3, seed=1)) != first


def parts(*sizes: int, padding: int = 0):
    """Rows that differ in x and in target; the last `padding` rows of each part have weight 0."""
    result, start = [], 0
    for size in sizes:
        values = torch.arange(start, start + size, dtype=torch.float32)
        weight = (torch.arange(size) < size - padding).float()
        result.append((values[:, None].repeat(1, 2), torch.stack([values, -values], 1), weight))
        start += size
    return result


class TestMixed:
    def test_share_one_changes_nothing(self):
        rows = parts(3, 5)
        for (x, target), (old_x, old_target, _) in zip(mix(rows, 1.0, clock()), rows, strict=True):
            assert torch.equal(x, old_x)
            assert torch.equal(target, old_target)

    def test_inputs_and_targets_have_the_same_partner(self):
        for x, target in mix(parts(3, 5), 0.75, clock()):
            assert torch.allclose(x[:, 0], target[:, 0])
            assert torch.allclose(x[:, 0], -target[:, 1])

    def test_every_row_is_a_partner_once_across_parts(self):
        results = mix(parts(3, 5), 0.75, clock())
        x = torch.cat([x[:, 0] for x, _ in results])
        partner = (x - 0.75 * torch.arange(8)) / 0.25
        assert sorted(partner.round().int().tolist()) == list(range(8))
        assert bool((partner[:3] > 2.5).any())
        assert partner.round().int().tolist() != list(range(8))

    def test_padding_is_never_a_partner(self):
        for step in range(20):
            results = mix(parts(4, 4, padding=2), 0.5, clock(step))
            partner = torch.cat([2 * x[:, 0] for x, _ in results]) - torch.arange(8)
            assert sorted(partner[[0, 1, 4, 5]].tolist()) == [0, 1, 4, 5]

    def test_pairs_depend_on_the_clock(self):
        def pairs(*place):
            return torch.cat([x for x, _ in mix(parts(9), 0.5, clock(*place))]).tolist()

        assert pairs(1) == pairs(1)
        assert pairs(1) != pairs(2)

    def test_uint8_images_are_mixed_as_floats(self):
        x = torch.tensor([[0], [255]], dtype=torch.uint8)
        for step in range(5):
            ((mixture, _),) = mix([(x, torch.eye(2), torch.ones(2))], 0.5, clock(step))
            assert mixture.dtype == torch.float32
            assert mixture.tolist() in ([[0.0], [255.0]], [[127.5], [127.5]])
