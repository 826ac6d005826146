"""The declarations of every method, and the defaults of the hooks."""

import inspect
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from surelabel import methods
from surelabel.core import Method, Outputs, Rows, SampleStore, Step, Task
from surelabel.core.method import option_help, options_of
from surelabel.errors import ConfigError

HOOKS = ("step", "stages", "predict", "tau", "verdict", "target_tables", "advice")
SIX = {"cross_entropy", "gce", "car", "co_teaching", "forward", "dividemix"}


def task(epochs: int = 500) -> Task:
    return Task(num_classes=2, num_samples=3, given=torch.tensor([0, 1, 1]), epochs=epochs, network=Line)


class Line(nn.Module):
    """Logits (0, weight x)."""

    def __init__(self, weight: float = 1.0) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.tensor(weight))

    def forward(self, x: torch.Tensor) -> Outputs:
        return Outputs(torch.stack([torch.zeros_like(x), self.weight * x], 1), x[:, None])


class Two(Method):
    """Two networks and a table.

    Options:
        alpha: the first
          line, and more of it
        beta: the second
    """

    def __init__(self, task: Task, *, alpha: float = 1.0, beta: int | None = None) -> None:
        super().__init__(task)
        self.alpha, self.beta = alpha, beta
        self.first, self.second, self.table = Line(1.0), Line(2.0), SampleStore(3)
        self.frozen = Line().requires_grad_(False)

    def step(self, _batch, _clock) -> Step:
        return Step({})


@pytest.mark.parametrize(
    ("fraction", "epochs", "expected"),
    [(60 / 500, 500, 60), (60 / 500, 200, 24), (60 / 500, 1, 1), (0.5, 7, 4), (1, 9, 9)],
)
def test_share_of_a_run(fraction, epochs, expected):
    assert task(epochs).epochs_of(fraction) == expected


def test_share_is_at_least_what_is_asked_for():
    assert task(10).epochs_of(0.01, least=3) == 3
    assert task(10).epochs_of(0.0, least=0) == 0


@pytest.mark.parametrize(
    ("fraction", "epochs", "expected"), [(0.05, 200, 10), (0.05, 40, 5), (0.05, 10, 5), (0.05, 6, 3), (0.05, 1, 1)]
)
def test_a_warm_up_is_at_least_five_epochs_of_a_run_that_has_ten(fraction, epochs, expected):
    assert task(epochs).warm_up(fraction) == expected


def test_six_methods_are_there():
    assert set(methods.names()) >= SIX


@pytest.mark.parametrize("name", methods.names())
class TestEveryMethod:
    def test_says_where_it_comes_from(self, name):
        method = methods.find(name)
        assert method.paper
        assert method.kind
        assert 1950 < method.year < 2030

    def test_has_a_help_line_for_every_option_and_for_nothing_else(self, name):
        method = methods.find(name)
        assert list(option_help(method)) == list(options_of(method))
        assert all(len(line) > 10 for line in option_help(method).values())

    def test_overrides_hooks_that_exist(self, name):
        own = {key for key in vars(methods.find(name)) if key in vars(Method) and callable(vars(Method)[key])}
        assert own <= {*HOOKS, "__init__"}

    def test_has_no_option_that_is_named_like_a_method(self, name):
        method = methods.find(name)
        assert not [key for key in options_of(method) if callable(getattr(method, key, None))]

    def test_has_a_default_for_every_option(self, name):
        options = options_of(methods.find(name))
        assert not [key for key, option in options.items() if option.default is inspect.Parameter.empty]

    def test_has_a_type_for_every_option(self, name):
        options = options_of(methods.find(name))
        assert not [key for key, option in options.items() if option.annotation is inspect.Parameter.empty]

    def test_accepts_its_own_defaults(self, name):
        defaults = {key: option.default for key, option in options_of(methods.find(name)).items()}
        assert methods.validate_options(name, defaults) == defaults


def test_options_are_the_keyword_only_parameters():
    options = options_of(Two)
    assert {name: option.default for name, option in options.items()} == {"alpha": 1.0, "beta": None}


def test_option_help_joins_lines():
    assert option_help(Two) == {"alpha": "the first line, and more of it", "beta": "the second"}


def test_options_are_read_from_text():
    assert methods.validate_options("gce", {"q": "0.5"}) == {"q": 0.5}
    assert methods.validate_options("car", {"penalty_weight": "1e-3", "correction_start": "7"}) == {
        "penalty_weight": 0.001,
        "correction_start": 7,
    }


@pytest.mark.parametrize(
    ("name", "options", "text"),
    [
        ("gce", {"qq": 1}, r"method.qq: gce has no such option; did you mean q\? it has q"),
        ("forward", {"q": 1}, "method.q: forward has no such option; it has no options"),
        ("gce", {"q": 2}, r"method.q: .*less than or equal to 1, got 2"),
        ("gce", {"q": 0}, r"method.q: .*greater than 0, got 0"),
        ("car", {"targets": "cars"}, r"method.targets: .*'car', 'none' or 'temporal_ensembling', got 'cars'"),
        ("car", {"momentum": 1}, r"method.momentum: .*less than 1, got 1"),
        ("car", {"momentum": -0.1}, r"method.momentum: .*greater than or equal to 0, got -0.1"),
        ("car", {"threshold": 1.1}, r"method.threshold: .*less than or equal to 1, got 1.1"),
        ("car", {"log_zero": 4}, r"method.log_zero: .*less than 0, got 4"),
        ("cross_entropy", {"momentum": 5}, r"method.momentum: .*less than 1, got 5"),
        ("co_teaching", {"forget_rate": 1}, r"method.forget_rate.*less than 1, got 1"),
    ],
)
def test_wrong_options_are_named_with_what_is_allowed(name, options, text):
    with pytest.raises(ConfigError, match=text) as caught:
        methods.validate_options(name, options)
    assert "\n" not in str(caught.value)


def test_an_unknown_method_is_named_with_a_similar_one():
    with pytest.raises(ConfigError, match=r"no method 'coteaching'; did you mean co_teaching\? available: .*car, "):
        methods.find("coteaching")


class TestDefaults:
    def test_one_stage_of_all_epochs(self):
        (stage,) = Two(task(9)).stages()
        assert (stage.name, stage.epochs, stage.plan, stage.reset, stage.keep) == ("train", 9, None, None, "last")

    def test_networks_are_the_children_that_train(self):
        assert list(Two(task()).networks()) == ["first", "second"]

    def test_predict_is_the_mean_of_the_networks_probabilities(self):
        probability = Two(task()).predict(torch.tensor([3.0]).log())
        assert torch.allclose(probability, torch.tensor([[(1 / 4 + 1 / 10) / 2, (3 / 4 + 9 / 10) / 2]]))

    def test_given_labels_are_a_copy_and_not_saved(self):
        labels = torch.tensor([0, 1, 1])
        method = Two(Task(2, 3, labels, 5, Line))
        labels.zero_()
        assert method.given.tolist() == [0, 1, 1]
        assert "given" not in method.state_dict()

    def test_quality_is_the_running_mean_of_p_at_the_given_label(self):
        record = SimpleNamespace(mean_given_probability=torch.tensor([0.25, 1.0, 0.0]))
        prediction = torch.rand(2, 2)
        verdict = Two(task()).verdict(Rows(torch.tensor([2, 0]), torch.tensor([1, 0]), prediction, record))
        assert verdict.quality.tolist() == [0.0, 0.25]
        assert torch.equal(verdict.corrected, prediction)
        assert verdict.evidence == {}

    def test_nothing_else(self):
        method = Two(task())
        assert (method.target_tables(), method.tau(torch.zeros(1)), method.advice("settings")) == ([], None, [])
        assert method.advice("chance") == ["try another learning rate"]

    def test_a_method_without_a_step_raises(self):
        with pytest.raises(NotImplementedError, match=r"Method.*step"):
            Method(task()).step(None, None)
