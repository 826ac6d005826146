"""Accuracy, memorisation and gradient shares."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from surelabel.core import Batch, Method, Outputs, Task
from surelabel.core.losses import cross_entropy
from surelabel.data.corpus import Examples
from surelabel.data.loader import Loader
from surelabel.engine.evaluate import GradientShare, SinglePredictions, accuracies, in_eval_mode, memorisation


class Logits(nn.Module):
    """A network whose logits are its inputs times one trainable factor."""

    def __init__(self) -> None:
        super().__init__()
        self.factor = nn.Parameter(torch.ones(()))
        self.dropout = nn.Dropout(0.5)

    def forward(self, x: torch.Tensor) -> Outputs:
        return Outputs(self.dropout(self.factor * x), x)


@pytest.fixture
def method() -> Method:
    method = Method(Task(3, 4, torch.tensor([0, 1, 2, 0]), 5, Logits))
    method.network = Logits()
    return method


class TestMemorisation:
    def test_by_hand(self):
        clean = torch.tensor([0, 0, 1, 1, 0, 0, 1, 1, 1])
        given = torch.tensor([0, 0, 1, 1, 1, 1, 2, 0, 0])
        said = torch.tensor([0, 2, 1, 1, 0, 1, 0, 0, 0])
        assert memorisation(said, given, clean) == {
            "clean_labels": {"correct": 3 / 4, "wrong": 1 / 4},
            "false_labels": {"correct": 1 / 5, "memorised": 3 / 5, "other": 1 / 5},
        }

    @given(st.lists(st.tuples(*[st.integers(0, 3)] * 3), min_size=1, max_size=30))
    def test_the_shares_of_each_group_sum_to_one(self, rows):
        groups = memorisation(*torch.tensor(rows).t())
        for shares in groups.values():
            assert sum(shares.values()) == pytest.approx(1)
            assert min(shares.values()) >= 0
        has_false = any(given != clean for _, given, clean in rows)
        has_clean = any(given == clean for _, given, clean in rows)
        assert ("false_labels" in groups, "clean_labels" in groups) == (has_false, has_clean)


class TestAccuracies:
    def test_top_one_and_top_five(self):
        probability = torch.tensor([[0.3, 0.25, 0.2, 0.15, 0.09, 0.01]] * 4)
        measured = accuracies(probability, torch.tensor([0, 1, 4, 5]))
        assert measured == {"top1": 0.25, "top5": 0.75}

    @pytest.mark.parametrize("num_classes", [2, 5])
    def test_top_five_is_left_out_where_it_says_nothing(self, num_classes):
        assert accuracies(torch.eye(num_classes), torch.arange(num_classes)) == {"top1": 1.0}


class TestPredictions:
    def test_of_all_rows_in_order_without_dropout(self, method):
        x = torch.randn(1030, 3, generator=torch.Generator().manual_seed(0))
        rows = Examples(x, torch.zeros(1030, dtype=torch.long), np.arange(1030).astype(str))
        method.train()
        probability, _ = SinglePredictions(method.networks()).collect(method, Loader(rows, batch_size=7))
        assert torch.allclose(probability, x.softmax(1))
        assert not probability.requires_grad


class TestEvalMode:
    @pytest.mark.parametrize("was_training", [True, False])
    def test_mode_is_restored(self, method, was_training):
        method.train(was_training)
        modes = in_eval_mode(method, lambda: (method.training, method.network.dropout.training))
        assert modes == (False, False)
        assert method.training == method.network.dropout.training == was_training

    def test_train_mode_on_request(self, method):
        method.eval()
        assert in_eval_mode(method, lambda: method.network.dropout.training, train_mode=True)
        assert not method.network.dropout.training

    def test_mode_is_restored_after_an_error(self, method):
        method.train()
        with pytest.raises(ZeroDivisionError):
            in_eval_mode(method, lambda: 1 / 0)
        assert method.training

    def test_no_gradient(self, method):
        assert not in_eval_mode(method, lambda: method.network(torch.ones(1, 3)).logits.requires_grad)
        assert torch.is_grad_enabled()


class TestGradientShare:
    LABEL = torch.tensor([0, 1, 2, 0])
    IS_FALSE = torch.tensor([False, True, False, True])
    X = torch.randn(4, 3, generator=torch.Generator().manual_seed(0))

    def step(self, network, share, index):
        index = torch.tensor(index)
        batch = Batch(index, (self.X[index],), self.LABEL[index], torch.ones(len(index)))
        batch.mean(cross_entropy(network(batch.x).logits, batch.label)).backward()
        share.after_backward(batch)

    @pytest.fixture
    def network(self):
        return Logits().eval()

    def norms(self):
        """The L1 norm of p - e_y is 2 (1 - p_y)."""
        return 2 * (1 - self.X.softmax(1)[torch.arange(4), self.LABEL])

    def test_of_cross_entropy_by_hand(self, network):
        share = GradientShare([network], self.IS_FALSE)
        self.step(network, share, [0, 1, 2, 3])
        norms = self.norms() / 4
        assert share.sums.tolist() == pytest.approx([(norms[0] + norms[2]).item(), (norms[1] + norms[3]).item()])
        expected = ((norms[1] + norms[3]) / norms.sum()).item()
        assert share.close_epoch() == pytest.approx({"clean": 1 - expected, "false": expected})

    def test_adds_up_over_steps_and_starts_again_with_the_epoch(self, network):
        share = GradientShare([network], self.IS_FALSE)
        self.step(network, share, [0, 1])
        self.step(network, share, [2, 3])
        norms = self.norms() / 2
        expected = ((norms[1] + norms[3]) / norms.sum()).item()
        assert share.close_epoch()["false"] == pytest.approx(expected)
        self.step(network, share, [0, 2])
        assert share.close_epoch() == {"clean": 1.0, "false": 0.0}

    def test_padding_does_not_count_even_if_a_step_gives_it_a_gradient(self, network):
        share = GradientShare([network], self.IS_FALSE)
        index, weight = torch.tensor([0, -1, 1]), torch.tensor([1.0, 0.0, 1.0])
        batch = Batch(index, (self.X[index],), self.LABEL[index], weight)
        cross_entropy(network(batch.x).logits, batch.label).sum().backward()
        share.after_backward(batch)
        assert share.sums.tolist() == pytest.approx(self.norms()[:2].tolist())

    def test_two_networks_both_count(self, network):
        other = Logits().eval()
        share = GradientShare([network, other], self.IS_FALSE)
        batch = Batch(torch.arange(4), (self.X,), self.LABEL, torch.ones(4))
        loss = sum(batch.mean(cross_entropy(n(batch.x).logits, batch.label)) for n in (network, other))
        loss.backward()
        share.after_backward(batch)
        assert share.sums.sum().item() == pytest.approx(2 * self.norms().mean().item())

    def test_passes_without_gradient_or_of_other_rows_do_not_count(self, network):
        share = GradientShare([network], self.IS_FALSE)
        with torch.no_grad():
            network(self.X)
        network(torch.cat([self.X, self.X])).logits.sum().backward()
        share.after_backward(Batch(torch.arange(4), (self.X,), self.LABEL, torch.ones(4)))
        assert share.sums.tolist() == [0, 0]

    def test_nothing_measured_is_absent(self, network):
        assert GradientShare([network], self.IS_FALSE).close_epoch() is None
