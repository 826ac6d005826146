"""Inputs that once hung or ended in a traceback: each is refused in one line that names it."""

import os

import numpy as np
import pytest
from PIL import Image

from surelabel.errors import ConfigError
from surelabel.overrides import parsed_assignment, read_config

X = np.random.default_rng(0).normal(size=(24, 4)).astype(np.float32)
Y = np.arange(24) % 2


@pytest.fixture
def refused(call, tmp_path, monkeypatch):
    """`refused("fit", path)`: the error of a command, which must be one line."""
    monkeypatch.chdir(tmp_path)

    def run(*words):
        result = call(*words)
        assert result.exit_code == 2, result.output
        errors = [line for line in result.stderr.splitlines() if line.startswith("error: ")]
        assert result.stderr.splitlines()[-1:] == errors
        return errors[0]

    return run


@pytest.fixture
def images(tmp_path):
    for name in ("cat", "dog"):
        (tmp_path / "images" / name).mkdir(parents=True)
        for number in range(4):
            Image.new("RGB", (8, 8), (number, 0, 0)).save(tmp_path / "images" / name / f"{number}.png")
    return tmp_path / "images"


def write_npz(path, **more):
    np.savez(path, **{"x": X, "y": Y, **more})
    return path


class TestImageFolders:
    def test_a_pipe_is_not_opened(self, images, refused):
        os.mkfifo(images / "cat" / "9.png")
        error = refused("plan", images)
        assert "cat/9.png: not readable as an image (not a regular file)" in error

    def test_a_pipe_is_skipped_if_asked_for(self, images, call):
        os.mkfifo(images / "cat" / "9.png")
        result = call("noise", images, "--unreadable", "skip", "--noise", "pair:0.5", "--out", images / "a.csv")
        assert result.exit_code == 0
        assert "9.png: not readable as an image (not a regular file)" in result.stderr

    def test_a_pipe_that_a_table_names(self, tmp_path, refused):
        os.mkfifo(tmp_path / "pipe.png")
        (tmp_path / "a.csv").write_text("path,label\npipe.png,a\npipe.png,b\n")
        assert "pipe.png" in refused("plan", tmp_path / "a.csv")

    def test_a_link_to_itself(self, images, refused):
        (images / "cat" / "9.png").symlink_to("9.png")
        assert "cat/9.png: a broken link" in refused("plan", images)


class TestPipesInPlaceOfFiles:
    @pytest.mark.parametrize("name", ["a.npz", "a.npy", "a.csv", "a.parquet"])
    def test_data(self, name, tmp_path, refused):
        os.mkfifo(tmp_path / name)
        assert f"{name}: not a regular file" in refused("plan", tmp_path / name)

    def test_a_configuration(self, tmp_path):
        os.mkfifo(tmp_path / "a.yaml")
        with pytest.raises(ConfigError, match=r"a\.yaml: not a regular file"):
            read_config(tmp_path / "a.yaml")

    @pytest.mark.parametrize("option", ["--labels", "--trusted"])
    def test_labels(self, option, tmp_path, refused):
        os.mkfifo(tmp_path / "labels.csv")
        data = write_npz(tmp_path / "a.npz")
        assert "labels.csv: not a regular file" in refused("plan", data, option, tmp_path / "labels.csv")

    def test_noise(self, tmp_path, refused):
        os.mkfifo(tmp_path / "noise.npy")
        data = write_npz(tmp_path / "a.npz")
        assert "noise.npy: not a regular file" in refused("plan", data, "--noise", f"file:{tmp_path}/noise.npy")

    def test_weights(self, tmp_path, refused):
        os.mkfifo(tmp_path / "w.safetensors")
        data = write_npz(tmp_path / "a.npz")
        assert "w.safetensors: no such file" in refused(
            "plan", data, "--model", "mlp", "--set", f"model.weights={tmp_path}/w.safetensors"
        )


class TestText:
    def test_labels_that_are_not_utf8(self, tmp_path, refused):
        data = write_npz(tmp_path / "a.npz", y=np.array([b"cat", b"\xff\xfe"] * 12))
        assert "a.npz: y: row 1 is b'\\xff\\xfe' (and 11 more); not UTF-8" in refused("plan", data)

    @pytest.mark.parametrize(
        ("array", "values", "where"),
        [
            ("ids", [f"row {number}" for number in range(23)] + ["\udcff"], "ids: row 23"),
            ("y", ["cat", "dog\udcff"] * 12, "y: row 1"),
            ("class_names", ["cat", "\ud800"], "class_names: row 1"),
        ],
    )
    def test_surrogates(self, array, values, where, tmp_path, refused):
        data = write_npz(tmp_path / "a.npz", **{array: np.array(values)})
        error = refused("plan", data)
        assert f"a.npz: {where}" in error
        assert "surrogate" in error

    def test_options_that_are_not_utf8(self, tmp_path, refused):
        error = refused("plan", write_npz(tmp_path / "a.npz"), "--set", "method.name=\udcff")
        assert "method" in error


class TestArrays:
    @pytest.mark.parametrize("command", ["plan", "fit"])
    def test_an_empty_test_set(self, command, tmp_path, refused):
        data = write_npz(tmp_path / "a.npz", x_test=X[:0], y_test=Y[:0])
        assert "a.npz: the test set has no rows" in refused(command, data)

    @pytest.mark.parametrize("shape", [(0, 24, 0, 24), (1, 0, 1, 1, 2), (0,)])
    def test_class_names_of_no_size(self, shape, tmp_path, refused):
        """np.reshape cannot infer a side of an array without elements."""
        data = write_npz(tmp_path / "a.npz", class_names=np.zeros(shape, dtype=np.int8))
        assert "class_names" in refused("plan", data)

    @pytest.mark.parametrize("name", ["ids", "class_names", "clean"])
    def test_bytes_that_are_no_text(self, name, tmp_path, refused):
        data = write_npz(tmp_path / "a.npz", **{name: np.zeros(24, dtype="V4")})
        error = refused("plan", data)
        assert f"a.npz: {name}" in error
        assert "|V4" in error or "row 0 is np.void" in error

    def test_labels_in_half_precision(self, tmp_path, refused):
        """2^53 overflows there, and NumPy warned."""
        data = write_npz(tmp_path / "a.npz", y=np.full((24, 1), 0.5, dtype=np.float16))
        assert "a.npz: y: row 0 is 0.5" in refused("plan", data)


class TestOptions:
    @pytest.mark.parametrize("name", ["../..", "..car", "a..b", "os.", "a b.c"])
    def test_a_method_that_cannot_be_a_module(self, name, tmp_path, refused):
        error = refused("plan", write_npz(tmp_path / "a.npz"), "--method", name)
        assert f"--method: {name!r}" in error

    def test_more_threads_than_any_machine_has(self, tmp_path, refused):
        error = refused("plan", write_npz(tmp_path / "a.npz"), "--threads", 99999)
        assert "--threads: " in error
        assert "1024" in error

    def test_more_processes_than_the_machine_can_run(self, tmp_path, refused):
        """Lightning would start them all."""
        error = refused("fit", write_npz(tmp_path / "a.npz"), "--devices", 1000)
        assert "--devices: 1000" in error

    @pytest.mark.parametrize("width", [10**9, 10**12, 10**30])
    def test_a_network_wider_than_memory(self, width, tmp_path, refused):
        error = refused("plan", write_npz(tmp_path / "a.npz"), "--model", "mlp", "--set", f"model.widths=[{width}]")
        assert "model" in error

    def test_an_epoch_without_batches(self, tmp_path, refused):
        error = refused("plan", write_npz(tmp_path / "a.npz"), "--set", "data.epoch={batches: 0}")
        assert error.startswith("error: data.epoch.batches: input should be greater than or equal to 1, got 0")

    def test_an_epoch_that_is_neither(self, tmp_path, refused):
        error = refused("plan", write_npz(tmp_path / "a.npz"), "--set", "data.epoch=some")
        assert error.startswith("error: data.epoch: ")
        assert "'all'" in error
        assert "batches" in error

    def test_a_file_of_an_unknown_kind_is_not_its_own_suggestion(self, tmp_path, refused):
        (tmp_path / "a.xyz").write_text("")
        error = refused("plan", "a.xyz")
        assert "a.xyz: not a kind of data" in error
        assert "did you mean" not in error

    def test_another_file_is_still_suggested(self, tmp_path, refused):
        write_npz(tmp_path / "digitz-of-mine.npz")
        assert "did you mean digitz-of-mine.npz?" in refused("plan", "digitz-of-mine")


class TestYaml:
    LAUGHS = "\n".join(
        ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
        + [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 10)]
    )
    MERGED_LAUGHS = "\n".join(
        ["a0: &a0 {x: 1}"] + [f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 3)}], k{n}: 1}}" for n in range(1, 26)]
    )

    @pytest.mark.parametrize(
        ("text", "fault"),
        [
            ("data: &a {source: a.npz, options: {x: *a}}", "refers to itself"),
            ("data: {source: a.npz, options: &a [*a]}", "refers to itself"),
            ("data: " + "[" * 20_000 + "]" * 20_000, "nested too deeply"),
            ("data: " + "{a: " * 20_000 + "}" * 20_000, "nested too deeply"),
            (LAUGHS, "repeat more than 100,000 values"),
            (MERGED_LAUGHS, "merges more than 100,000 values"),
            ("? [1, 2]\n: 3", "unhashable key"),
            ("1: 2\ndata: {source: a.npz}", "1: "),
            ("data: !!python/object/apply:os.system [ls]", "python"),
            ("data: {source: a.npz, options: {when: !!timestamp 2020-01-01}}", "a date is not a setting"),
            ("data: {source: a.npz, options: {what: !!binary aGk=}}", "a bytes is not a setting"),
            ("data: {source: a.npz, options: {what: !!timestamp 2020-13-77}}", "month"),
        ],
        ids=[
            "anchor",
            "list",
            "deep-list",
            "deep-map",
            "laughs",
            "merged-laughs",
            "key",
            "number-key",
            "tag",
            "date",
            "binary",
            "month",
        ],
    )
    def test_a_file(self, text, fault, tmp_path, refused):
        (tmp_path / "c.yaml").write_text(text)
        error = refused("plan", "--config", tmp_path / "c.yaml")
        assert fault in error
        assert len(error) < 1000

    def test_deep_json(self, tmp_path, refused):
        (tmp_path / "c.json").write_text('{"data": ' + "[" * 20_000 + "]" * 20_000 + "}")
        assert "c.json: not readable as JSON: nested too deeply" in refused("plan", "--config", tmp_path / "c.json")

    @pytest.mark.parametrize(
        "value",
        ["&a [*a]", "[" * 20_000 + "]" * 20_000, "&a {b: *a}", "!!timestamp 2020-13-77"],
        ids=["self", "deep", "map", "date"],
    )
    def test_an_assignment(self, value):
        with pytest.raises(ConfigError, match=r"^--set data\.options=") as caught:
            parsed_assignment(f"data.options={value}")
        assert len(str(caught.value)) < 300

    def test_anchors_that_are_no_trap_are_read(self, tmp_path):
        (tmp_path / "c.yaml").write_text("data: {source: a.npz}\nmodel: &m {name: mlp}\nx: *m\n")
        assert read_config(tmp_path / "c.yaml")["x"] == {"name": "mlp"}

    def test_dates_are_text_as_in_json(self):
        assert parsed_assignment("data.source=2020-01-01") == ("data.source", "2020-01-01")
