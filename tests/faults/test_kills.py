"""Ten kills over all stages of three methods; `make faults` does a hundred over all methods."""

import pytest
from kills import SAVES, Target, make_target, repeat_until_done
from processes import run

pytestmark = pytest.mark.training

MOMENTS = {"car": (0.0, 0.3, 0.6, 0.95), "dividemix": (0.1, 0.5, 0.9), "incv": (0.2, 0.7, 1.0)}
"""When a run is killed, by the fraction of its changes to the disk that it has made."""


@pytest.fixture(scope="module")
def target_of(tmp_path_factory):
    """`target_of("car")`: an undisturbed run of the method, made once."""
    made: dict[str, Target] = {}

    def make(method: str) -> Target:
        if method not in made:
            made[method] = make_target(method, tmp_path_factory.mktemp(method))
        return made[method]

    return make


@pytest.mark.parametrize(("method", "moment"), [(name, when) for name, moments in MOMENTS.items() for when in moments])
def test_a_killed_run_ends_like_an_undisturbed_one(target_of, tmp_path, method, moment):
    target = target_of(method)
    folder = target.copy_scene(tmp_path / "killed")
    fatal = max(1, round(moment * target.count("every epoch")))
    assert run(target.words, folder, fatal=fatal, save_every=0).was_killed
    assert repeat_until_done(target, folder) is None


@pytest.mark.parametrize("saves", SAVES)
def test_the_last_change_is_a_kill_however_often_a_run_saves(target_of, tmp_path, saves):
    target = target_of("car")
    folder = target.copy_scene(tmp_path / "killed")
    assert run(target.words, folder, fatal=target.count(saves), save_every=SAVES[saves]).was_killed
    assert repeat_until_done(target, folder) is None
