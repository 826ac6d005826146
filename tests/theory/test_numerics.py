"""car_terms and car_loss: values by hand, gradients, ranges, dtypes, and soft targets."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from surelabel import car_loss, car_terms


def soft(num_rows, num_classes, seed=0, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(num_rows, num_classes, generator=generator, dtype=dtype).softmax(1)


def one_hot(num_rows, num_classes, dtype=torch.float64):
    return torch.eye(num_classes, dtype=dtype)[torch.arange(num_rows) % num_classes]


def half_zero(num_rows, num_classes, dtype=torch.float64):
    """Soft targets with exact zeros."""
    rows = one_hot(num_rows, num_classes, dtype)
    return 0.7 * rows + 0.3 * rows.roll(1, 1)


TARGETS = {"one_hot": one_hot, "soft": soft, "half_zero": half_zero}


def test_values_by_hand():
    """p = (1/2, 1/4, 1/4), tau = 1/2, t = first class: q = (3/4, 1/8, 1/8)."""
    logits = torch.tensor([[2.0, 1, 1]], dtype=torch.float64).log()
    found = car_terms(logits, torch.zeros(1, dtype=torch.float64), one_hot(1, 3))
    assert [term.item() for term in found] == pytest.approx([-math.log(0.75), math.log(2), 1.0])
    loss = car_loss(logits, torch.zeros(1), one_hot(1, 3), penalty_weight=0.5, reverse_weight=3.0, log_zero=-2.0)
    assert loss.item() == pytest.approx(-math.log(0.75) + 0.5 * math.log(2) + 3 * 0.5)


def test_soft_values_by_hand():
    """p = (1/2, 1/2), tau = 1/2, t = (3/4, 1/4): q = (5/8, 3/8)."""
    logits, target = torch.zeros(1, 2, dtype=torch.float64), torch.tensor([[0.75, 0.25]], dtype=torch.float64)
    cace, _, reverse = car_terms(logits, torch.zeros(1, dtype=torch.float64), target)
    assert cace.item() == pytest.approx(-0.75 * math.log(0.625) - 0.25 * math.log(0.375))
    assert reverse.item() == pytest.approx(-0.625 * math.log(0.75) - 0.375 * math.log(0.25))


@pytest.mark.parametrize("target", TARGETS)
def test_equals_the_equations_as_written(target):
    torch.manual_seed(0)
    logits, h, t = torch.randn(8, 5).double(), torch.randn(8).double(), TARGETS[target](8, 5)
    tau, p = h.sigmoid()[:, None], logits.softmax(1)
    q = tau * (p - t) + t
    found = car_terms(logits, h, t)
    torch.testing.assert_close(found.cace, -(t * q.log()).sum(1))
    torch.testing.assert_close(found.penalty, -tau.log()[:, 0])
    log_t = torch.where(t > 0, t.log(), -4.0)  # no soft target here is below exp(-4)
    torch.testing.assert_close(found.reverse, -(q * log_t).sum(1))


def test_without_indicator_tau_is_the_largest_p_and_stays_in_the_graph():
    torch.manual_seed(0)
    logits, target = torch.randn(6, 4).double().requires_grad_(), soft(6, 4)
    tau = logits.softmax(1).amax(1)
    expected = car_loss(logits, tau.logit(), target, penalty_weight=0.5, reverse_weight=1.0)
    found = car_loss(logits, None, target, penalty_weight=0.5, reverse_weight=1.0)
    torch.testing.assert_close(found, expected)
    gradients = [torch.autograd.grad(loss.sum(), logits, retain_graph=True)[0] for loss in (found, expected)]
    torch.testing.assert_close(*gradients)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("indicator", [True, False])
def test_gradcheck(target, indicator):
    torch.manual_seed(0)
    logits = (2 * torch.randn(6, 4)).double().requires_grad_()
    h = torch.randn(6).double().requires_grad_() if indicator else None
    rows = TARGETS[target](6, 4)

    def loss(logits, h=None):
        return car_loss(logits, h, rows, penalty_weight=0.5, reverse_weight=0.7)

    assert torch.autograd.gradcheck(loss, (logits, h) if indicator else (logits,))


def test_no_gradient_flows_through_the_target():
    """The target is detached: its gradient is None, and asking autograd for it is an error."""
    logits, h = torch.randn(4, 3, requires_grad=True), torch.randn(4, requires_grad=True)
    target = torch.full((4, 3), 1 / 3, requires_grad=True)
    loss = car_loss(logits, h, target, penalty_weight=0.5, reverse_weight=1.0).sum()
    loss.backward()
    assert target.grad is None
    assert logits.grad.abs().sum() > 0
    assert h.grad.abs().sum() > 0


def extreme(dtype, size=100.0):
    """Every combination of logits and confidence logits in {-size, 0, size} for three classes."""
    values = torch.tensor([-size, 0.0, size])
    grid = torch.cartesian_prod(values, values, values, values).to(dtype)
    return grid[:, :3].clone().requires_grad_(), grid[:, 3].clone().requires_grad_()


EXTREME_TARGETS = {
    "one_hot": [1.0, 0, 0],
    "zero_and_soft": [0.7, 0.3, 0],
    "tiny": [1 - 1e-30, 1e-30, 0],
    "uniform": [1 / 3, 1 / 3, 1 / 3],
}


@pytest.mark.parametrize("target", EXTREME_TARGETS.values(), ids=EXTREME_TARGETS)
@pytest.mark.parametrize("indicator", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_finite_for_extreme_inputs(target, indicator, dtype):
    logits, h = extreme(dtype)
    rows = torch.tensor([target]).expand(len(logits), 3)
    terms = car_terms(logits, h if indicator else None, rows)
    for term in terms:
        assert term.dtype == torch.float32
        assert torch.isfinite(term).all()
        assert (term >= -1e-6).all()
        gradients = torch.autograd.grad(term.sum(), (logits, h), retain_graph=True, allow_unused=True)
        assert all(torch.isfinite(found).all() for found in gradients if found is not None)


@settings(deadline=None, max_examples=80)
@given(
    st.lists(st.floats(-100, 100, width=32), min_size=4, max_size=4),
    st.floats(-100, 100, width=32),
    st.lists(st.floats(0, 1, width=32), min_size=4, max_size=4).filter(lambda t: sum(t) > 0.1),
)
def test_float32_agrees_with_float64(logits, h, target):
    """Values and gradients are right to about 1e-5 over the whole range, not only finite."""
    rows = torch.tensor([target], dtype=torch.float64)
    rows = (rows / rows.sum()).float()

    def found(dtype):
        z = torch.tensor([logits], dtype=dtype, requires_grad=True)
        c = torch.tensor([h], dtype=dtype, requires_grad=True)
        loss = car_loss(z, c, rows, penalty_weight=0.5, reverse_weight=1.0).sum()
        return [value.double() for value in (loss.detach(), *torch.autograd.grad(loss, (z, c)))]

    for single, double in zip(found(torch.float32), found(torch.float64), strict=True):
        torch.testing.assert_close(single, double, atol=5e-5, rtol=5e-5)


def test_a_confident_mistake_is_still_told_so():
    """With tau next to 1 and p_y of exp(-50) the gradient is that of cross entropy: no clamp."""
    logits = torch.tensor([[0.0, 50.0]], requires_grad=True)
    cace = car_terms(logits, torch.tensor([80.0]), torch.tensor([[1.0, 0.0]])).cace
    assert cace.item() == pytest.approx(50)
    (found,) = torch.autograd.grad(cace.sum(), logits)
    torch.testing.assert_close(found, torch.tensor([[-1.0, 1.0]]))


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [
        (torch.float16, torch.float32),
        (torch.bfloat16, torch.float32),
        (torch.float32, torch.float32),
        (torch.float64, torch.float64),
    ],
)
def test_dtypes(dtype, expected):
    logits, h = torch.randn(4, 3).to(dtype), torch.randn(4).to(dtype)
    for confidence in (h, None):
        assert {term.dtype for term in car_terms(logits, confidence, one_hot(4, 3, dtype))} == {expected}


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 10_000), st.floats(-20, 20), st.floats(-8, -0.1))
def test_on_one_hot_targets_the_clamp_changes_nothing(seed, h, log_zero):
    """Reverse cace is the paper's -A tau (1 - p_y)."""
    torch.manual_seed(seed)
    logits, confidence = (4 * torch.randn(6, 4)).double(), torch.full((6,), h, dtype=torch.float64)
    target = one_hot(6, 4)
    found = car_terms(logits, confidence, target, log_zero=log_zero).reverse
    others = (logits.softmax(1) * (1 - target)).sum(1)
    torch.testing.assert_close(found, -log_zero * confidence.sigmoid() * others, atol=1e-14, rtol=1e-9)


def reverse_of(target, p=(0.25, 0.75), log_zero=-4.0):
    """Reverse cace at tau = 1, where q = p."""
    logits = torch.tensor([p], dtype=torch.float64).log()
    rows = torch.tensor([target], dtype=torch.float64)
    return car_terms(logits, torch.tensor([60.0], dtype=torch.float64), rows, log_zero=log_zero).reverse.item()


def test_soft_targets_never_go_below_log_zero():
    """As t falls from exp(-3) to 0 the term rises to its value at log 0 = A, and stays there."""
    values = [reverse_of((1 - t, t)) for t in (math.exp(-3), math.exp(-4), 1e-3, 1e-8, 1e-300, 0.0)]
    assert values[0] < values[1]
    assert values[0] == pytest.approx(0.75 * 3 - 0.25 * math.log1p(-math.exp(-3)))
    assert values[2:] == pytest.approx([3.0] * 4, abs=1e-3)
    assert values[-1] == pytest.approx(3.0)


@settings(deadline=None, max_examples=40)
@given(st.floats(0, 1), st.floats(-20, 20), st.floats(-6, -0.1))
def test_reverse_is_bounded_by_log_zero(t, h, log_zero):
    """Because log t >= A and q sums to one, 0 <= reverse <= -A for every target."""
    logits = torch.tensor([[-3.0, 3.0]], dtype=torch.float64)
    rows = torch.tensor([[t, 1 - t]], dtype=torch.float64)
    found = car_terms(logits, torch.tensor([h], dtype=torch.float64), rows, log_zero=log_zero).reverse.item()
    assert -1e-12 <= found <= -log_zero + 1e-9


def loss_of_the_authors_code(p, tau, target, penalty_weight, reverse_weight):
    """MacLLL/NAL, `loss.py`: the target is clamped to at least 1e-4, and q to at least 1e-7."""
    o = target.clamp(1e-4, 1)
    q = (tau * p + (1 - tau) * o).clamp(1e-7, 1)
    cace, reverse = -(o * q.log()).sum(1), -(q * o.log()).sum(1)
    return cace - penalty_weight * tau.log().squeeze(1) + reverse_weight * reverse


@pytest.mark.parametrize("reverse_weight", [0.0, 0.1, 1.0])
@pytest.mark.parametrize("scale", [1, 4])
@pytest.mark.parametrize("target", TARGETS)
def test_equals_the_authors_code_with_its_two_constants(target, scale, reverse_weight):
    generator = torch.Generator().manual_seed(0)
    logits = scale * torch.randn(512, 100, generator=generator, dtype=torch.float64)
    h = torch.randn(512, generator=generator, dtype=torch.float64)  # q stays above the clamp of 1e-7
    rows = TARGETS[target](512, 100)
    expected = loss_of_the_authors_code(logits.softmax(1), h.sigmoid()[:, None], rows, 10.0, reverse_weight)
    weights = {"penalty_weight": 10.0, "reverse_weight": reverse_weight}
    found = car_loss(logits, h, rows, **weights, log_zero=math.log(1e-4), target_floor=1e-4)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)
    if target != "soft":  # in which no entry is below 1e-4
        assert (car_loss(logits, h, rows, **weights) - expected).abs().mean() > 1e-2
