"""Streamed images are the same with any number of workers and from any batch on."""

import gc
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from PIL import Image

from surelabel.api import Interrupted, fit, load, make_config, resume
from surelabel.config import DataConfig
from surelabel.core import View
from surelabel.data.augment import Augment
from surelabel.data.corpus import Examples
from surelabel.data.images.load import Files, load_images
from surelabel.data.images.stream import Request, StreamedImages
from surelabel.data.loader import Loader
from surelabel.errors import DataError
from surelabel.training.predictor import predictions

WIDTH, HEIGHT = 24, 16


@pytest.fixture
def paths(tmp_path, paint):
    """Write ten images of 24 x 16 in which red is the column, green the line and blue the image."""
    line, column = np.mgrid[:HEIGHT, :WIDTH].astype(np.uint8)
    return [
        paint(tmp_path / f"{number}.png", np.stack([column, line, np.full_like(line, number)], axis=2))
        for number in range(10)
    ]


def streamed(paths, workers=0, **options) -> StreamedImages:
    config = DataConfig(source="here", decode="stream", workers=workers, **options)
    x = load_images(Files(paths), config, None, "here").x
    assert isinstance(x, StreamedImages)
    return x


def rows_of(x, crop=None) -> Examples:
    return Examples(x, torch.arange(len(x)) % 2, np.arange(len(x)).astype(str), crop=crop)


def loader_of(x, crop=None, batch_size=4) -> Loader:
    return Loader(rows_of(x, crop), batch_size, seed=1, augment=Augment(0, True, 1, crop))


def walk(loader, start=0, **view):
    views = {"first": View(**view), "second": View(torch.tensor([7, 2, 5]), batch_size=2)}
    return [step[name] for step in loader.passes(views, "train/1/0", start) for name in views]


def assert_equal(batches, others):
    assert len(batches) == len(others)
    for batch, other in zip(batches, others, strict=True):
        assert torch.equal(batch.index, other.index)
        assert all(map(torch.equal, batch.copies, other.copies))


class TestInputs:
    def test_whole_images_equal_those_decoded_once(self, paths):
        for image_size in (None, 8):
            kept = load_images(Files(paths), DataConfig(source="here", image_size=image_size), None, "here").x
            x = streamed(paths, image_size=image_size)
            assert x.shape == tuple(kept.shape)
            assert torch.equal(x[torch.tensor([3, 1])], kept[[3, 1]])

    def test_a_subset_has_the_images_at_its_positions(self, paths):
        x = streamed(paths).subset(np.array([4, 2]))
        assert len(x) == 2
        assert x[torch.arange(2)][:, 2, 0, 0].tolist() == [4, 2]

    def test_the_digest_depends_on_file_changes_and_not_on_paths(self, paths, tmp_path, paint):
        before = streamed(paths).digest()
        assert streamed(paths).digest() == before
        (tmp_path / "moved").mkdir()
        moved = [path.rename(tmp_path / "moved" / path.name) for path in paths]
        assert streamed(moved).digest() == before
        paint(moved[3], 7, size=(WIDTH, HEIGHT))
        assert streamed(moved).digest() != before


class TestWindows:
    CROP = 8

    def windows(self, paths, view=None, **options):
        loader = loader_of(streamed(paths, **options), self.CROP)
        batches = [step["batch"] for step in loader.passes({"batch": view or View()}, "train/1/0")]
        return [(int(row), x) for batch in batches for row, x in zip(batch.index, batch.x, strict=True)]

    def test_training_windows_lie_anywhere_in_the_image(self, paths):
        corners = set()
        for number, x in self.windows(paths):
            assert x.shape == (3, self.CROP, self.CROP)
            assert x[2].unique().tolist() == [number]
            left, top = int(x[0].min()), int(x[1].min())
            across = torch.arange(left, left + self.CROP)
            assert x[0, 0].tolist() in (across.tolist(), across.flip(0).tolist())
            assert x[1, :, 0].tolist() == list(range(top, top + self.CROP))
            corners.add((left, top))
        assert len(corners) > 5
        assert max(left for left, _ in corners) > WIDTH - HEIGHT  # beyond the middle square

    def test_other_windows_lie_in_the_middle(self, paths):
        for _, x in self.windows(paths, View(augment=False)):
            assert x[0, 0].tolist() == list(range(8, 16))
            assert x[1, :, 0].tolist() == list(range(4, 12))

    def test_copies_of_an_image_get_different_windows(self, paths):
        loader = loader_of(streamed(paths), self.CROP)
        first, second = next(loader.passes({"batch": View(copies=2)}, "train/1/0"))["batch"].copies
        assert first.shape == second.shape
        assert not torch.equal(first, second)
        assert torch.equal(first[:, 2, 0, 0], second[:, 2, 0, 0])

    def test_images_are_resized_before_windows_are_cut(self, paths):
        """The middle window of a streamed image equals that of an image decoded once."""
        kept = load_images(Files(paths), DataConfig(source="here", image_size=8), None, "here").x
        view = View(augment=False, indices=torch.arange(10))
        seen = [
            loader_of(x, crop=6, batch_size=10).collect(lambda batch: batch.x, view).int()
            for x in (kept, streamed(paths, image_size=8))
        ]
        assert (seen[0] - seen[1]).abs().max() <= 1

    def test_the_cameras_rotation_comes_first(self, tmp_path):
        pixels = np.zeros((600, 400, 3), dtype=np.uint8)
        pixels[:300] = 200
        exif = Image.Exif()
        exif[0x0112] = 6
        Image.fromarray(pixels).save(tmp_path / "a.jpg", exif=exif)
        x = loader_of(streamed([tmp_path / "a.jpg"], image_size=40), 40).batch(torch.tensor([0]), View(augment=False)).x
        assert x.shape == (1, 3, 40, 40)
        assert x[..., :15].max() < 20
        assert x[..., 25:].min() > 180


class TestWorkers:
    @pytest.fixture(autouse=True)
    def no_workers_of_other_tests(self):
        assert not children_left()

    @pytest.mark.parametrize("crop", [None, 8])
    @pytest.mark.parametrize("augment", [True, False, "strong"])
    def test_the_number_of_workers_changes_nothing(self, paths, crop, augment):
        alone, shared = (
            walk(loader_of(streamed(paths, workers), crop), copies=2, augment=augment) for workers in (0, 2)
        )
        assert_equal(alone, shared)
        torch.manual_seed(3)
        before = torch.get_rng_state()
        collected = loader_of(streamed(paths, 2), crop).collect(lambda batch: batch.x, View(augment=augment))
        assert torch.equal(collected, loader_of(streamed(paths), crop).collect(lambda b: b.x, View(augment=augment)))
        assert torch.equal(torch.get_rng_state(), before)

    @pytest.mark.parametrize("start", [1, 2, 3])
    def test_starting_later_yields_the_rest_of_a_full_walk(self, paths, start):
        loader = loader_of(streamed(paths, 2), 8)
        assert_equal(walk(loader)[2 * start :], walk(loader, start))

    def test_padding_rows_are_allowed(self, paths):
        loader = loader_of(streamed(paths), 8)
        assert loader.batch(torch.tensor([3, -1]), View()).weight.tolist() == [1, 0]

    @pytest.mark.parametrize("workers", [0, 2])
    def test_a_file_that_becomes_unreadable_is_named(self, paths, workers):
        x = streamed(paths, workers)
        paths[6].write_bytes(b"gone")
        with pytest.raises(DataError) as caught:
            walk(loader_of(x, 8))
        assert str(caught.value) == f"{paths[6]}: not readable as an image (of no known format)"

    def test_a_worker_that_dies_is_reported_and_replaced(self, paths):
        x, request = streamed(paths, 1), Request(np.arange(2))
        x.submit(request).result()
        (pid,) = children()
        os.kill(pid, signal.SIGSTOP)
        batch = x.submit(request)
        while not batch.running():
            time.sleep(0.01)
        time.sleep(0.2)  # until the thread waits for the answer
        os.kill(pid, signal.SIGKILL)
        with pytest.raises(DataError, match=r"a process that decodes images died .*data\.workers"):
            batch.result()
        assert len(walk(loader_of(x, 8))) == len(walk(loader_of(streamed(paths), 8)))

    def test_workers_are_kept_from_pass_to_pass_and_end_with_the_images(self, paths):
        x = streamed(paths, 2)
        batches = loader_of(x, 8).passes({"batch": View()}, "p")
        next(batches)
        before = children()
        assert len(before) == 2
        batches.close()
        other = streamed(paths[:6], 2)
        walk(loader_of(x, 8))
        assert len(list(loader_of(other, 8).passes({"batch": View()}, "p"))) == 2
        assert children() == before
        del batches, x, other
        assert not children_left()

    def test_workers_do_not_load_pytorch(self, paths):
        x = streamed(paths, 1)
        walk(loader_of(x))
        (pid,) = children()
        assert "libtorch" not in Path(f"/proc/{pid}/maps").read_text()


SCRIPT = """
import sys
import pyarrow.parquet as pq
from surelabel.api import fit

pq.read_table("a.parquet")  # starts Arrow's threads
print("began", flush=True)
fit({settings!r}, "run")
"""
"""A script without `if __name__ == "__main__"`, in which Arrow has started before the workers."""


@pytest.mark.training
def test_a_script_runs_once_with_arrow_started(photos, tmp_path):
    pq.write_table(pa.table({"a": [1]}), tmp_path / "a.parquet")
    content = settings(photos, decode="stream", workers=2)
    content["train"] |= {"epochs": 1, "second_opinion": False}
    (tmp_path / "script.py").write_text(SCRIPT.format(settings=content))
    command = [sys.executable, "script.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("began") == 1
    assert (tmp_path / "run" / "done").is_file()


FORKING = """
import os, sys
from pathlib import Path
import numpy as np
from surelabel.data.images.encode import Files
from surelabel.data.images.stream import Request, StreamedImages

images = StreamedImages(Files([Path(name) for name in sys.argv[1:]]), (3, 8, 8), workers=1)
request = Request(np.arange(4))
first = images.submit(request).result()
child = os.fork()
if (images.submit(request).result() != first).any():
    sys.exit(3)
if child:
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_forked_process_has_workers_of_its_own(paths):
    """With those of its parent it would wait for threads that it does not have, here or at exit."""
    done = subprocess.run([sys.executable, "-c", FORKING, *paths], capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr


def children_left() -> list[int]:
    """Return the children of this process that last: a thread may still end some of them."""
    gc.collect()
    for _ in range(100):
        if not children():
            break
        time.sleep(0.1)
    return children()


def children(session: int | None = None) -> list[int]:
    """Return the ids of the children of this process, or of the processes of a session."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            rest = path.read_text().rpartition(")")[2]
        except OSError:  # the process has just ended
            continue
        state, parent, _, its_session, *_ = rest.split()
        is_ours = int(parent) == os.getpid() if session is None else int(its_session) == session
        if is_ours and state != "Z":
            found.append(int(path.parent.name))
    return sorted(found)


@pytest.fixture
def photos(tmp_path, paint):
    """Write 40 images of two classes that differ in colour."""
    rng = np.random.default_rng(0)
    for number in range(40):
        pixels = rng.integers(0, 200, (24, 20 + number % 3, 3), dtype=np.uint8)
        pixels[..., number % 2] //= 2
        paint(tmp_path / f"photos/{number % 2}/{number:02d}.png", pixels)
    return tmp_path / "photos"


def settings(source: Path, **data) -> dict:
    return {
        "data": {"source": str(source), "test_fraction": 0.2, "image_size": 20, "crop": 18, **data},
        "method": "cross_entropy",
        "model": {"name": "mlp", "options": {"widths": [8], "norm": "none"}},
        "train": {"epochs": 2, "batch_size": 8, "threads": 1, "device": "cpu"},
    }


class TestTraining:
    @pytest.mark.training
    def test_a_run_does_not_depend_on_workers_and_resumes_in_the_middle_of_an_epoch(self, photos, tmp_path, outcome):
        alone = fit(settings(photos, decode="stream", workers=0), tmp_path / "alone")
        with pytest.raises(Interrupted):
            fit(
                settings(photos, decode="stream", workers=2),
                tmp_path / "shared",
                interrupt=iter([False, False, True]).__next__,
            )
        assert outcome(resume(tmp_path / "shared")) == outcome(alone)
        assert alone.data()["input_shape"] == [3, 18, 18]

    def test_windows_of_images_in_memory(self, photos, tmp_path):
        run = fit(settings(photos), tmp_path / "run")
        assert run.is_done
        assert run.data()["input_shape"] == [3, 18, 18]

    @pytest.mark.training
    def test_ctrl_c_leaves_a_state_and_no_processes(self, photos, tmp_path):
        content = settings(photos, decode="stream", workers=2)
        content["train"]["epochs"] = 100_000
        code = f"from surelabel.api import fit; fit({content!r}, {str(tmp_path / 'run')!r})"
        process = subprocess.Popen([sys.executable, "-c", code], start_new_session=True, stderr=subprocess.PIPE)
        deadline = time.monotonic() + 60
        while not (tmp_path / "run/metrics.jsonl").exists() and time.monotonic() < deadline:
            time.sleep(0.1)
        os.killpg(process.pid, signal.SIGINT)  # to the whole group, as a terminal does
        process.communicate(timeout=60)
        assert (tmp_path / "run/state.safetensors").exists()
        assert not children(process.pid)


@pytest.mark.training
def test_prediction_cuts_the_same_windows_as_evaluation(photos, tmp_path):
    """Predicting cuts the same window at the same size, from memory and from streams."""
    run = fit(settings(photos, decode="stream", workers=0, test_fraction=None, test=str(photos)), tmp_path / "run")
    model = load(run)
    rows = predictions(model, str(photos))
    accuracy = np.mean(
        [predicted == name.split("/")[0] for name, predicted in zip(rows["id"], rows["predicted"], strict=True)]
    )
    assert accuracy == pytest.approx(run.metrics()[-1]["tests"]["test"]["top1"])
    model.config = make_config(model.config, {"data.decode": "once"})
    kept = predictions(model, str(photos))
    np.testing.assert_allclose(kept["0"], rows["0"], atol=0.02)
