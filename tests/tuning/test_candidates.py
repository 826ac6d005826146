"""Which settings a search compares."""

import pytest

from surelabel.config import validate
from surelabel.errors import ConfigError
from surelabel.tuning import list_candidates
from surelabel.tuning.candidates import MOST_COMBINED, combine


def config(method="elr", **options):
    return validate({"data": {"source": "digits"}, "method": {"name": method, "options": options}})


def test_few_values_are_all_combined_and_many_are_changed_one_at_a_time():
    assert combine({"a": (1, 2), "b": (3, 4)}) == [
        {"a": 1, "b": 3},
        {"a": 1, "b": 4},
        {"a": 2, "b": 3},
        {"a": 2, "b": 4},
    ]
    assert combine({"a": (1, 2, 3), "b": (4, 5, 6)}) == [
        {"a": 1, "b": 4},
        {"a": 2, "b": 4},
        {"a": 3, "b": 4},
        {"a": 1, "b": 5},
        {"a": 1, "b": 6},
    ]
    assert len(combine({"a": range(MOST_COMBINED)})) == MOST_COMBINED


def test_options_that_are_set_stay_as_they_are():
    found = list_candidates(config(momentum=0.5))
    assert [dict(candidate.options) for candidate in found] == [{"regularisation": value} for value in (3, 1, 7)]
    assert found[2].apply(config(momentum=0.5)).method.options == {"momentum": 0.5, "regularisation": 7}


def test_values_of_the_user_replace_the_published_ones():
    found = list_candidates(config(), {"regularisation": [5.0, 10.0]})
    assert [str(candidate) for candidate in found] == ["regularisation=5", "regularisation=10"]


def test_a_default_that_is_a_rule_is_called_default():
    assert str(list_candidates(config("car"))[0]) == "penalty_weight=default, reverse_weight=0"


@pytest.mark.parametrize(
    ("wanted", "values", "words"),
    [
        (config("mae"), None, "nothing to try for mae"),
        (config(momentum=0.5, regularisation=3), None, "regularisation, momentum are set"),
        (config(momentum=0.5), {"momentum": [0.7, 0.9]}, "method.momentum: is both set to 0.5"),
        (config(), {"momentun": [0.7, 0.9]}, "did you mean momentum"),
        (config(), {"momentum": [0.7, 1.5]}, "method.momentum: input should be less than 1"),
        (config(), {"momentum": [0.7]}, "nothing to try for elr"),
        (config(), {"momentum": [0.7, 0.7]}, "nothing to try for elr"),
    ],
)
def test_refused(wanted, values, words):
    with pytest.raises(ConfigError, match=words):
        list_candidates(wanted, values)
