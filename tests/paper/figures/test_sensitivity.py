"""Mean and deviation by the values of a parameter."""

import pytest

from surelabel.paper.figures.sensitivity import Parameter, sensitivity_figure, sensitivity_text, summarise
from surelabel.plotting.drawing import NOT_RUN

POINTS = summarise({10: [0.5], 0.5: [0.8, 0.9, 1.0], None: [0.25, 0.75]})
PARAMETERS = [Parameter(r"$\lambda$", POINTS, held_at=10), Parameter(r"$\beta$", POINTS[:1])]


def test_means_and_deviations_in_percent_and_in_order():
    assert [point.text for point in POINTS] == ["default", "0.5", "10"]
    assert [point.mean for point in POINTS] == pytest.approx([50, 90, 50])
    assert [point.deviation for point in POINTS] == pytest.approx([35.3553, 10, 0], abs=1e-3)
    assert [point.num_seeds for point in POINTS] == [2, 3, 1]


def test_one_value_is_nothing_to_compare():
    figure = sensitivity_figure(PARAMETERS)
    assert [text.get_text() for text in figure.axes[1].texts] == [NOT_RUN]
    assert [label.get_text() for label in figure.axes[0].get_xticklabels()] == ["default", "0.5", "10"]
    text = sensitivity_text(PARAMETERS)
    assert (
        "lambda: default: 50.00 ± 35.36 % (2 seeds); 0.5: 90.00 ± 10.00 % (3 seeds); 10: 50.00 ± 0.00 % (1 seed)"
        in text
    )
    assert text.endswith("Not run: beta.")
