"""The paper's figures from run directories: values, empty panels, errors, files."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from surelabel.errors import ConfigError, RunError
from surelabel.paper.figures import FIGURES, find_figure, write_figure
from surelabel.paper.figures.panel_runs import find_runs
from surelabel.plotting.drawing import NOT_RUN

WAYS = {
    "stepped": {"method": "cross_entropy", "schedule": "multi_step"},
    "annealed": {"method": "cross_entropy"},
    "car": {"method": "car"},
}


def drawing_of(number: int, available) -> tuple:
    drawing, runs = find_figure(str(number)).draw_from(available)
    return drawing, [one.run.path.name for one in runs]


def empty_panels(drawing) -> list[int]:
    return [at for at, axes in enumerate(drawing.figure.axes) if NOT_RUN in [text.get_text() for text in axes.texts]]


def test_there_are_thirteen_by_number_and_by_name():
    assert [figure.number for figure in FIGURES] == list(range(1, 14))
    assert len({figure.name for figure in FIGURES}) == 13
    assert find_figure("3") is find_figure("gradients")
    with pytest.raises(ConfigError, match=r"no figure '14'; available: 1 \(memorisation\), 2"):
        find_figure("14")


@pytest.mark.parametrize("number", range(1, 14))
def test_without_runs_the_error_says_which_and_how_to_make_them(number):
    with pytest.raises(
        RunError, match=rf"figure {number} .* needs .*: .* on .*; make them with: surelabel reproduce \w+"
    ):
        find_figure(str(number)).draw_from([])


def test_the_missing_runs_are_named_in_words():
    with pytest.raises(RunError) as caught:
        find_figure("4").draw_from([])
    assert "CAR on CIFAR-100, 40 % symmetric noise, reverse_weight 0.3" in str(caught.value)


@pytest.mark.parametrize("number", [1, 3])
def test_three_ways_to_train(make, available, number):
    for name, settings in WAYS.items():
        make(name, gradient=True, **settings)
    drawing, runs = drawing_of(number, available())
    assert runs == ["stepped", "annealed", "car"]
    assert not empty_panels(drawing)
    assert "CIFAR-10, 40 % symmetric noise" in drawing.title
    assert "(a) cross entropy, multi-step" in drawing.figure.axes[0].get_title()


def test_what_was_not_run_stays_empty(make, available):
    make("car", gradient=True)
    drawing, _ = drawing_of(1, available())
    assert empty_panels(drawing) == [0, 1, 3, 4]
    assert drawing.text.endswith("Not run: (a) cross entropy, multi-step; (b) cross entropy, cosine.")
    make("annealed", **WAYS["annealed"])  # without the shares of the gradient
    assert empty_panels(drawing_of(3, available())[0]) == [0, 1]


def test_density_of_both_data_sets_has_beta_zero(make, available):
    make("ten")
    make("hundred", data="cifar100", options={"reverse_weight": 0.1})
    drawing, runs = drawing_of(2, available())
    assert (runs, empty_panels(drawing)) == (["ten"], [1])
    make("hundred-0", data="cifar100")
    assert drawing_of(2, available())[1] == ["ten", "hundred-0"]
    assert "4 clean labels have a mean tau of 0.900" in drawing.text


def test_a_panel_for_each_beta(make, available):
    for beta in (0.5, 0.1):
        make(f"beta {beta}", data="cifar100", options={"reverse_weight": beta})
    drawing, runs = drawing_of(4, available())
    assert runs == ["beta 0.1", "beta 0.5"]
    assert empty_panels(drawing) == [0, 2]


@pytest.mark.parametrize(("number", "rate"), [(5, 0.4), (8, 0.6), (9, 0.8)])
def test_confidence_by_pairs_of_labels(make, available, number, rate):
    make("right", noise=("symmetric", rate))
    make("other", noise=("symmetric", 0.2))
    drawing, runs = drawing_of(number, available())
    assert runs == ["right"]
    cells = [text.get_text() for text in drawing.figure.axes[0].texts]
    assert cells == [".90", ".20", ".80", ".40", ".95"]


def test_confusion_of_corrected_labels(make, available):
    make("40")
    make("60", noise=("symmetric", 0.6))
    assert drawing_of(6, available())[1] == ["40"]
    drawing, runs = drawing_of(7, available())
    assert runs == ["60"]
    assert empty_panels(drawing) == [1, 2]
    assert "66.67 % of 6 corrected labels" in drawing.text


def test_sensitivity_is_of_runs_that_differ_in_one_parameter(make, available):
    noise = {"noise": ("symmetric", 0.6)}
    for seed, accuracy in enumerate((0.8, 0.9)):
        make(f"base-{seed}", seed=seed, accuracy=accuracy, **noise)
        make(f"beta-{seed}", seed=seed, accuracy=0.5, options={"reverse_weight": 0.5}, **noise)
        make(f"alpha-{seed}", seed=seed, accuracy=0.6, options={"momentum": 0.7}, **noise)
        make(f"lambda-{seed}", seed=seed, accuracy=0.7, options={"penalty_weight": 9.0}, **noise)
    make("two-changes", options={"reverse_weight": 0.5, "momentum": 0.7}, accuracy=0.1, **noise)
    drawing, runs = drawing_of(10, available())
    assert len(runs) == 8
    assert empty_panels(drawing) == [2, 4]
    assert "beta: 0: 85.00 ± 7.07 % (2 seeds); 0.5: 50.00 ± 0.00 % (2 seeds)." in drawing.text
    assert "alpha: 0.7: 60.00" in drawing.text
    assert "lambda: default: 85.00" in drawing.text
    with pytest.raises(RunError, match="CIFAR-100"):
        drawing_of(11, available())


def images_of(run):
    train = SimpleNamespace(
        ids=np.array([f"row {at}" for at in range(6)]), x=torch.zeros(6, 3, 4, 4, dtype=torch.uint8)
    )
    return SimpleNamespace(train=train)


@pytest.mark.parametrize("number", [12, 13])
def test_corrected_images_of_any_run_on_images(make, tmp_path, number):
    make("features", data="table.npz", input_shape=(7,))
    with pytest.raises(RunError, match="needs finished runs"):
        drawing_of(number, find_runs([tmp_path], images_of))
    make("pictures", data="mine.npz", method="elr", noise=None)
    drawing, runs = drawing_of(number, find_runs([tmp_path], images_of))
    assert runs == ["pictures"]
    assert "dog to cat (0.80)" in drawing.text
    assert "bird to dog" in drawing.text


def test_files_and_their_text(make, available, tmp_path):
    make("car")
    files = write_figure(*find_figure("2").draw_from(available()), tmp_path / "out")
    assert [file.name for file in files] == [f"figure-02-density.{kind}" for kind in ("svg", "png", "md")]
    assert files[1].read_bytes().startswith(b"\x89PNG")
    words = files[2].read_text()
    assert words.startswith("# Figure 2: Density of confidence tau (CAR, beta = 0)")
    assert words.endswith("Drawn from these runs:\n\n- car: 2 epochs, seed 0\n")


def test_clean_labels_that_are_not_known_are_an_error(make, available):
    run = make("car")
    rows = run.labels().drop_columns("clean").to_pydict()
    run.write_table("labels.parquet", {**rows, "clean": np.full(6, np.nan)})
    with pytest.raises(RunError, match="clean labels of this run are not known"):
        drawing_of(2, available())
