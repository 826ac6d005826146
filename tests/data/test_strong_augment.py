"""Strong views: large changes that do not depend on the batch."""

import pytest
import torch

from surelabel.data.augment import draw_uniform
from surelabel.data.strong_augment import NUM_DRAWS, augment_strongly

X = torch.randint(0, 256, (64, 3, 12, 12), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
U = draw_uniform(0, 1, torch.arange(64), 0, NUM_DRAWS)

COLOURS = {"brightness": 0.1, "contrast": 0.3, "saturation": 0.5, "posterise": 0.7, "solarise": 0.9}
MOVES = {"rotation": 0.1, "shear_x": 0.3, "shear_y": 0.5, "shift_x": 0.7, "shift_y": 0.9}


def view(x, colour="brightness", how_much=0.5, move="rotation", how_far=0.5, size=0.0):
    """Augment strongly; the defaults change nothing: a factor of one, no angle, no square."""
    row = torch.tensor([COLOURS[colour], how_much, MOVES[move], how_far, 0.5, 0.5, size])
    return augment_strongly(x, row.expand(len(x), -1))


def test_shape_and_type_are_kept_and_nearly_every_view_differs():
    views = augment_strongly(X, U)
    assert views.shape == X.shape
    assert views.dtype == torch.uint8
    assert (views != X).flatten(1).any(1).all()


@pytest.mark.parametrize("channels", [1, 3])
def test_a_row_does_not_depend_on_its_batch(channels):
    x = X[:, :channels]
    views = augment_strongly(x, U)
    for row in range(len(x)):
        assert torch.equal(augment_strongly(x[row : row + 1], U[row : row + 1])[0], views[row])
    some = torch.tensor([9, 3, 60, 3, 17])
    assert torch.equal(augment_strongly(x[some], U[some]), views[some])


def test_memory_order_does_not_matter():
    strided = X.contiguous(memory_format=torch.channels_last)
    assert torch.equal(augment_strongly(strided, U), augment_strongly(X, U))


def test_in_the_middle_of_every_range_nothing_changes():
    for colour in ("brightness", "contrast", "saturation"):
        for move in MOVES:
            assert torch.equal(view(X, colour=colour, move=move), X)


class TestColours:
    def test_brightness(self):
        dark = view(X, "brightness", how_much=0.0)
        assert (dark.int() - (X * 0.1).int()).abs().max() <= 1
        assert view(X, "brightness", how_much=0.999).float().mean() > X.float().mean()

    def test_contrast(self):
        flat = view(X, "contrast", how_much=0.0)
        assert flat.float().std() < 0.2 * X.float().std()
        assert (flat.float().mean((1, 2, 3)) - X.float().mean((1, 2, 3))).abs().max() < 1.5

    def test_saturation(self):
        grey = view(X, "saturation", how_much=0.0).float()
        assert grey.std(1).mean() < 0.2 * X.float().std(1).mean()
        assert torch.equal(view(X[:, :1], "saturation", how_much=0.0), X[:, :1])

    def test_posterise(self):
        assert torch.equal(view(X, "posterise", how_much=0.99), X & 0xF0)
        assert torch.equal(view(X, "posterise", how_much=0.0), X)

    def test_solarise(self):
        assert torch.equal(view(X, "solarise", how_much=0.5), torch.where(X > 128, 255 - X, X))


class TestMoves:
    def test_a_shift(self):
        shifted = view(X, move="shift_x", how_far=0.5 + 5 / 18)  # 5/9 of 0.6 of half of 12 pixels: 2 pixels
        assert (shifted[..., :-2].int() - X[..., 2:].int()).abs().max() <= 1
        assert shifted[..., -2:].max() <= 1
        assert torch.equal(view(X.mT, move="shift_y", how_far=0.5 + 5 / 18).mT, shifted)

    def test_a_rotation_keeps_the_middle_and_moves_the_rest(self):
        x = torch.zeros(1, 1, 33, 33, dtype=torch.uint8)
        x[..., 16, :] = 255
        turned = view(x, how_far=1.0)[0, 0]
        assert turned[16, 16] > 200
        # A line at 30 degrees: 12 pixels to the right it is 7 lines higher or lower.
        assert turned[:, 28].argmax().item() in (16 - 7, 16 + 7)

    def test_a_shear_moves_lines_against_each_other(self):
        x = torch.zeros(1, 1, 33, 33, dtype=torch.uint8)
        x[..., 16] = 255
        leaned = view(x, move="shear_x", how_far=1.0)[0, 0]
        assert (leaned[4].argmax() - leaned[28].argmax()).abs().item() in (7, 8)


def test_a_square_is_cut_out():
    cut = view(X, size=0.999)
    changed = (cut != X).any(1)
    assert changed[:, 3:9, 3:9].float().mean() > 0.98
    assert not changed[:, :3].any()
    assert (cut[:, :, 3:9, 3:9] == 128).all()
