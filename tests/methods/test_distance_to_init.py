"""RDI and AUX: the penalty, and the variable per sample."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from surelabel.methods.distance_to_init import DistanceToInit, penalised_parameters, squared_distance

GIVEN = torch.tensor([0, 1, 2, 0])
P = torch.tensor([[0.5, 0.25, 0.25], [0.2, 0.2, 0.6], [0.1, 0.1, 0.8], [0.7, 0.2, 0.1]])
X = F.pad(P.log(), (0, 1))
CROSS_ENTROPY = F.nll_loss(P.log(), GIVEN).item()


@pytest.fixture
def make(make_task):
    return lambda **options: DistanceToInit(make_task(GIVEN), **options)


class TestDistance:
    def test_by_hand(self):
        network = nn.Linear(2, 2)
        initial = copy.deepcopy(network)
        with torch.no_grad():
            network.weight[0, 0] += 3
            network.bias[1] -= 4
        assert squared_distance(network, initial).item() == pytest.approx(25)

    def test_normalisation_layers_are_not_penalised(self):
        network = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2), nn.LayerNorm(2), nn.Linear(2, 1))
        assert [tuple(p.shape) for p in penalised_parameters(network)] == [(2, 2), (2,), (1, 2), (1,)]

    def test_value_and_gradient_are_zero_at_the_start(self, make, make_batch, make_clock):
        method = make(strength=5.0)
        terms = method.step(make_batch(X, GIVEN), make_clock(1)).terms
        assert terms["distance"].item() == 0
        assert terms["cross_entropy"].item() == pytest.approx(CROSS_ENTROPY, rel=1e-5)
        grads = torch.autograd.grad(terms["distance"], list(method.network.parameters()))
        assert not any(grad.any() for grad in grads)

    def test_a_step_away_by_hand(self, make, make_batch, make_clock):
        method = make(strength=5.0)
        with torch.no_grad():
            method.network.classifier.bias += 2.0
        distance = method.step(make_batch(X, GIVEN), make_clock(1)).terms["distance"]
        assert distance.item() == pytest.approx(25 / (2 * 4) * 3 * 4)
        (grad,) = torch.autograd.grad(distance, method.network.classifier.bias)
        assert grad.tolist() == pytest.approx([25 / 4 * 2] * 3)

    def test_the_initial_weights_are_not_trained_and_survive_a_restart(self, make):
        before, after = make(), make()
        assert list(before.networks()) == ["network"]
        with torch.no_grad():
            before.initial.classifier.bias += 1
        after.load_state_dict(before.state_dict())
        assert torch.equal(after.initial.classifier.bias, before.initial.classifier.bias)

    def test_strength_zero_is_cross_entropy(self, make, make_batch, make_clock):
        terms = make(strength=0.0).step(make_batch(X, GIVEN), make_clock(1)).terms
        assert sum(terms.values()).item() == pytest.approx(CROSS_ENTROPY, rel=1e-5)


class TestAuxiliary:
    def test_the_first_loss_is_cross_entropy_and_b_moves_against_the_residual(self, make, make_batch, make_clock):
        method = make(variant="auxiliary", strength=2.0, auxiliary_rate=0.1)
        step = method.step(make_batch(X, GIVEN), make_clock(1))
        assert step.terms["cross_entropy"].item() == pytest.approx(CROSS_ENTROPY, rel=1e-5)
        b = -0.1 * 2 * (P - F.one_hot(GIVEN, 3))
        assert torch.allclose(method.auxiliary.whole(), b, atol=1e-6)
        again = method.step(make_batch(X, GIVEN), make_clock(2)).terms["cross_entropy"]
        assert again.item() == pytest.approx(F.cross_entropy(P.log() + 2 * b, GIVEN).item(), rel=1e-5)
        assert torch.equal(step.seen, X[:, :3])

    def test_only_the_rows_of_the_batch_move(self, make, make_batch, make_clock):
        method = make(variant="auxiliary")
        index, weight = torch.tensor([2, -1]), torch.tensor([1.0, 0.0])
        method.step(make_batch(X[[2, 0]], GIVEN[[2, 0]], index, weight), make_clock(1))
        assert method.auxiliary.whole().any(1).tolist() == [False, False, True, False]

    def test_strength_zero_stays_cross_entropy(self, make, make_batch, make_clock):
        method = make(variant="auxiliary", strength=0.0)
        for epoch in (1, 2):
            terms = method.step(make_batch(X, GIVEN), make_clock(epoch)).terms
            assert sum(terms.values()).item() == pytest.approx(CROSS_ENTROPY, rel=1e-5)

    def test_is_not_used_in_prediction_and_survives_a_restart(self, make, make_batch, make_clock):
        before, after = make(variant="auxiliary"), make(variant="auxiliary")
        before.step(make_batch(X, GIVEN), make_clock(1))
        assert torch.allclose(before.predict(X), P, atol=1e-6)
        after.load_state_dict(before.state_dict())
        assert torch.equal(after.auxiliary.whole(), before.auxiliary.whole())


def test_default_strength_is_a_root_of_the_number_of_samples(make):
    assert make().strength == pytest.approx(2**0.5)
