"""A small part of the campaign of label types and of paths; `make faults` tries more."""

from label_types import run_types
from paths import run_paths
from tally import Options


def test_labels_of_random_types_are_exact_or_refused(tmp_path):
    assert run_types(Options(7, 60, tmp_path)).wrong == []


def test_random_paths_stay_inside(tmp_path):
    assert run_paths(Options(7, 60, tmp_path)).wrong == []
