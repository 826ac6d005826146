"""Schedules by hand, and an optimiser group per network."""

import math
from itertools import pairwise

import pytest
import torch
from torch import nn

from surelabel.config import Constant, Cosine, CosineRestarts, MultiStep, OneCycle, OptimiserConfig
from surelabel.core import Clock
from surelabel.engine.optim import make_optimiser, rate_at, set_rate


def rate(schedule, epoch: int, epochs: int = 10, step: int = 0, steps: int = 4, top: float = 0.2) -> float:
    return rate_at(OptimiserConfig(rate=top, schedule=schedule), Clock("train", epoch, epochs, step, steps, 0.0))


class TestCosineRestarts:
    def test_a_period_by_hand(self):
        rates = [rate(CosineRestarts(period=4, min_rate=0.1), epoch) for epoch in (1, 2, 3, 4)]
        expected = [0.1 + 0.1 * (1 + math.cos(math.pi * phase)) / 2 for phase in (0, 1 / 4, 2 / 4, 3 / 4)]
        assert rates == pytest.approx(expected)
        assert rates[0] == 0.2
        assert rates[2] == pytest.approx(0.15)

    def test_starts_again_after_each_period(self):
        schedule = CosineRestarts(period=3, min_rate=0.0)
        rates = [rate(schedule, epoch) for epoch in range(1, 10)]
        assert rates[:3] == rates[3:6] == rates[6:]
        assert rates[0] > rates[1] > rates[2] > 0

    def test_changes_per_epoch_and_not_within(self):
        schedule = CosineRestarts(period=5)
        assert rate(schedule, 3, step=3) == rate(schedule, 3, step=0)

    def test_a_period_of_one_is_constant(self):
        assert {rate(CosineRestarts(period=1), epoch) for epoch in range(1, 6)} == {0.2}

    def test_of_the_paper(self):
        schedule = CosineRestarts()
        assert (schedule.period, schedule.min_rate) == (10, 0.001)
        assert rate(schedule, 11, 500, top=0.02) == 0.02
        assert rate(schedule, 6, 500, top=0.02) == pytest.approx((0.02 + 0.001) / 2)
        assert 0.001 < rate(schedule, 500, 500, top=0.02) < 0.002


class TestCosine:
    def test_by_hand(self):
        assert rate(Cosine(), 1) == 0.2
        assert rate(Cosine(), 6) == pytest.approx(0.1)
        assert rate(Cosine(min_rate=0.1), 6) == pytest.approx(0.15)
        assert rate(Cosine(), 3, step=2) == pytest.approx(0.1 * (1 + math.cos(math.pi * 0.25)))

    def test_falls_with_every_step_towards_the_minimum(self):
        rates = [rate(Cosine(min_rate=0.05), epoch, step=step) for epoch in range(1, 11) for step in range(4)]
        assert all(b < a for a, b in pairwise(rates))
        assert 0.05 < rates[-1] < 0.051

    def test_spans_the_stage(self):
        assert rate(Cosine(), 11, epochs=20) == pytest.approx(0.1)


class TestMultiStep:
    def test_milestones_in_epochs_are_the_last_before_a_drop(self):
        schedule = MultiStep(milestones=(2, 4), factor=0.5)
        assert [rate(schedule, epoch) for epoch in range(1, 7)] == pytest.approx([0.2, 0.2, 0.1, 0.1, 0.05, 0.05])

    def test_milestones_below_one_are_shares(self):
        schedule = MultiStep(milestones=(0.5, 0.75), factor=0.1)
        assert [rate(schedule, epoch, 8) for epoch in (4, 5, 6, 7, 8)] == pytest.approx([0.2, 0.02, 0.02, 0.002, 0.002])

    @pytest.mark.parametrize("share", [0.29, 0.55, 0.57, 0.58])
    def test_a_share_that_is_a_whole_epoch_drops_after_it(self, share):
        last = round(100 * share)
        rates = [rate(MultiStep(milestones=(share,)), epoch, 100) for epoch in (last, last + 1)]
        assert rates == pytest.approx([0.2, 0.02])

    def test_order_does_not_matter(self):
        assert rate(MultiStep(milestones=(4, 2)), 3) == pytest.approx(0.02)


class TestOneCycle:
    def test_by_hand(self):
        schedule = OneCycle(warmup=0.2)
        assert rate(schedule, 2) == pytest.approx(0.1)
        assert rate(schedule, 2, step=2) == pytest.approx(0.15)
        assert rate(schedule, 3) == pytest.approx(0.2)
        assert rate(schedule, 7) == pytest.approx(0.1)

    def test_rises_then_falls(self):
        rates = [rate(OneCycle(), epoch, step=step) for epoch in range(1, 11) for step in range(4)]
        top = rates.index(max(rates))
        assert top == 10
        assert max(rates) == 0.2
        assert rates[: top + 1] == sorted(rates[: top + 1])
        assert rates[top:] == sorted(rates[top:], reverse=True)
        assert 0 < rates[0] < 0.001
        assert 0 < rates[-1] < 0.001

    def test_without_warm_up_is_a_cosine(self):
        for epoch in (1, 4, 10):
            assert rate(OneCycle(warmup=0), epoch) == pytest.approx(rate(Cosine(), epoch))


def test_constant():
    assert {rate(Constant(), epoch, step=step) for epoch in (1, 5, 10) for step in (0, 3)} == {0.2}


@pytest.mark.parametrize(("schedule", "period"), [(CosineRestarts(period=7), 7), (Cosine(), 1), (Constant(), 1)])
def test_rate_period(schedule, period):
    assert OptimiserConfig(schedule=schedule).rate_period == period


def networks() -> dict[str, nn.Module]:
    frozen = nn.Linear(2, 2).requires_grad_(False)
    return {"first": nn.Sequential(nn.Linear(2, 3), frozen), "second": nn.Linear(2, 3, bias=False)}


class TestOptimiser:
    def test_sgd_has_a_group_per_network(self):
        made = networks()
        optimiser = make_optimiser(OptimiserConfig(rate=0.3, momentum=0.8, weight_decay=0.01), made)
        assert isinstance(optimiser, torch.optim.SGD)
        first, second = optimiser.param_groups
        assert (first["name"], second["name"]) == ("first", "second")
        assert [id(p) for p in first["params"]] == [id(p) for p in made["first"][0].parameters()]
        assert [id(p) for p in second["params"]] == [id(made["second"].weight)]
        for group in (first, second):
            assert (group["lr"], group["momentum"], group["weight_decay"], group["nesterov"]) == (0.3, 0.8, 0.01, False)

    def test_adamw(self):
        optimiser = make_optimiser(OptimiserConfig(name="adamw", rate=0.3, weight_decay=0.01), networks())
        assert isinstance(optimiser, torch.optim.AdamW)
        assert [(g["name"], g["lr"], g["weight_decay"]) for g in optimiser.param_groups] == [
            ("first", 0.3, 0.01),
            ("second", 0.3, 0.01),
        ]

    def test_an_sgd_step_by_hand(self):
        layer = nn.Linear(1, 1, bias=False)
        nn.init.constant_(layer.weight, 2.0)
        optimiser = make_optimiser(OptimiserConfig(momentum=0.5, weight_decay=0.25), {"network": layer})
        set_rate(optimiser, 0.1)
        for expected in (2 - 0.1 * (1 + 0.25 * 2), 1.85 - 0.1 * (0.5 * 1.5 + 1 + 0.25 * 1.85)):
            layer.weight.grad = torch.ones(1, 1)
            optimiser.step()
            assert layer.weight.item() == pytest.approx(expected)

    def test_a_network_without_gradient_is_left_alone(self):
        made = networks()
        optimiser = make_optimiser(OptimiserConfig(), made)
        before = made["second"].weight.clone()
        made["first"][0](torch.ones(1, 2)).sum().backward()
        optimiser.step()
        assert torch.equal(made["second"].weight, before)
        assert optimiser.state[made["second"].weight] == {}

    def test_set_rate_is_for_all_groups(self):
        optimiser = make_optimiser(OptimiserConfig(), networks())
        set_rate(optimiser, 0.007)
        assert [group["lr"] for group in optimiser.param_groups] == [0.007, 0.007]


class Bodied(nn.Module):
    """A network with a backbone."""

    def __init__(self) -> None:
        super().__init__()
        self.backbone = nn.Linear(2, 3)
        self.classifier = nn.Linear(3, 2)


class TestBackboneRate:
    def test_the_backbone_is_a_group_with_a_factor(self):
        network = Bodied()
        optimiser = make_optimiser(OptimiserConfig(rate=0.3), {"first": network, "other": nn.Linear(1, 1)}, 0.1)
        found = [(g["name"], g["factor"], g["lr"], len(g["params"])) for g in optimiser.param_groups]
        assert found == [
            ("first.backbone", 0.1, pytest.approx(0.03), 2),
            ("first", 1.0, 0.3, 2),
            ("other", 1.0, 0.3, 2),
        ]
        assert optimiser.param_groups[0]["params"][0] is network.backbone.weight

    def test_set_rate_multiplies(self):
        optimiser = make_optimiser(OptimiserConfig(), {"first": Bodied()}, 0.25)
        for rate in (0.2, 0.04):
            set_rate(optimiser, rate)
            assert [group["lr"] for group in optimiser.param_groups] == [rate * 0.25, rate]

    def test_of_one_changes_nothing(self):
        (group,) = make_optimiser(OptimiserConfig(), {"first": Bodied()}).param_groups
        assert (group["name"], len(group["params"])) == ("first", 4)

    def test_a_frozen_backbone_is_in_no_group(self):
        network = Bodied()
        network.backbone.requires_grad_(False)
        (group,) = make_optimiser(OptimiserConfig(), {"first": network}, 0.1).param_groups
        assert [id(p) for p in group["params"]] == [id(p) for p in network.classifier.parameters()]

    @pytest.mark.parametrize("name", ["sgd", "adamw"])
    def test_a_step_by_hand(self, name):
        network = Bodied()
        optimiser = make_optimiser(OptimiserConfig(name=name, weight_decay=0), {"first": network}, 0.1)
        set_rate(optimiser, 0.5)
        before = {key: value.clone() for key, value in network.named_parameters()}
        for parameter in network.parameters():
            parameter.grad = torch.ones_like(parameter)
        optimiser.step()
        for key, value in network.named_parameters():
            step = 0.05 if key.startswith("backbone") else 0.5
            torch.testing.assert_close(before[key] - value, torch.full_like(value, step))

    @pytest.mark.parametrize("name", ["sgd", "adamw"])
    def test_the_factor_survives_saving(self, name):
        saved = make_optimiser(OptimiserConfig(name=name), {"first": Bodied()}, 0.1).state_dict()
        optimiser = make_optimiser(OptimiserConfig(name=name), {"first": Bodied()}, 0.1)
        optimiser.load_state_dict(saved)
        set_rate(optimiser, 1.0)
        assert [group["lr"] for group in optimiser.param_groups] == [0.1, 1.0]

    def test_a_state_from_before_there_were_factors(self):
        optimiser = make_optimiser(OptimiserConfig(), {"first": Bodied()})
        state = optimiser.state_dict()
        del state["param_groups"][0]["factor"]
        optimiser.load_state_dict(state)
        set_rate(optimiser, 0.5)
        assert optimiser.param_groups[0]["lr"] == 0.5


class TestScaled:
    @pytest.mark.parametrize(
        "schedule",
        [Cosine(min_rate=0.1), CosineRestarts(period=4, min_rate=0.05), MultiStep(), OneCycle(), Constant()],
        ids=lambda schedule: schedule.kind,
    )
    def test_every_rate_is_multiplied(self, schedule):
        config = OptimiserConfig(rate=0.2, weight_decay=0.01, schedule=schedule)
        scaled = config.scaled(0.01)
        for epoch in range(1, 11):
            clock = Clock("train", epoch, 10, 1, 4, 0.0)
            assert rate_at(scaled, clock) == pytest.approx(0.01 * rate_at(config, clock))
        assert scaled.weight_decay == 0.01

    def test_by_one_is_the_same(self):
        config = OptimiserConfig()
        assert config.scaled(1.0) is config


def test_biases_of_batch_norms_may_learn_faster_with_the_same_decay():
    network = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))
    optimiser = make_optimiser(OptimiserConfig(rate=0.1, weight_decay=0.01, bias_rate=4), {"one": network})
    fast, rest = optimiser.param_groups
    assert [id(p) for p in fast["params"]] == [id(network[1].bias)]
    assert len(rest["params"]) == 5
    for rate in (0.1, 0.05):
        set_rate(optimiser, rate)
        assert (fast["lr"], rest["lr"]) == (pytest.approx(4 * rate), rate)
        assert fast["lr"] * fast["weight_decay"] == pytest.approx(rest["lr"] * rest["weight_decay"])
