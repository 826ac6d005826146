"""Labels that a person has confirmed: never removed, pruned, held out or relabelled."""

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

from surelabel import car_loss, car_terms
from surelabel.methods._selection import easiest, estimate_noise_rate, held_out_rows
from surelabel.methods.aum import AUM, threshold_roles
from surelabel.methods.car import CAR
from surelabel.methods.dac import DAC, abstaining_terms
from surelabel.methods.distance_to_init import DistanceToInit
from surelabel.methods.dmi import DMI
from surelabel.methods.forward import Forward
from surelabel.methods.gce import GCE
from surelabel.methods.incv import INCV
from surelabel.methods.mentornet import MentorNet
from surelabel.methods.nlnl import NLNL
from surelabel.methods.noise_adaptation import NoiseAdaptation
from surelabel.methods.self_ensemble import SelfEnsemble

GIVEN = torch.tensor([0, 1, 2, 0, 1, 2, 0, 1])
CONFIRMED = torch.tensor([True, False] * 4)
# The prediction is never the given class.
LOGITS = 4 * F.one_hot((GIVEN + 1) % 3, 3).float()
X = F.pad(LOGITS, (0, 1))


@pytest.fixture
def make(make_task):
    return lambda method, **options: method(make_task(GIVEN, trusted=CONFIRMED), **options)


def test_car_has_tau_one_in_q_and_keeps_the_penalty():
    h, target = torch.randn(8, generator=torch.Generator().manual_seed(0)), F.one_hot(GIVEN, 3).float()
    free = car_terms(LOGITS, h, target)
    terms = car_terms(LOGITS, h, target, trusted=CONFIRMED)
    given = F.cross_entropy(LOGITS, GIVEN, reduction="none")
    assert torch.allclose(terms.cace, torch.where(CONFIRMED, given, free.cace))
    assert torch.equal(terms.penalty, free.penalty)
    reverse = 4 * (1 - LOGITS.softmax(1).gather(1, GIVEN[:, None]).squeeze(1))
    assert torch.allclose(terms.reverse, torch.where(CONFIRMED, reverse, free.reverse))


@pytest.mark.parametrize("options", [{}, {"targets": "none"}, {"confidence": "max_probability"}])
def test_the_step_of_car_agrees_with_car_loss(options, make, make_batch, make_clock):
    method = make(CAR, reverse_weight=0.5, correction_start=9, **options)
    x = X.clone().requires_grad_()
    found = sum(method.step(make_batch(x, GIVEN), make_clock(1)).terms.values())
    h = None if "confidence" in options else x[:, 3]
    weights = {"penalty_weight": method.penalty_weight, "reverse_weight": 0.5}
    expected = car_loss(x[:, :3], h, F.one_hot(GIVEN, 3).float(), **weights, trusted=CONFIRMED).mean()
    assert torch.allclose(found, expected)
    gradients = [torch.autograd.grad(value, x)[0] for value in (found, expected)]
    assert torch.allclose(*gradients)
    assert gradients[0].isfinite().all()


def test_small_loss_selection_always_takes_them(make_batch):
    batch = make_batch(X, GIVEN, weight=torch.tensor([1.0] * 6 + [0.0] * 2))
    loss = torch.tensor([9.0, 1.0, 9.0, 2.0, 9.0, 3.0, 9.0, 0.0])
    chosen = easiest(loss, batch, 0.9, certain=CONFIRMED)
    assert chosen.nonzero().squeeze(1).tolist() == [0, 2, 4], "all of them, and no padding"
    none = torch.zeros(8, dtype=torch.bool)
    assert easiest(loss, batch, 0.3, certain=CONFIRMED, among=none).nonzero().squeeze(1).tolist() == [0, 2, 4]
    assert easiest(loss, batch, 1 / 3, certain=CONFIRMED).nonzero().squeeze(1).tolist() == [0, 1, 2, 4]


def test_they_are_right_in_the_estimated_noise_rate():
    losses = torch.tensor([8.0, 0.1, 8.0, 0.1, 8.0, 0.1, 8.0, 8.0])
    assert estimate_noise_rate(losses, torch.zeros(8, dtype=torch.bool)) == pytest.approx(5 / 8, abs=0.01)
    assert estimate_noise_rate(losses, CONFIRMED) == pytest.approx(1 / 8, abs=0.01)


def test_they_are_never_held_out(make_task):
    assert not (held_out_rows(make_task(GIVEN, trusted=CONFIRMED), 0.9) & CONFIRMED).any()
    assert int(held_out_rows(make_task(GIVEN), 0.5).sum()) == 4
    given, confirmed = GIVEN.repeat(200), CONFIRMED.repeat(200)
    for method in (Forward, NoiseAdaptation, SelfEnsemble, DAC, DMI):
        held_out = method(make_task(given, trusted=confirmed)).held_out
        assert held_out.any()
        assert not (held_out & confirmed).any()


def test_aum_neither_removes_them_nor_gives_them_another_label(make_task, make, make_run):
    assert not (threshold_roles(make_task(GIVEN, trusted=CONFIRMED))[CONFIRMED] >= 0).any()
    assert (threshold_roles(make_task(GIVEN, trusted=torch.ones(8, dtype=torch.bool))) == -1).all()
    method, run = make(AUM), make_run(X, GIVEN)
    run.clock = replace(run.clock, stage="first")
    method.first_area.replace(torch.where(method.role == 0, 0.0, -5.0))
    method.judge(run)
    assert torch.equal(method.removed, ~CONFIRMED & (method.role != 0))


@pytest.mark.parametrize("remove", ["misclassified", "abstained"])
def test_dac_does_not_remove_them(remove, make, make_run):
    method = make(DAC, remove=remove)
    method.judge(make_run(F.pad(LOGITS, (0, 1), value=9.0), GIVEN))
    assert torch.equal(method.removed, ~CONFIRMED)


def test_dac_cannot_abstain_on_them():
    logits = F.pad(LOGITS, (0, 1), value=3.0)
    kept, _ = abstaining_terms(logits, GIVEN, CONFIRMED)
    given = F.cross_entropy(LOGITS, GIVEN, reduction="none")
    assert torch.allclose(kept[CONFIRMED], given[CONFIRMED])
    assert (kept[~CONFIRMED] < given[~CONFIRMED]).all()


def test_truncated_gce_keeps_them(make, make_run):
    method = make(GCE, truncated=True, threshold=0.5)
    x = X.clone()
    x[1] = 9 * F.one_hot(GIVEN[1], 4)  # the only label that is predicted
    method.plan(make_run(x, GIVEN, epoch=method.start))
    assert torch.equal(method.kept.whole() > 0, CONFIRMED | (torch.arange(8) == 1))


def learned(term, x):
    """Return which rows have a gradient."""
    return torch.autograd.grad(term, x)[0].abs().sum(1) > 0


def test_nlnl_selects_them(make, make_batch, make_clock):
    method = make(NLNL)
    method.conf.zero_()
    for step in (method.sel_nl_step, method.sel_pl_step):
        x = X.clone().requires_grad_()
        (term,) = step(make_batch(x, GIVEN), make_clock(1)).terms.values()
        assert torch.equal(learned(term, x), CONFIRMED)


def test_incv_has_selected_them_from_the_start(make, make_run):
    method = make(INCV)
    assert torch.equal(method.selected, CONFIRMED)
    assert torch.equal(method.candidate, ~CONFIRMED)
    for half in method.halves(1):
        assert CONFIRMED[method.with_selected(half).indices].sum() == CONFIRMED.sum()
        method.judge_rows(half, make_run(X, GIVEN))  # agrees with no label
    method.close_iteration(make_run(X, GIVEN))
    assert torch.equal(method.selected, CONFIRMED)
    assert torch.equal(method.believed(), CONFIRMED)


def test_incv_believes_all_rows_before_it_has_judged_any(make_task):
    method = INCV(make_task(GIVEN, trusted=CONFIRMED, epochs=2))
    assert method.iterations == 0
    assert method.believed().all()


def test_mentornet_weighs_them_by_one(make, make_batch, make_clock):
    method = make(MentorNet, curriculum="self_paced", early_dropout=0.0)
    method.update_threshold = lambda *_: method.threshold.fill_(0.0)
    x = X.clone().requires_grad_()
    assert torch.equal(learned(method.step(make_batch(x, GIVEN), make_clock(1)).terms["weighted"], x), CONFIRMED)


def test_self_ensemble_keeps_them(make, make_run):
    method = make(SelfEnsemble)
    method.score_epoch(make_run(X, torch.where(torch.arange(8) < 4, GIVEN, (GIVEN + 1) % 3)))
    assert method.best_kept[CONFIRMED].all()


@pytest.mark.parametrize("method", [Forward, NoiseAdaptation])
def test_corrections_take_them_for_the_true_class(method, make, make_batch, make_clock):
    made = make(method)
    if isinstance(made, Forward):
        made.transition.fill_(1 / 3)
    (term,) = made.step(make_batch(X, GIVEN), make_clock(1)).terms.values()
    given = F.cross_entropy(LOGITS, GIVEN, reduction="none")
    assert term.item() == pytest.approx(torch.where(CONFIRMED, given, torch.tensor(3.0).log()).mean().item(), rel=1e-5)


def test_auxiliary_variables_do_not_learn_them_in_place_of_the_network(make, make_batch, make_clock):
    method = make(DistanceToInit, variant="auxiliary")
    method.step(make_batch(X, GIVEN), make_clock(1))
    assert torch.equal(method.auxiliary.whole().abs().sum(1) > 0, ~CONFIRMED)
