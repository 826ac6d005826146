"""The fast network: its shapes, and its memory format, which stays internal."""

import copy

import pytest
import torch

from surelabel.models import Network, make_backbone
from surelabel.models.fast_cnn import FastCNN


@pytest.mark.parametrize(("side", "last"), [(5, 2), (8, 3), (17, 2), (28, 3), (32, 3), (64, 7)])
def test_pools_while_two_pixels_remain(side, last):
    network = FastCNN((1, side, side), widths=(4, 4, 4), stem=2)
    x = network.stem(torch.zeros(1, 1, side, side))
    assert network.blocks(x).shape[-1] == last


@pytest.mark.parametrize("shape", [(1, 28, 28), (3, 32, 32), (3, 64, 64), (3, 40, 20)])
def test_inputs_in_either_format_have_the_same_outputs(shape):
    network = FastCNN(shape).eval()
    x = torch.randn(2, *shape)
    features = network(x)
    assert features.shape == (2, 128)
    assert features.is_contiguous()
    assert torch.equal(features, network(x.contiguous(memory_format=torch.channels_last)))


def formats(network):
    return {w.is_contiguous(memory_format=torch.channels_last) for w in network.parameters() if w.dim() == 4}


def test_weights_stay_in_their_format():
    network = Network(FastCNN((3, 32, 32)), 10)
    assert formats(network) == {True}
    other = copy.deepcopy(network)
    assert formats(other) == {True}
    plain = {name: value.contiguous() for name, value in network.state_dict().items()}
    fresh = Network(FastCNN((3, 32, 32)), 10)
    fresh.load_state_dict(plain)  # as in a file of weights
    assert formats(fresh) == {True}
    x = torch.randn(2, 3, 32, 32)
    assert torch.equal(fresh(x).logits, network(x).logits)


def test_steps_are_deterministic():
    def trained():
        torch.manual_seed(0)
        network = Network(make_backbone("fast_cnn", (3, 32, 32)), 10)
        optimiser = torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.9)
        x, y = torch.randn(16, 3, 32, 32), torch.randint(0, 10, (16,))
        for _ in range(3):
            loss = torch.nn.functional.cross_entropy(network(x).logits, y)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
        return network.state_dict()

    first, second = trained(), trained()
    assert all(torch.equal(first[name], second[name]) for name in first)


class TestWhitening:
    def patches_after(self, network, x):
        """Return the covariance of what the first half of the filters make of patches."""
        found = torch.nn.functional.conv2d(x, network.stem.weight)[:, : network.stem.num_outputs // 2]
        found = found.transpose(0, 1).flatten(1)
        return found @ found.T / found.shape[1]

    @pytest.fixture
    def images(self):
        """Images whose neighbouring pixels are alike, as in photos."""
        noise = torch.randn(64, 3, 36, 36, generator=torch.Generator().manual_seed(0))
        return 3 * torch.nn.functional.avg_pool2d(noise, 5, stride=1)

    def test_patches_of_the_first_batch_become_uncorrelated(self, images):
        network = FastCNN((3, 32, 32), whiten=True).train()
        before = self.patches_after(network, images)
        network(images)
        after = self.patches_after(network, images)
        off = ~torch.eye(12, dtype=torch.bool)
        assert after[off].abs().max() < 1e-3 < before[off].abs().max()
        assert after.diag().max() < 1.001
        assert torch.equal(network.stem.weight[:12], -network.stem.weight[12:])

    def test_later_batches_and_tests_change_nothing(self, images):
        network = FastCNN((3, 32, 32), whiten=True)
        first = network.stem.weight.clone()
        network.eval()(images)
        assert torch.equal(network.stem.weight, first), "only training sets the filters"
        network.train()(images)
        chosen = network.stem.weight.clone()
        assert not torch.equal(chosen, first)
        network(5 * images)
        assert torch.equal(network.stem.weight, chosen)

    def test_a_saved_network_keeps_its_filters_and_a_fresh_state_sets_them_again(self, images):
        fresh = FastCNN((3, 32, 32), whiten=True).state_dict()
        fresh = {name: value.clone() for name, value in fresh.items()}
        network = FastCNN((3, 32, 32), whiten=True).train()
        network(images)
        chosen = network.stem.weight.clone()
        other = FastCNN((3, 32, 32), whiten=True).train()
        other.load_state_dict(network.state_dict())
        other(5 * images)
        assert torch.equal(other.stem.weight, chosen)
        network.load_state_dict(fresh)  # as a stage that resets its networks does
        network(images)
        assert torch.equal(network.stem.weight, chosen)

    def test_no_optimiser_moves_the_filters(self):
        names = {name for name, _ in FastCNN((3, 32, 32), whiten=True).named_parameters()}
        assert "stem.bias" in names
        assert "stem.weight" not in names
