"""The printed numbers."""

import pytest

from surelabel.paper.published import read_published
from surelabel.paper.tables import PRESETS, plan_trials

COUNTS = {"table1": 112, "table2": 10, "table3": 32, "ablation": 24, "strategies": 36, "correction": 10}


@pytest.mark.parametrize(("name", "count"), COUNTS.items())
def test_every_number_is_there_and_has_a_cell(name, count):
    numbers = read_published(name)
    assert len(numbers) == count
    measures = {measure.key for measure in PRESETS[name].measures}
    cells = [trial.cell for trial in plan_trials(name)]
    for number in numbers:
        assert number.table == name
        assert number.measure in measures
        assert dict(number.cell) in cells
        assert number.protocol in ("car", "original")
        assert number.source
        assert number.mean is not None or number.note


def found(name, measure="top1", **cell):
    return [(n.mean, n.std, n.protocol) for n in read_published(name) if n.measure == measure and n.cell == cell]


def test_cross_entropy_at_forty_percent_is_listed_twice():
    cell = {"method": "cross_entropy", "data": "cifar10", "noise": "symmetric:0.4"}
    assert found("table1", **cell) == [(81.88, 0.29, "original"), (78.26, 0.74, "car")]
    assert found("strategies", strategy="none", **cell) == [(78.26, 0.74, "car")]


@pytest.mark.parametrize(
    ("name", "measure", "cell", "number"),
    [
        ("table1", "top1", {"method": "car", "data": "cifar100", "noise": "symmetric:0.6"}, (69.78, 0.69, "car")),
        ("table1", "top1", {"method": "elr", "data": "cifar10", "noise": "symmetric:0.8"}, (80.69, 0.57, "original")),
        ("table1", "top1", {"method": "sat", "data": "cifar100", "noise": "symmetric:0.8"}, (38.72, None, "original")),
        ("table1", "top1", {"method": "nlnl", "data": "cifar100", "noise": "asymmetric:0.4"}, (45.7, None, "original")),
        ("table2", "top1", {"method": "car"}, (73.19, None, "car")),
        ("table2", "top1", {"method": "dmi"}, (72.46, None, "original")),
        ("table3", "ilsvrc12_top5", {"method": "car"}, (92.09, None, "car")),
        ("table3", "webvision_top1", {"method": "dividemix"}, (77.32, None, "original")),
        (
            "ablation",
            "top1",
            {"variant": "without_reverse_term", "data": "cifar100", "noise": "symmetric:0.8"},
            (34.79, 0.71, "car"),
        ),
        (
            "correction",
            "correction",
            {"method": "car", "data": "cifar100", "noise": "symmetric:0.8"},
            (40.4, None, "car"),
        ),
    ],
)
def test_some_numbers(name, measure, cell, number):
    assert found(name, measure, **cell) == [number]


def test_what_is_not_printed_is_not_there():
    assert found("table1", method="dac", data="cifar10", noise="asymmetric:0.4") == []
    failed = [n for n in read_published("ablation") if n.mean is None]
    assert len(failed) == 4
    assert {n.note for n in failed} == {"fails to converge"}


SUMS = {
    "table1": (7460.18, 47.46),
    "table2": (720.07, 0),
    "table3": (2484.5, 0),
    "ablation": (1499.82, 4.72),
    "strategies": (2408.81, 24.13),
    "correction": (841.4, 0),
}
"""Sums of all means and deviations, taken after comparing every number with the paper's source."""


@pytest.mark.parametrize(("name", "sums"), SUMS.items())
def test_no_number_has_changed_since_they_were_compared(name, sums):
    numbers = read_published(name)
    assert sum(number.mean or 0 for number in numbers) == pytest.approx(sums[0])
    assert sum(number.std or 0 for number in numbers) == pytest.approx(sums[1])
