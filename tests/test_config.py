"""Configurations as objects, files and text."""

import json
import math
from typing import Any

import pytest
import yaml
from pydantic import BaseModel, ValidationError

from surelabel import methods
from surelabel.config import (
    Constant,
    Cosine,
    CosineRestarts,
    MultiStep,
    OneCycle,
    OptimiserConfig,
    Part,
    RunConfig,
    validate,
)
from surelabel.errors import ConfigError
from surelabel.overrides import parsed_assignment, read_config, set_field

# No field has its default.
FULL: dict[str, Any] = {
    "data": {
        "source": "a.csv",
        "test": "b.csv",
        "validation_fraction": 0.1,
        "validation_fold": 3,
        "test_fraction": 0.2,
        "split_seed": 5,
        "root": "data",
        "options": {"num_classes": 5},
        "epoch": {"batches": 3, "balanced": True},
        "labels": "labels.csv",
        "trusted": "trusted.csv",
        "merge_classes": ["variants", "catt=cat"],
        "path_column": "file",
        "image_root": "pictures",
        "label_column": "class",
        "clean_column": "truth",
        "text_column": "words",
        "id_column": "key",
        "group": "patient",
        "category_columns": ["c"],
        "feature_columns": ["a", "b"],
        "image_size": 32,
        "largest_size": 160,
        "crop": 28,
        "unreadable": "skip",
        "decode": "once",
        "cache": False,
        "workers": 3,
    },
    "noise": {
        "kind": "matrix",
        "rate": 0.3,
        "include_true_class": True,
        "class_map": {"cat": "dog"},
        "matrix": [[0.75, 0.25], [1e-05, 0.99999]],
        "mode": "bernoulli",
        "groups": [["cat", "dog"], ["owl", "eel"]],
        "block_size": 3,
        "instance_scale": "length",
        "path": "labels.npy",
        "seed": 7,
    },
    "method": {"name": "cross_entropy", "options": {"targets": "car", "momentum": 1e-05, "correction_start": 3}},
    "model": {
        "name": "mlp",
        "options": {"widths": [8, 8], "norm": "none"},
        "weights": "weights.pth",
        "normalise_as": "data",
        "freeze": True,
        "backbone_rate": 0.1,
        "features": "timm:resnet18",
        "feature_size": 160,
        "train_on": "features",
        "mirror": True,
    },
    "optimiser": {
        "name": "adamw",
        "rate": 1e-05,
        "momentum": 0.5,
        "weight_decay": 1e-06,
        "bias_rate": 4.0,
        "clip": 5.0,
        "schedule": {"kind": "cosine_restarts", "period": 7, "min_rate": 1e-07},
    },
    "train": {
        "epochs": 21,
        "batch_size": 32,
        "seed": 9,
        "augment": True,
        "flip": False,
        "crop_padding": 2,
        "device": "cpu",
        "devices": 2,
        "precision": "bf16-mixed",
        "threads": 1,
        "warm_start": "runs/before",
        "second_opinion": False,
        "folds": 5,
        "evaluate_every": 3,
        "gradient_share": True,
        "replicate_below": 1000,
        "store": "topk",
        "store_k": 8,
        "sync_batch_norm": False,
    },
}
LEAST = {"data": {"source": "digits"}}
SCHEDULES = [
    CosineRestarts(period=7, min_rate=0.01),
    Cosine(min_rate=0.01),
    MultiStep(milestones=(0.25, 60.0), factor=0.2),
    OneCycle(warmup=0.125),
    Constant(),
]


def error(content: dict[str, Any]) -> str:
    with pytest.raises(ConfigError) as caught:
        validate(content)
    assert "\n" not in str(caught.value)
    return str(caught.value)


class TestRoundTrip:
    def test_every_field_is_set_to_something_else_than_its_default(self):
        """Check that no field has its default, so that the round trips below prove something."""

        def same(model: BaseModel, path: str = "") -> list[str]:
            found = []
            for name, field in type(model).model_fields.items():
                value = getattr(model, name)
                if isinstance(value, Part):
                    found += same(value, f"{path}{name}.")
                elif (
                    name != "kind" and not field.is_required() and value == field.get_default(call_default_factory=True)
                ):
                    found.append(path + name)
            return found

        assert same(validate(FULL)) == []

    def test_json(self):
        config = validate(FULL)
        assert config.model_dump(mode="json") == FULL
        assert validate(json.loads(json.dumps(config.model_dump(mode="json")))) == config

    @pytest.mark.parametrize(("dump", "suffix"), [(json.dumps, "json"), (json.dumps, "yaml"), (yaml.safe_dump, "yaml")])
    def test_files(self, tmp_path, dump, suffix):
        config = validate(FULL)
        file = tmp_path / f"config.{suffix}"
        file.write_text(dump(config.model_dump(mode="json")))
        assert read_config(file) == FULL
        assert validate(read_config(file)) == config

    @pytest.mark.parametrize("schedule", SCHEDULES, ids=lambda s: s.kind)
    def test_every_schedule(self, schedule):
        config = RunConfig(data={"source": "digits"}, optimiser=OptimiserConfig(schedule=schedule))
        again = validate(json.loads(json.dumps(config.model_dump(mode="json"))))
        assert again == config
        assert type(again.optimiser.schedule) is type(schedule)

    def test_defaults(self):
        config = validate(LEAST)
        assert validate(config.model_dump(mode="json")) == config
        assert config.noise is None
        assert config.data.validation_fraction == 0
        assert config.method.name == "car"


def test_a_name_alone_is_a_method_or_a_model():
    config = validate({**LEAST, "method": "gce", "model": "cnn"})
    assert (config.method.name, config.model.name) == ("gce", "cnn")


def test_is_frozen():
    with pytest.raises(ValidationError):
        validate(LEAST).train.epochs = 3


def test_every_field_has_a_description():
    def bare(model: type[BaseModel]) -> list[str]:
        return [f"{model.__name__}.{n}" for n, f in model.model_fields.items() if n != "kind" and not f.description]

    # Other tests define further parts.
    parts = [p for p in Part.__subclasses__() if p is not RunConfig and p.__module__.startswith("surelabel")]
    assert len(parts) >= 11
    assert [name for part in parts for name in bare(part)] == []


class TestErrors:
    @pytest.mark.parametrize(
        ("content", "field", "known"),
        [
            ({"sampler": 1}, "sampler", "data, noise, method, model, optimiser, train"),
            ({"train": {"epoch": 1}}, "train.epoch", "epochs, batch_size"),
            ({"data": {"source": "x", "sorce": "y"}}, "data.sorce", "source, root"),
            ({"noise": {"kind": "pair", "ratio": 1}}, "noise.ratio", "kind, rate"),
            ({"optimiser": {"lr": 1}}, "optimiser.lr", "name, rate"),
            ({"optimiser": {"schedule": {"kind": "cosine", "period": 1}}}, "optimiser.schedule.", "kind, min_rate"),
            ({"method": {"name": "car", "momentum": 1}}, "method.momentum", "name, options"),
        ],
    )
    def test_an_unknown_field_lists_the_known_ones(self, content, field, known):
        text = error({**LEAST, **content})
        assert text.startswith(field)
        assert f"there is no such setting; available: {known}" in text

    @pytest.mark.parametrize(
        ("content", "text"),
        [
            ({"train": {"epochs": 0}}, "train.epochs: input should be greater than or equal to 1, got 0"),
            ({"train": {"epochs": "many"}}, "train.epochs: input should be a valid integer"),
            ({"train": {"device": "tpu"}}, "'auto', 'cpu', 'cuda' or 'mps', got 'tpu'"),
            ({"train": {"batch_size": 1}}, "train.batch_size: input should be greater than or equal to 2, got 1"),
            ({"train": 5}, "train: "),
            ({"model": {"feature_size": 7}}, "model.feature_size: input should be greater than or equal to 8, got 7"),
            ({"model": {"train_on": "pixels"}}, "model.train_on: input should be 'auto', 'inputs' or 'features'"),
            ({"model": "hf:tiny"}, "set model.features"),
            ({"model": {"name": "sentence:tiny"}}, "set model.features"),
            ({"model": {"backbone_rate": 0}}, "model.backbone_rate: input should be greater than 0, got 0"),
            (
                {"noise": {"kind": "symetric"}},
                "noise.kind: input should be 'symmetric', 'asymmetric', 'superclass', 'block', 'pair', 'matrix', "
                "'instance' or 'file'",
            ),
            ({"optimiser": {"schedule": {"kind": "linear"}}}, "'cosine_restarts', 'cosine', 'multi_step', 'one_cycle'"),
        ],
    )
    def test_a_wrong_value_names_the_field_and_what_is_allowed(self, content, text):
        assert text in error({**LEAST, **content})

    def test_a_missing_field(self):
        assert error({}) == "data: field required"


class TestReading:
    @pytest.mark.parametrize("text", ["1e-3", "1E-3", "1.0e-3", "+1e-3", "0.001"])
    def test_one_thousandth_is_a_number_however_it_is_written(self, tmp_path, text):
        file = tmp_path / "c.yaml"
        file.write_text(f"data: {{source: digits}}\noptimiser: {{rate: {text}}}\nmethod: {{options: {{q: {text}}}}}\n")
        content = read_config(file)
        assert content["method"]["options"]["q"] == 0.001
        config = validate(content)
        assert (config.optimiser.rate, config.method.options["q"]) == (0.001, 0.001)
        assert parsed_assignment(f"optimiser.rate={text}") == ("optimiser.rate", 0.001)

    def test_text_that_looks_a_little_like_a_number_stays_text(self, tmp_path):
        file = tmp_path / "c.yaml"
        file.write_text("[1e3x, e5, 1e, '1e-3', a1e3]")
        with pytest.raises(ConfigError, match="got list"):
            read_config(file)
        file.write_text("a: [1e3x, e5, 1e, '1e-3', a1e3]")
        assert read_config(file) == {"a": ["1e3x", "e5", "1e", "1e-3", "a1e3"]}

    def test_json_with_tabs(self, tmp_path):
        file = tmp_path / "c.json"
        file.write_text(json.dumps(FULL, indent="\t"))
        assert read_config(file) == FULL

    @pytest.mark.parametrize("name", ["c.yaml", "c.json"])
    @pytest.mark.parametrize(
        ("content", "text"),
        [
            (b"a: [1", "not readable as"),
            (b"\xff\xfe\x00", "not readable as"),
            (b"[1]", "got list"),
            (b"", "got NoneType"),
        ],
    )
    def test_unreadable(self, tmp_path, name, content, text):
        file = tmp_path / name
        file.write_bytes(content)
        if name == "c.json" and not content:
            text = "not readable as"
        with pytest.raises(ConfigError, match=text) as caught:
            read_config(file)
        assert str(file) in str(caught.value)
        assert "\n" not in str(caught.value)

    def test_missing(self, tmp_path):
        with pytest.raises(ConfigError, match="no such configuration file"):
            read_config(tmp_path / "c.yaml")

    def test_a_folder(self, tmp_path):
        with pytest.raises(ConfigError, match="not readable"):
            read_config(tmp_path)

    def test_nothing_is_executed(self, tmp_path):
        file = tmp_path / "c.yaml"
        file.write_text("a: !!python/object/apply:os.system ['true']")
        with pytest.raises(ConfigError, match="not readable"):
            read_config(file)


class TestAssignments:
    @pytest.mark.parametrize(
        ("text", "name", "value"),
        [
            ("train.epochs=100", "train.epochs", 100),
            ("train.augment=false", "train.augment", False),
            ("data.test=a=b.csv", "data.test", "a=b.csv"),
            ("method=gce", "method", "gce"),
            ("optimiser.clip=null", "optimiser.clip", None),
            ("model.widths=[8, 8]", "model.widths", [8, 8]),
            ("method.penalty_weight=2e1", "method.penalty_weight", 20.0),
        ],
    )
    def test_value_is_read_as_yaml(self, text, name, value):
        assert parsed_assignment(text) == (name, value)
        assert type(parsed_assignment(text)[1]) is type(value)

    @pytest.mark.parametrize("text", ["train.epochs", "=3", "train..epochs=3", ".a=3", "train.=3", "a=[1"])
    def test_others_are_refused(self, text):
        with pytest.raises(ConfigError, match="--set ") as caught:
            parsed_assignment(text)
        assert text in str(caught.value)

    @pytest.mark.parametrize(
        ("before", "name", "value", "after"),
        [
            ({}, "train.epochs", 3, {"train": {"epochs": 3}}),
            ({"train": {"seed": 1}}, "train.epochs", 3, {"train": {"seed": 1, "epochs": 3}}),
            ({}, "method", "gce", {"method": "gce"}),
            ({}, "method.q", 0.5, {"method": {"options": {"q": 0.5}}}),
            ({"method": "gce"}, "method.q", 0.5, {"method": {"name": "gce", "options": {"q": 0.5}}}),
            ({"method": "gce"}, "method.name", "car", {"method": {"name": "car"}}),
            ({}, "method.options.q", 0.5, {"method": {"options": {"q": 0.5}}}),
            ({}, "model.widths", [8], {"model": {"options": {"widths": [8]}}}),
            ({}, "model.weights", "a.pth", {"model": {"weights": "a.pth"}}),
            ({"model": "cnn"}, "model.freeze", True, {"model": {"name": "cnn", "freeze": True}}),
            ({}, "optimiser.schedule.kind", "constant", {"optimiser": {"schedule": {"kind": "constant"}}}),
            ({"noise": None}, "noise.kind", "pair", {"noise": {"kind": "pair"}}),
            ({}, " train.epochs ", 3, {"train": {"epochs": 3}}),
        ],
    )
    def test_set_field(self, before, name, value, after):
        set_field(before, name, value)
        assert before == after

    def test_set_field_leaves_the_inner_mappings_of_others_alone(self):
        inner = {"seed": 1}
        set_field({"train": inner}, "train.epochs", 3)
        assert inner == {"seed": 1}

    @pytest.mark.parametrize("inside", [5, [1], 0.5])
    def test_set_field_inside_something_that_is_no_mapping_is_an_error(self, inside):
        with pytest.raises(ConfigError, match="train: expected a mapping of settings, got"):
            set_field({"train": inside}, "train.epochs", 3)


class TestNotices:
    @pytest.mark.parametrize(("epochs", "instead"), [(25, 20), (199, 190), (5, 10)])
    def test_a_period_that_does_not_divide_the_epochs(self, epochs, instead):
        config = validate(
            {**LEAST, "train": {"epochs": epochs}, "optimiser": {"schedule": {"kind": "cosine_restarts"}}}
        )
        (text,) = config.notices()
        assert f"period=10 does not divide train.epochs={epochs}" in text
        assert f"{instead} epochs would end at the lowest" in text

    def test_a_frozen_backbone(self):
        frozen = {"weights": "a.pth", "freeze": True}
        assert validate({**LEAST, "model": frozen}).notices() == []
        (text,) = validate({**LEAST, "model": {**frozen, "backbone_rate": 0.1}}).notices()
        assert text == "model.backbone_rate has no effect on a backbone that is frozen"
        (text,) = validate({**LEAST, "model": {"freeze": True}}).notices()
        assert "frozen with random weights" in text

    @pytest.mark.parametrize("schedule", [{"kind": "cosine_restarts", "period": 5}, {"kind": "cosine"}])
    def test_none_otherwise(self, schedule):
        assert validate({**LEAST, "train": {"epochs": 25}, "optimiser": {"schedule": schedule}}).notices() == []


def test_floats_survive_exactly():
    value = math.nextafter(0.1, 1)
    config = validate({**LEAST, "optimiser": {"rate": value}})
    assert validate(json.loads(json.dumps(config.model_dump(mode="json")))).optimiser.rate == value


@pytest.mark.parametrize("method", ["nal", {"name": "nal", "options": {"momentum": 0.8}}])
def test_nal_is_another_name_of_car(method):
    config = validate({"data": {"source": "digits"}, "method": method})
    assert config.method.name == "car"
    assert methods.find("nal") is methods.find("car")
    assert "nal" not in methods.names()
