"""The input of a step and the output of a network."""

import pytest
import torch

from surelabel.core import Batch, Outputs


def batch(*weight: float) -> Batch:
    index = torch.where(torch.tensor(weight) > 0, torch.arange(len(weight)), -1)
    x = torch.arange(2.0 * len(weight)).view(-1, 2)
    return Batch(index, (x, -x), torch.zeros(len(weight), dtype=torch.long), torch.tensor(weight))


def test_x_is_the_first_copy():
    assert batch(1, 1).x.tolist() == [[0, 1], [2, 3]]


def test_num_rows_counts_padding():
    assert batch(1, 1, 0).num_rows == 3


def test_mean_is_over_real_rows():
    assert batch(1, 1, 0).mean(torch.tensor([1.0, 2.0, 100.0])).item() == 1.5


def test_mean_where_is_over_selected_real_rows():
    where = torch.tensor([True, False, True, True])
    assert batch(1, 1, 1, 0).mean(torch.tensor([1.0, 2.0, 5.0, 100.0]), where=where).item() == 3


def test_gradient_of_the_mean_is_one_over_the_selected():
    values = torch.tensor([1.0, 2.0, 5.0, 100.0], requires_grad=True)
    batch(1, 1, 1, 0).mean(values, where=torch.tensor([True, False, True, True])).backward()
    assert values.grad.tolist() == [0.5, 0, 0.5, 0]


@pytest.mark.parametrize("weight", [(1, 1), (0, 0)])
def test_nothing_selected_is_a_zero_that_is_still_connected(weight):
    values = torch.tensor([1.0, 2.0], requires_grad=True)
    where = torch.tensor([False, False]) if sum(weight) else None
    mean = batch(*weight).mean(values, where=where)
    mean.backward()
    assert mean.item() == 0
    assert values.grad.tolist() == [0, 0]


def test_mean_keeps_float64():
    assert batch(1, 1).mean(torch.tensor([1.0, 2.0], dtype=torch.float64)).dtype == torch.float64


def test_tau_is_the_sigmoid_of_h():
    outputs = Outputs(torch.zeros(2, 3), torch.zeros(2, 4), torch.tensor([0.0, 3.0]).log1p())
    assert torch.allclose(outputs.tau, torch.tensor([1 / 2, 4 / 5]))


def test_no_indicator_no_tau():
    with pytest.raises(ValueError, match=r"no indicator branch.*indicator=True"):
        _ = Outputs(torch.zeros(2, 3), torch.zeros(2, 4)).tau
