"""Random crops and flips, the draws behind them, and the statistics of inputs."""

import pytest
import torch

from surelabel.core.stages import seed_of
from surelabel.data.augment import Augment, draw_uniform, input_statistics
from surelabel.data.images.frames import centre_crop
from surelabel.data.strong_augment import NUM_DRAWS, augment_strongly


def correlation(a: torch.Tensor, b: torch.Tensor) -> float:
    return float(torch.corrcoef(torch.stack([a.flatten(), b.flatten()]))[0, 1])


class TestDraws:
    index = torch.arange(20_000)

    def test_they_are_uniform(self):
        u = draw_uniform(0, 1, self.index, 0, 4)
        assert u.dtype == torch.float32
        assert u.shape == (20_000, 4)
        assert 0 <= u.min() < 1e-3
        assert 1 - 1e-3 < u.max() < 1
        for power in (1, 2, 3):
            torch.testing.assert_close(u.pow(power).mean(0), torch.full((4,), 1 / (power + 1)), atol=0.01, rtol=0)
        counts = torch.histc(u, 100, 0, 1)
        chi_squared = ((counts - 800) ** 2 / 800).sum()
        assert 50 < chi_squared < 160  # 99 degrees of freedom: 99 +- 14

    @pytest.mark.parametrize(
        "other",
        [
            pytest.param((1, 1, 0, 0), id="seed"),
            pytest.param((0, 2, 0, 0), id="epoch"),
            pytest.param((0, 1, 1, 0), id="index"),
            pytest.param((0, 1, 0, 1), id="view"),
        ],
    )
    def test_neighbours_are_independent(self, other):
        seed, epoch, shift, view = other
        u = draw_uniform(0, 1, self.index, 0, 2)
        assert abs(correlation(u, draw_uniform(seed, epoch, self.index + shift, view, 2))) < 0.02

    def test_columns_are_independent(self):
        u = draw_uniform(3, 1, self.index, 0, 4)
        off_diagonal = torch.corrcoef(u.T) - torch.eye(4)
        assert off_diagonal.abs().max() < 0.03

    def test_they_depend_on_the_sample_and_not_on_its_batch(self):
        u = draw_uniform(5, 2, self.index, 1, 3)
        some = torch.tensor([7, 19_000, 3])
        assert torch.equal(draw_uniform(5, 2, some, 1, 3), u[some])
        assert torch.equal(draw_uniform(5, 2, some, 1, 2), u[some, :2])

    def test_they_are_splitmix64_of_the_row_and_then_of_the_column(self):
        u = draw_uniform(8, 2, torch.tensor([-1, 0, 1, 10**9]), 1, 2)
        for row, index in enumerate((-1, 0, 1, 10**9)):
            row_key = splitmix64(seed_of("draws", 8, 2, 1) + index * GOLDEN)
            expected = [(splitmix64(row_key + column * GOLDEN) >> 40) / 2**24 for column in (1, 2)]
            assert u[row].tolist() == expected

    def test_they_never_change(self):
        """A change here would change every run."""
        assert draw_uniform(0, 1, torch.tensor([0]), 0, 1).item() == pytest.approx(0.4044956565)


GOLDEN = 0x9E3779B97F4A7C15


def splitmix64(z: int) -> int:
    """Compute splitmix64 of Steele, Lea and Flood (2014) in unbounded integers."""
    z %= 2**64
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
    return z ^ (z >> 31)


class TestAugment:
    x = torch.arange(1, 1 + 3 * 6 * 5, dtype=torch.uint8).reshape(1, 3, 6, 5).expand(64, -1, -1, -1)
    index = torch.arange(64)

    def test_64_copies_have_many_distinct_crops(self):
        views = Augment(crop_padding=4, flip=True, seed=0)(self.x, self.index, 1, 0)
        assert views.shape == self.x.shape
        assert views.dtype == torch.uint8
        assert len(views.unique(dim=0)) > 40

    def test_each_result_is_a_window_of_the_padded_image_or_its_mirror(self):
        views = Augment(crop_padding=1, flip=True, seed=0)(self.x, self.index, 1, 0)
        padded = torch.nn.functional.pad(self.x[0], (1, 1, 1, 1))
        windows = [padded[:, top : top + 6, left : left + 5] for top in range(3) for left in range(3)]
        allowed = {tuple(w.flatten().tolist()) for window in windows for w in (window, window.flip(2))}
        seen = {tuple(view.flatten().tolist()) for view in views}
        assert seen <= allowed
        assert len(seen) > 12  # of 18

    def test_half_are_mirrored(self):
        x = self.x[:1].expand(2000, -1, -1, -1)
        views = Augment(crop_padding=0, flip=True, seed=0)(x, torch.arange(2000), 1, 0)
        num_mirrored = int((views == x.flip(3)).flatten(1).all(1).sum())
        assert 900 < num_mirrored < 1100

    def test_alternating_flips_show_both_views_in_two_turns(self):
        x, index = self.x[:1].expand(200, -1, -1, -1), torch.arange(200)
        augment = Augment(crop_padding=0, flip="alternate", seed=0)
        turns = [augment(x, index, epoch=seed, view=0, turn=turn) for seed, turn in ((11, 1), (12, 2), (13, 3))]
        assert torch.equal(turns[0], turns[2])
        assert torch.equal(turns[0], turns[1].flip(3))
        mirrored = (turns[0] == x.flip(3)).flatten(1).all(1).float().mean()
        assert 0.4 < mirrored < 0.6, "each image begins with either view"

    def test_without_padding_and_flip_nothing_changes(self):
        assert torch.equal(Augment(crop_padding=0, flip=False, seed=0)(self.x, self.index, 1, 0), self.x)

    def test_a_view_depends_on_sample_epoch_and_copy_and_not_on_the_batch(self):
        augment = Augment(crop_padding=4, flip=True, seed=0)
        views = augment(self.x, self.index, 3, 1)
        order = torch.randperm(64)[:10]
        assert torch.equal(augment(self.x[:10], order, 3, 1), views[order])
        assert not torch.equal(augment(self.x, self.index, 4, 1), views)
        assert not torch.equal(augment(self.x, self.index, 3, 0), views)

    def test_padding_rows_are_accepted(self):
        views = Augment(crop_padding=4, flip=True, seed=0)(self.x[:2], torch.tensor([-1, 0]), 1, 0)
        assert views.shape == (2, 3, 6, 5)

    def test_memory_order_does_not_matter(self):
        augment = Augment(crop_padding=2, flip=True, seed=0)
        x = torch.randint(0, 256, (8, 3, 6, 6), dtype=torch.uint8)
        strided = x.contiguous(memory_format=torch.channels_last)
        assert torch.equal(augment(strided, self.index[:8], 1, 0), augment(x, self.index[:8], 1, 0))


class TestCrop:
    """Images in which the first channel is the line and the second the column."""

    line, column = torch.meshgrid(torch.arange(9), torch.arange(7), indexing="ij")
    x = torch.stack([line, column]).to(torch.uint8)[None].expand(200, -1, -1, -1)
    index = torch.arange(200)

    def test_every_window_of_the_image_is_drawn(self):
        views = Augment(crop_padding=0, flip=False, seed=0, crop=5)(self.x, self.index, 1, 0)
        assert views.shape == (200, 2, 5, 5)
        corners = {tuple(corner.tolist()) for corner in views[:, :, 0, 0]}
        assert corners == {(top, left) for top in range(5) for left in range(3)}
        for view in views:
            assert torch.equal(view - view[:, :1, :1], self.x[0, :, :5, :5])

    def test_with_padding_it_extends_beyond_the_edge(self):
        views = Augment(crop_padding=2, flip=False, seed=0, crop=7)(self.x + 1, self.index, 1, 0)
        assert views.shape == (200, 2, 7, 7)
        assert (views == 0).any()

    def test_a_window_is_not_cropped_again(self):
        window = self.x[:, :, 2:7, 1:6]
        assert torch.equal(Augment(crop_padding=0, flip=False, seed=0, crop=5)(window, self.index, 1, 0), window)

    def test_places_are_those_of_the_windows(self):
        augment = Augment(crop_padding=0, flip=True, seed=0, crop=5)
        top, left = (augment.places(self.index, 1, 0) * torch.tensor([5, 3])).long().unbind(1)
        views = augment(self.x, self.index, 1, 0)
        assert torch.equal(views[:, 0, 0, 0], top)
        assert torch.equal(views[:, 1, 0].amin(1), left)

    def test_the_centre_without_augmentation(self):
        assert centre_crop(self.x, 5)[0, :, 0, 0].tolist() == [2, 1]
        assert centre_crop(self.x, 5).shape == (200, 2, 5, 5)
        assert torch.equal(centre_crop(self.x, None), self.x)
        assert torch.equal(centre_crop(torch.zeros(3, 4), 2), torch.zeros(3, 4))


class TestStrong:
    def test_they_follow_crop_and_flip_and_have_separate_draws(self):
        x = torch.randint(0, 256, (64, 3, 8, 8), dtype=torch.uint8)
        augment, index = Augment(crop_padding=2, flip=True, seed=0), torch.arange(64)
        usual, views = augment(x, index, 1, 0), augment(x, index, 1, 0, is_strong=True)
        assert torch.equal(augment_strongly(usual, draw_uniform(0, 1, index, 0, 3 + NUM_DRAWS)[:, 3:]), views)
        some = torch.tensor([5, 60, 2])
        assert torch.equal(augment(x[some], some, 1, 0, is_strong=True), views[some])
        assert not torch.equal(augment(x, index, 1, 1, is_strong=True), views)


class TestStatistics:
    def test_images_have_one_value_per_channel_in_raw_units(self):
        x = torch.randint(0, 256, (50, 3, 7, 5), dtype=torch.uint8)
        x[:, 1] = 9
        mean, std = input_statistics(x)
        pixels = x.double().transpose(0, 1).flatten(1)
        expected = pixels.std(1, correction=0)
        expected[1] = 1
        torch.testing.assert_close(mean, pixels.mean(1).float())
        torch.testing.assert_close(std, expected.float())

    def test_features_have_one_value_per_column_and_constant_columns_have_1(self):
        x = torch.randn(100, 4) * torch.tensor([1.0, 5.0, 0.0, 0.01]) + torch.tensor([0.0, -3.0, 0.1, 1000.0])
        mean, std = input_statistics(x)
        torch.testing.assert_close(mean, x.double().mean(0).float())
        torch.testing.assert_close(std[[0, 1, 3]], x.double().std(0, correction=0).float()[[0, 1, 3]])
        assert std[2] == 1

    def test_the_size_of_chunks_does_not_matter(self, monkeypatch):
        x = torch.randint(0, 256, (50, 3, 4, 4), dtype=torch.uint8)
        whole = input_statistics(x)
        monkeypatch.setattr("surelabel.data.augment._PIXELS", 100)
        torch.testing.assert_close(input_statistics(x), whole)
