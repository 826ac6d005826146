import pytest
import torch

from surelabel.models.gradients import NUM_ORIENTATIONS, _votes, gradient_features


def test_a_vertical_edge_votes_for_the_gradient_across():
    image = torch.zeros(1, 1, 16, 16)
    image[..., 8:] = 1.0
    votes = _votes(image)[0].sum((1, 2))
    # Angle 0 lies between the last bin and the first, so that both get half of the vote: the
    # gradient is 1 in two columns of 16 pixels.
    assert votes[0] == pytest.approx(16)
    assert votes[-1] == pytest.approx(16)
    assert votes[1:-1].abs().max() < 1e-4


def test_turning_the_image_by_90_degrees_turns_the_orientation():
    image = torch.zeros(1, 1, 16, 16)
    image[..., 8:, :] = 1.0
    assert _votes(image)[0].sum((1, 2)).argmax() == NUM_ORIENTATIONS // 2


@pytest.mark.parametrize("channels", [1, 3])
def test_contrast_and_brightness_change_little_and_a_mirror_image_much(channels):
    generator = torch.Generator().manual_seed(0)
    image = torch.nn.functional.interpolate(torch.rand(4, channels, 5, 5, generator=generator), 32, mode="bilinear")
    dim, bright = ((image * scale + shift).to(torch.uint8) for scale, shift in ((100, 20), (200, 40)))
    features = gradient_features(dim)
    assert features.shape == (4, 324)
    change = (gradient_features(bright) - features).norm(dim=1)
    mirrored = (gradient_features(dim.flip(3)) - features).norm(dim=1)
    assert (change < 0.3 * mirrored).all()


def test_a_plain_image_has_features_of_zero():
    assert gradient_features(torch.full((2, 3, 32, 32), 7, dtype=torch.uint8)).abs().max() == 0
