"""Bad data, configurations and options, drawn from Hypothesis strategies: `generate(seed, count)`.

`judge_inputs` runs commands on them and tells right from wrong.
"""

from collections.abc import Iterator
from typing import Any

from bad_arrays import bad_npy, bad_npz
from bad_folders import bad_folder
from bad_input import BadInput
from bad_settings import bad_arguments, bad_option, bad_yaml
from bad_tables import bad_csv, bad_label_file
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.internal.conjecture.providers import AVAILABLE_PROVIDERS, HypothesisProvider
from hypothesis.strategies import SearchStrategy

FAMILIES = {
    "csv": bad_csv(),
    "npz": bad_npz(),
    "npy": bad_npy(),
    "folder": bad_folder(),
    "option": bad_option(),
    "yaml": bad_yaml(),
    "labels": bad_label_file(),
    "arguments": bad_arguments(),
}
TURN = ("csv", "npz", "npy", "folder", "option", "yaml", "labels", "option", "npz", "arguments")
"""The order of the families, in which some come twice."""


class ConstantFree(HypothesisProvider):
    """Draws from the seed alone.

    Hypothesis also tries constants of all modules that are imported, so that what a seed stands for
    would change with the code and with what else the process has done.
    """

    def _maybe_draw_constant(self, *_arguments: Any, **_options: Any) -> None:
        return None


AVAILABLE_PROVIDERS["constant_free"] = f"{__name__}.{ConstantFree.__name__}"


def generate(seed: int, count: int) -> Iterator[BadInput]:
    """Yield `count` distinct inputs, of all families in turn."""
    turns = [TURN[number % len(TURN)] for number in range(count)]
    drawn = {name: iter(_draw(FAMILIES[name], f"{seed} {name}", turns.count(name))) for name in FAMILIES}
    for name in turns:
        yield next(drawn[name])


def _draw(strategy: SearchStrategy[BadInput], name: str, count: int) -> list[BadInput]:
    """Return `count` distinct examples; the same for the same name."""
    found: dict[bytes, BadInput] = {}
    attempt = 0
    while len(found) < count:

        @seed(f"{name} {attempt}")
        @settings(
            max_examples=count + 10,  # the first is always the simplest, and some are equal
            database=None,
            deadline=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
            backend="constant_free",
        )
        @given(strategy)
        def collect(case: BadInput) -> None:
            found.setdefault(case.digest(), case)

        collect()
        attempt += 1
    return list(found.values())[:count]
