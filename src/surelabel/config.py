"""The configuration of a run: frozen models that describe every field, validated in one place."""

from typing import Annotated, Any, Literal, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
)
from pydantic_core import PydanticCustomError

from surelabel.errors import ConfigError


class Part(BaseModel):
    """A frozen part of a configuration; unknown fields are refused."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", use_attribute_docstrings=True, validate_default=True, allow_inf_nan=False
    )


def _plain(value: Any) -> Any:
    """Turn nested tuples into lists as JSON does, so that a configuration equals its round trip."""
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    return [_plain(inner) for inner in value] if isinstance(value, list | tuple) else value


Options = Annotated[dict[str, Any], AfterValidator(_plain)]


class Batches(Part):
    """An epoch of a fixed length."""

    batches: int = Field(ge=1)
    """Batches per epoch; each epoch draws new rows."""
    balanced: bool = False
    """Whether all given labels are drawn equally often, as in the protocol of Clothing1M."""


class DataConfig(Part):
    """The data to train on."""

    source: str
    """Name of a data set, or path of an .npz or .npy file, image folder, .csv or .parquet table."""
    root: str | None = None
    """Folder of a named data set; None searches $SURELABEL_DATA/NAME and ./data/NAME."""
    options: Options = Field(default_factory=dict)
    """Options of a named data set; the others keep their defaults."""
    test: str | None = None
    """Path of test data of the same kind; None uses the test part of the source, if it has one."""
    validation_fraction: float = Field(0.0, ge=0, lt=1)
    """Fraction of training rows to hold out. They are judged by predictions only."""
    validation_fold: int = Field(0, ge=0)
    """Which rows those are: each number, from 0 on, holds out rows that no other does."""
    test_fraction: float | None = Field(None, gt=0, lt=1)
    """Fraction of rows to use as a test set, with given labels, if the source has no test part."""
    split_seed: int = Field(0, ge=0, lt=2**32)
    """Random seed for both splits; runs with other seeds still compare on the same rows."""
    epoch: Literal["all"] | Batches = "all"
    """Length of an epoch: all rows once, or {batches: 2000, balanced: true}."""
    labels: str | None = None
    """CSV with columns id,label; overrides the labels of these rows in the source."""
    trusted: str | None = None
    """CSV with id, optionally label, of rows confirmed by a person; their targets stay fixed."""
    merge_classes: tuple[str, ...] = ()
    """Classes to merge: variants, for names that differ only by case, spaces or accents, into the
    most frequent spelling; OLD=NEW, for any others. A word, or a list."""
    path_column: str | None = None
    """Tables: the column with image bytes, or with image paths; None finds a column of bytes, else
    one named path, file, filename, file_name, image or similar."""
    image_root: str | None = None
    """Tables: the folder that image paths are relative to and must not lead out of; None is the
    folder of the table."""
    label_column: str | None = None
    """Tables: the column with labels; None finds label or one of its usual names."""
    clean_column: str | None = None
    """Tables: the column with true labels, if known. They only measure; no method sees them."""
    text_column: str | None = None
    """Tables: the column of text to train on; None finds one by its content, if there are neither
    images nor numbers or if it has a usual name such as text."""
    id_column: str | None = None
    """Tables: the column that identifies rows; None uses id, else the path or the row number."""
    group: str | None = None
    """The column, or the array, with the group of each row, such as a patient or a video: rows of a
    group are left out together where a row is judged. Other data have it in the `labels` file."""
    feature_columns: tuple[str, ...] | None = None
    """Tables: columns of numbers or categories to train on; None uses all of them in a table
    without images and text."""
    category_columns: tuple[str, ...] | None = None
    """Tables: which of these are categories, even if they are numbers; None judges by content."""
    image_size: int | None = Field(None, ge=4, le=1024)
    """Short side after resizing; None keeps the size of images if all have the same."""
    largest_size: int | None = Field(None, ge=4, le=1024)
    """The most pixels per side without `image_size`; None is 64 for images that differ in size. For
    a network with pretrained weights it is the size that the network was made for."""
    crop: int | None = Field(None, ge=4, le=1024)
    """Side of the window that networks see: anywhere in the image in training, its middle in tests.
    None is no window: images are cut to squares."""
    unreadable: Literal["refuse", "skip"] = "refuse"
    """Rows whose image, text, label or features cannot be read: stop and name the first ones, or
    list them and train without them. Blank features of tables are filled in unless this is skip."""
    decode: Literal["auto", "once", "stream"] = "auto"
    """Images: decode once and keep them, or every epoch in worker processes; auto goes by size."""
    cache: bool = True
    """Whether images that are decoded once are cached on disk for later runs."""
    workers: int | None = Field(None, ge=0, le=1024)
    """Number of processes that decode streamed images; None is one per core."""

    @field_validator("validation_fold")
    @classmethod
    def _refuse_more_folds_than_rows(cls, value: int, info: ValidationInfo) -> int:
        fraction = info.data.get("validation_fraction", 0)
        if value and (value + 1) * fraction > 1 + 1e-6:  # three thirds may be a little more than one
            most = int(1 / fraction + 1e-6) - 1
            raise PydanticCustomError("fold", f"expected at most {most} with validation_fraction={fraction:g}")
        return value

    @field_validator("merge_classes", mode="before")
    @classmethod
    def _refuse_other_rules(cls, value: Any) -> Any:
        rules = (value,) if isinstance(value, str) else value
        for rule in rules if isinstance(rules, list | tuple) else (value,):
            old, sign, new = rule.partition("=") if isinstance(rule, str) else ("", "", "")
            if rule != "variants" and not (sign and old.strip() and new.strip()):
                raise PydanticCustomError("merge", "expected variants, or OLD=NEW with the names of two classes")
        return rules

    @field_validator("epoch", mode="before")
    @classmethod
    def _refuse_other_words(cls, value: Any) -> Any:
        if value == "all" or isinstance(value, dict | Batches):
            return value
        raise PydanticCustomError("epoch", "expected 'all', or a mapping such as {{batches: 2000}}")


class NoiseConfig(Part):
    """Wrong labels to inject, drawn once from the clean labels; docs/noise.md defines each kind."""

    kind: Literal["symmetric", "asymmetric", "superclass", "block", "pair", "matrix", "instance", "file"]
    """How labels change: to any class, by a class map, within a superclass, within a block of class
    numbers, to the next class, by a transition matrix, depending on the input, or as in a file."""
    rate: float = Field(0.0, ge=0, le=1)
    """Nominal rate, per source class for asymmetric, superclass, block and pair. Not for matrix and
    file."""
    mode: Literal["exact", "bernoulli"] | None = None
    """exact: exact counts; bernoulli: independent draws. None is bernoulli for matrix, else exact.
    Not for instance and file."""
    include_true_class: bool = False
    """Symmetric only: draw new labels from all classes, so that some labels stay right."""
    class_map: dict[str, str] | str | None = None
    """Asymmetric only: class names to class names, or a known map: cifar10, digits; None chooses
    the known map that fits the class names."""
    groups: tuple[tuple[str, ...], ...] | str | None = None
    """Superclass only: lists of class names, in which labels move to the next; or cifar100, which
    None chooses if it fits the class names."""
    block_size: int = Field(5, ge=2)
    """Block only: number of classes in a block."""
    matrix: tuple[tuple[float, ...], ...] | None = None
    """Matrix only: row = true class, column = given class, rows sum to 1."""
    instance_scale: Literal["raw", "unit", "length"] = "raw"
    """Instance only: raw pixels, 0..255; unit: divided by 255; length: each input divided by its
    Euclidean norm."""
    path: str | None = None
    """File only: labels as an .npy, a .csv (id, label), or a run directory."""
    seed: int | None = Field(None, ge=0, lt=2**63)
    """Random seed; None uses that of the run. For a file, the seed that its manifest must have."""

    @field_validator("class_map", mode="before")
    @classmethod
    def _names_as_text(cls, value: Any) -> Any:
        """Accept class names that YAML reads as numbers, such as 1 and 2."""
        return {str(a): str(b) for a, b in value.items()} if isinstance(value, dict) else value

    @field_validator("groups", mode="before")
    @classmethod
    def _group_names_as_text(cls, value: Any) -> Any:
        lists = isinstance(value, list | tuple) and all(isinstance(group, list | tuple) for group in value)
        return [[str(name) for name in group] for group in value] if lists else value


METHOD_ALIASES = {"nal": "car"}
"""Other names of methods, for which a configuration stores the usual name."""


class MethodConfig(Part):
    """The training method."""

    name: str = "car"
    """Name of the method, as listed by `surelabel methods`; nal is another name of car."""
    options: Options = Field(default_factory=dict)
    """Options of the method; the others keep their defaults."""

    @field_validator("name")
    @classmethod
    def _resolve_alias(cls, value: str) -> str:
        return METHOD_ALIASES.get(value, value)

    @property
    def is_foreign(self) -> bool:
        """Whether the name is that of a module outside surelabel, whose code would be imported."""
        return "." in self.name and not self.name.startswith("surelabel.methods.")


class ModelConfig(Part):
    """The network."""

    name: str = "auto"
    """mlp, cnn, fast_cnn, resnet18, resnet34, resnet50, preact_resnet18, wide_resnet, or timm:NAME;
    auto is an mlp for feature vectors, with hidden layers or without, whichever predicts held-out
    rows better; mlp for tiny images, fast_cnn for images of up to 64 pixels a side, and resnet18
    for larger ones."""
    options: Options = Field(default_factory=dict)
    """Options of the backbone; the others keep their defaults."""
    weights: str | None = None
    """Initial weights of the backbone: a .safetensors or .pth file, or pretrained, which downloads
    the authors' weights from the hub; None draws random ones."""
    normalise_as: Literal["weights", "data"] = "weights"
    """With initial weights: normalise inputs as these weights expect, or by the data's own mean and
    deviation, as some published code does."""
    freeze: bool = False
    """Whether the backbone and its batch-norm statistics stay fixed."""
    backbone_rate: float = Field(1.0, gt=0)
    """Factor on the learning rate of the backbone, for example 0.1 for pretrained weights."""
    features: str = "auto"
    """Features of a pretrained network, which join the second opinion: auto, none, a name that
    `surelabel backbones` lists, timm:NAME, NAME=FILE with weights, hf:NAME or sentence:NAME. auto
    is the first one that pip has installed, for images and for text."""
    feature_size: int | None = Field(None, ge=8, le=1024)
    """Pixels per side at which a pretrained network sees images; None is the size that it was made
    for."""
    train_on: Literal["auto", "inputs", "features"] = "auto"
    """What the network is trained on: the inputs, or these features. auto compares both on held-out
    rows, or takes the features if the user named them."""
    mirror: bool = False
    """Whether to average over an image and its mirror image in tests and predictions, which then
    take twice as long."""

    @field_validator("name")
    @classmethod
    def _refuse_text_models(cls, value: str) -> str:
        if value.startswith(("hf:", "sentence:")):
            raise PydanticCustomError("text", "a model of text gives features: set model.features")
        return value

    def notices(self) -> list[str]:
        """List valid settings that are probably mistakes."""
        found = []
        if self.backbone_rate != 1 and self.freeze:
            found.append("model.backbone_rate has no effect on a backbone that is frozen")
        if self.weights is None and self.freeze:
            found.append("the backbone is frozen with random weights; set model.weights to use trained ones")
        return found


class CosineRestarts(Part):
    """Cosine with warm restarts, updated per epoch, as in the paper."""

    kind: Literal["cosine_restarts"] = "cosine_restarts"
    period: int = Field(10, ge=1)
    """Epochs per restart."""
    min_rate: float = Field(0.001, ge=0)
    """The rate at the end of a period; the epoch after its last would have it."""


class Cosine(Part):
    """One cosine from the highest to the lowest rate, updated per step."""

    kind: Literal["cosine"] = "cosine"
    min_rate: float = Field(0.0, ge=0)
    """The final rate."""


class MultiStep(Part):
    """The rate is multiplied by `factor` after each milestone."""

    kind: Literal["multi_step"] = "multi_step"
    milestones: tuple[float, ...] = (0.5, 0.75)
    """Epochs after which the rate drops; values below 1 are fractions of the stage."""
    factor: float = Field(0.1, gt=0, lt=1)
    """Factor on the rate."""


class OneCycle(Part):
    """A linear rise for a fraction of the stage, then a cosine to zero, updated per step."""

    kind: Literal["one_cycle"] = "one_cycle"
    warmup: float = Field(0.25, ge=0, lt=1)
    """Fraction of the stage in which the rate rises."""


class Constant(Part):
    """A constant rate."""

    kind: Literal["constant"] = "constant"


Schedule = Annotated[CosineRestarts | Cosine | MultiStep | OneCycle | Constant, Field(discriminator="kind")]


USUAL_DECAY = 5e-4
"""Weight decay where nothing else is configured or chosen."""


class OptimiserConfig(Part):
    """The optimiser and its learning rate."""

    name: Literal["sgd", "adamw"] = "sgd"
    """Name of the optimiser."""
    rate: float = Field(0.05, gt=0)
    """Highest learning rate."""
    momentum: float = Field(0.9, ge=0, lt=1)
    """Momentum of SGD."""
    weight_decay: float | None = Field(None, ge=0)
    """Weight decay; None is 5e-4, and for feature vectors the best of a few on held-out rows."""
    bias_rate: float = Field(1.0, gt=0)
    """Factor on the learning rate of the biases of batch norms; they may learn much faster."""
    clip: float | None = Field(None, gt=0)
    """Largest gradient norm of each network; None does not clip."""
    schedule: Schedule = Cosine()
    """Schedule of the rate: kind is cosine_restarts, cosine, multi_step, one_cycle or constant."""

    @property
    def decay(self) -> float:
        """The weight decay to train with."""
        return USUAL_DECAY if self.weight_decay is None else self.weight_decay

    @property
    def rate_period(self) -> int:
        """Epochs per restart; 1 without restarts."""
        return self.schedule.period if isinstance(self.schedule, CosineRestarts) else 1

    def with_constant(self, rate: float | None, weight_decay: float | None) -> "OptimiserConfig":
        """Return the same with a constant rate, and with a weight decay, unless they are None."""
        changes: dict[str, Any] = {} if rate is None else {"rate": rate, "schedule": Constant()}
        return self.model_copy(update=changes | ({} if weight_decay is None else {"weight_decay": weight_decay}))

    def scaled(self, factor: float) -> "OptimiserConfig":
        """Return the same with the highest and the lowest rate multiplied by `factor`."""
        if factor == 1:
            return self
        schedule = self.schedule
        if isinstance(schedule, CosineRestarts | Cosine):
            schedule = schedule.model_copy(update={"min_rate": factor * schedule.min_rate})
        return self.model_copy(update={"rate": factor * self.rate, "schedule": schedule})


class TrainConfig(Part):
    """The length of training, its batches, device and precision."""

    epochs: int = Field(200, ge=1)
    """Number of epochs of the whole run."""
    batch_size: int = Field(64, ge=2)
    """Rows per batch, at most, over all processes; sizes within an epoch differ by at most one."""
    seed: int = Field(0, ge=0, lt=2**63)
    """Random seed for weights, batch order, augmentation and noise, unless noise has its own."""
    augment: bool | None = None
    """Crop and flip images; None does so for images larger than 16 pixels."""
    flip: bool | Literal["alternate"] | None = None
    """Whether augmentation mirrors images: at random, or each in every other epoch; None is as
    usual for the data set, or at random."""
    crop_padding: int | None = Field(None, ge=0)
    """Pixels by which augmentation shifts images; None is as usual for the data set, or 4."""
    device: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    """Device to train on."""
    devices: int = Field(1, ge=1, le=1024)
    """Number of processes that train together."""
    sync_batch_norm: bool = True
    """Normalise over the rows of all processes, as one would; off is faster, by each one's rows."""
    precision: Literal["32-true", "bf16-mixed", "16-mixed"] = "32-true"
    """Numeric precision of the networks; losses and per-sample state are always float32."""
    threads: int | None = Field(None, ge=1, le=1024)
    """CPU threads per process; None leaves the choice to PyTorch."""
    warm_start: str | None = None
    """A finished run whose weights the networks start from; None draws random weights."""
    second_opinion: bool = True
    """Judge labels also by simple models that have not seen the label they judge."""
    folds: int = Field(0, ge=0, le=20)
    """Networks to train besides, each without its part of the rows, which it then judges; 0 is
    none. N of them take as long as N - 1 trainings."""
    evaluate_every: int = Field(1, ge=1)
    """Epochs between evaluations on the test sets; the last epoch is always evaluated."""
    gradient_share: bool = False
    """Record how much of the gradient comes from false labels, if clean labels are known; not in
    steps on mixed inputs."""
    replicate_below: int = Field(256 * 2**20, ge=0)
    """Per-sample tables of up to this many bytes are replicated; larger ones are sharded."""
    store: Literal["auto", "dense", "topk", "memmap"] = "auto"
    """How tables of targets are kept, one value per row and class: in memory (dense), for the most
    probable classes of each row alone (topk), or in a file (memmap). auto is topk for tables beyond
    256 MiB, if the method allows it."""
    store_k: int = Field(16, ge=2, le=32767)
    """topk: classes to keep per row, the given one among them."""

    @field_validator("folds")
    @classmethod
    def _refuse_one_fold(cls, value: int) -> int:
        if value == 1:
            raise PydanticCustomError("folds", "expected 0, or from 2 to 20")
        return value

    @property
    def num_folds(self) -> int:
        """The number of folds to train: none without a second opinion, of which they are a part."""
        return self.folds if self.second_opinion else 0


class RunConfig(Part):
    """The configuration of a whole run.

    >>> from surelabel import RunConfig
    >>> config = RunConfig.model_validate({"data": {"source": "digits"}, "train": {"epochs": 60}})
    >>> config.method.name, config.train.epochs
    ('car', 60)

    `surelabel.fit` takes one in place of data.
    """

    data: DataConfig
    noise: NoiseConfig | None = None
    method: MethodConfig = MethodConfig()
    model: ModelConfig = ModelConfig()
    optimiser: OptimiserConfig = OptimiserConfig()
    train: TrainConfig = TrainConfig()

    @field_validator("method", "model", mode="before")
    @classmethod
    def _accept_name(cls, value: Any) -> Any:
        return {"name": value} if isinstance(value, str) else value

    def notices(self) -> list[str]:
        """List valid settings that are probably mistakes."""
        found, period = self.model.notices(), self.optimiser.rate_period
        if self.train.folds and not self.train.second_opinion:
            found.append("train.folds has no effect: folds are part of the second opinion, which is off")
        elif self.train.folds and self.train.warm_start is not None:
            found.append("folds do not start from train.warm_start, which may have been trained on their labels")
        if self.train.epochs % period:
            better = self.train.epochs - self.train.epochs % period or period
            found.append(
                f"optimiser.schedule.period={period} does not divide train.epochs={self.train.epochs}: the run ends at "
                f"a high learning rate; {better} epochs would end at the lowest"
            )
        return found


WHERE_IT_RUNS = {
    "data": ("root", "workers", "cache"),
    "train": ("device", "devices", "threads", "replicate_below"),
}
"""Settings, by part, that do not change the experiment."""


def validate(content: dict[str, Any]) -> RunConfig:
    """Make a RunConfig from nested mappings; an error names the field and what is allowed."""
    try:
        return RunConfig.model_validate(content)
    except ValidationError as error:
        raise ConfigError(one_line(error)) from None


def one_line(error: ValidationError, prefix: str = "") -> str:
    """Return the first problem of a validation error, with the name of the field."""
    first = _most_telling(error)
    field = prefix + ".".join(str(part) for part in first["loc"])
    if first["type"] == "extra_forbidden":
        return f"{field}: there is no such setting{_known_fields(first['loc'])}"
    shown = "" if first["type"] == "missing" else f", got {shorten(repr(first['input']))}"
    return f"{field}: {first['msg'][0].lower() + first['msg'][1:]}{shown}"


def shorten(text: str, most: int = 200) -> str:
    """Return the beginning of a text that may be too long for a message."""
    return text if len(text) <= most else f"{text[:most]}..."


def _most_telling(error: ValidationError) -> dict[str, Any]:
    """Return the first problem; of a mapping that may also be a word, the problem in the mapping.

    Pydantic tries the word first: {batches: 0} would have to be 'all'.
    """
    problems: list[dict[str, Any]] = [{**problem} for problem in error.errors(include_url=False, include_context=False)]
    first = problems[0]
    field = first["loc"][:-1]
    if first["loc"] and str(first["loc"][-1]).startswith("literal["):
        for inner in problems:
            if inner["loc"][: len(field)] == field and len(inner["loc"]) > len(first["loc"]):
                return {**inner, "loc": (*field, *inner["loc"][len(first["loc"]) :])}
    return first


def _known_fields(location: tuple[int | str, ...]) -> str:
    models: list[Any] = [RunConfig]
    for part in location[:-1]:
        fields = models[0].model_fields if models else {}
        if part in fields:
            annotation = fields[part].annotation
            models = [model for model in (annotation, *get_args(annotation)) if hasattr(model, "model_fields")]
        else:  # the kind of a schedule, by which pydantic names the model
            models = [model for model in models if getattr(model.model_fields.get("kind"), "default", None) == part]
    return f"; available: {', '.join(models[0].model_fields)}" if models else ""
