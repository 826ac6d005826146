"""What a run is made of: frozen models with a description per field, checked in one place."""

from typing import Annotated, Any, Literal, get_args

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, ValidationInfo, field_validator
from pydantic_core import PydanticCustomError

from surelabel.errors import ConfigError


class Part(BaseModel):
    """A frozen part of a configuration; unknown fields are refused."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", use_attribute_docstrings=True, validate_default=True, allow_inf_nan=False
    )


def _plain(value: Any) -> Any:
    """Lists for tuples, all the way down: what JSON would make of it, so that a configuration equals its round trip."""
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    return [_plain(inner) for inner in value] if isinstance(value, list | tuple) else value


Options = Annotated[dict[str, Any], AfterValidator(_plain)]


class Batches(Part):
    """An epoch of a fixed length."""

    batches: int = Field(ge=1)
    """Batches of an epoch; the rows are drawn anew for each."""
    balanced: bool = False
    """Whether every given label gets an equal share of them, as Clothing1M's protocol has it."""


class DataConfig(Part):
    """Which data to train on."""

    source: str
    """Name of a data set, or path of an .npz or .npy file, an image folder, or a .csv or .parquet table."""
    root: str | None = None
    """Folder of a named data set; None looks in $SURELABEL_DATA/NAME and ./data/NAME."""
    options: Options = Field(default_factory=dict)
    """Options of a named data set; the rest have its defaults."""
    test: str | None = None
    """Path of test data of the same kind; None is the source's own test part, if it has one."""
    validation_fraction: float = Field(0.0, ge=0, lt=1)
    """Share of the training rows to hold out, with their given labels. They get a verdict from predictions only."""
    test_fraction: float | None = Field(None, gt=0, lt=1)
    """Share of the rows to split off as a test set where the source has none; its labels are as given."""
    split_seed: int = Field(0, ge=0, lt=2**32)
    """Seed of both splits, apart from the run's seed, so that runs compare on the same rows."""
    epoch: Literal["all"] | Batches = "all"
    """What an epoch is: all rows once, or {batches: 2000, balanced: true}."""
    labels: str | None = None
    """A .csv with id and label: labels that replace the source's own for these rows."""
    trusted: str | None = None
    """A .csv with id, and maybe label, of rows whose label a person has confirmed: their target stays fixed."""
    path_column: str | None = None
    """Tables: the column with image paths, relative to the table, or with their bytes; None is one with bytes, else path, file,
    filename, file_name, image or the like."""
    label_column: str | None = None
    """Tables: the column with labels; None is label or its usual other names."""
    clean_column: str | None = None
    """Tables: the column with true labels, where they are known. They only measure; no method sees them."""
    id_column: str | None = None
    """Tables: the column that names rows; None is id, else the path or the row number."""
    feature_columns: tuple[str, ...] | None = None
    """Tables: numeric columns to train on; None is all numeric columns of a table without images."""
    image_size: int | None = Field(None, ge=4, le=1024)
    """Side to which images are resized; None keeps the size when all images share one."""
    crop: int | None = Field(None, ge=4, le=1024)
    """Side of the window that networks see: drawn at random in training, the centre in tests; None is the whole image."""
    unreadable: Literal["refuse", "skip"] = "refuse"
    """What to do with image files that cannot be read: stop and list them, or list them and go on without."""
    decode: Literal["auto", "once", "stream"] = "auto"
    """Images: decode once and keep them, or again in every epoch by worker processes; auto is by their size."""
    cache: bool = True
    """Whether images that are decoded once are kept on disk for the next run."""
    workers: int | None = Field(None, ge=0)
    """Processes that decode streamed images; None is one per core."""


class NoiseConfig(Part):
    """Wrong labels to inject, drawn once from the clean labels; docs/noise.md tells each kind's convention."""

    kind: Literal["symmetric", "asymmetric", "superclass", "block", "pair", "matrix", "instance", "file"]
    """Where labels go: to any class, by a class map, around a superclass, around a block of class numbers, to the next class, by
    a transition matrix, by the input itself, or as a file says."""
    rate: float = Field(0.0, ge=0, le=1)
    """Nominal rate; per source class for asymmetric, superclass, block and pair. Not used for matrix and file."""
    mode: Literal["exact", "bernoulli"] | None = None
    """exact counts, or bernoulli: each label drawn by itself; None is exact, and bernoulli for matrix. Not for instance and file."""
    include_true_class: bool = False
    """Symmetric only: whether the new label is drawn from all classes, so that some labels stay right."""
    class_map: dict[str, str] | str | None = None
    """Asymmetric only: class name to class name, or a ready map: cifar10, digits; None finds that by the class names."""
    groups: tuple[tuple[str, ...], ...] | str | None = None
    """Superclass only: lists of class names, each label goes to the next of its list; or cifar100, which None finds by the names."""
    block_size: int = Field(5, ge=2)
    """Block only: class numbers of a block."""
    matrix: tuple[tuple[float, ...], ...] | None = None
    """Matrix only: row = true class, column = given class, rows sum to 1."""
    instance_scale: Literal["raw", "unit", "length"] = "raw"
    """Instance only: pixels as they are, 0..255; divided by 255; or each input divided by its Euclidean length."""
    path: str | None = None
    """File only: an .npy or .csv (id, label) of labels, or a run directory."""
    seed: int | None = Field(None, ge=0, lt=2**63)
    """None is the run's seed; for a file, a seed that its manifest must have."""

    @field_validator("class_map", mode="before")
    @classmethod
    def _names_as_text(cls, value: Any) -> Any:
        """Classes called 1 and 2 are numbers in YAML."""
        return {str(a): str(b) for a, b in value.items()} if isinstance(value, dict) else value

    @field_validator("groups", mode="before")
    @classmethod
    def _group_names_as_text(cls, value: Any) -> Any:
        lists = isinstance(value, list | tuple) and all(isinstance(group, list | tuple) for group in value)
        return [[str(name) for name in group] for group in value] if lists else value


class MethodConfig(Part):
    """How to train."""

    name: str = "car"
    """Name of the method, as `surelabel methods` lists it."""
    options: Options = Field(default_factory=dict)
    """Options of the method; the rest have its defaults."""


class ModelConfig(Part):
    """Which network."""

    name: str = "auto"
    """mlp, cnn, fast_cnn, resnet18, resnet34, resnet50, preact_resnet18, wide_resnet, or timm:NAME; auto is mlp for features and
    tiny images, fast_cnn for images of up to 64 pixels a side, resnet18 for larger ones."""
    options: Options = Field(default_factory=dict)
    """Options of the backbone; the rest have its defaults."""
    weights: str | None = None
    """Weights that the backbone starts from: a .safetensors or .pth file, or pretrained, which fetches those of its makers from the
    hub; None draws them from the seed. Inputs are then normalised as these weights expect it."""
    freeze: bool = False
    """Whether the backbone stays as it is, its batch-norm statistics too: only classifier and indicator train."""
    backbone_rate: float = Field(1.0, gt=0)
    """Factor on the learning rate of the backbone, such as 0.1 for weights that were trained before."""
    cache_features: bool = False
    """Whether the frozen backbone runs once over all rows, without augmentation: the run then trains on its features, which are kept
    on disk for the next run."""
    head: tuple[Annotated[int, Field(ge=1)], ...] = ()
    """With cache_features: widths of fully connected layers between the features and the classifier."""

    @field_validator("head")
    @classmethod
    def _only_on_features(cls, value: tuple[int, ...], others: ValidationInfo) -> tuple[int, ...]:
        if value and not others.data.get("cache_features"):
            raise PydanticCustomError("head", "is only for model.cache_features=true")
        return value

    @property
    def is_frozen(self) -> bool:
        """Whether the backbone stays as it is."""
        return self.freeze or self.cache_features

    @property
    def on_features(self) -> "ModelConfig":
        """What trains on the features of a backbone that ran once."""
        return ModelConfig(name="mlp", options={"widths": self.head})

    def notices(self) -> list[str]:
        """Settings that are allowed and rarely meant."""
        found = []
        if self.backbone_rate != 1 and self.is_frozen:
            found.append("model.backbone_rate has no effect on a backbone that is frozen")
        if self.weights is None and self.is_frozen:
            found.append("the backbone is frozen with random weights; model.weights names trained ones")
        return found


class CosineRestarts(Part):
    """Cosine with warm restarts, changed per epoch, as the paper trains."""

    kind: Literal["cosine_restarts"] = "cosine_restarts"
    period: int = Field(10, ge=1)
    """Epochs per restart."""
    min_rate: float = Field(0.001, ge=0)
    """The rate a period falls towards; the next epoch after its last would have it."""


class Cosine(Part):
    """One cosine from the rate to the minimum, changed per step."""

    kind: Literal["cosine"] = "cosine"
    min_rate: float = Field(0.0, ge=0)
    """The rate it ends with."""


class MultiStep(Part):
    """The rate is multiplied by `factor` after each milestone."""

    kind: Literal["multi_step"] = "multi_step"
    milestones: tuple[float, ...] = (0.5, 0.75)
    """Epochs after which to drop; values below 1 are shares of the stage."""
    factor: float = Field(0.1, gt=0, lt=1)
    """What the rate is multiplied by."""


class OneCycle(Part):
    """Linear up for a share of the stage, then cosine to zero, changed per step."""

    kind: Literal["one_cycle"] = "one_cycle"
    warmup: float = Field(0.25, ge=0, lt=1)
    """Share of the stage in which the rate rises."""


class Constant(Part):
    """Always the same rate."""

    kind: Literal["constant"] = "constant"


Schedule = Annotated[CosineRestarts | Cosine | MultiStep | OneCycle | Constant, Field(discriminator="kind")]


class OptimiserConfig(Part):
    """How weights move."""

    name: Literal["sgd", "adamw"] = "sgd"
    """Optimiser."""
    rate: float = Field(0.05, gt=0)
    """Highest learning rate."""
    momentum: float = Field(0.9, ge=0, lt=1)
    """Momentum of SGD."""
    weight_decay: float = Field(5e-4, ge=0)
    """Weight decay."""
    clip: float | None = Field(None, gt=0)
    """Largest gradient norm of each network; None does not clip."""
    schedule: Schedule = Cosine()
    """How the rate changes: kind is cosine_restarts, cosine, multi_step, one_cycle or constant."""

    @property
    def rate_period(self) -> int:
        """Epochs per restart; 1 without restarts."""
        return self.schedule.period if isinstance(self.schedule, CosineRestarts) else 1

    def scaled(self, factor: float) -> "OptimiserConfig":
        """The same with every rate, highest and lowest, times `factor`."""
        if factor == 1:
            return self
        schedule = self.schedule
        if isinstance(schedule, CosineRestarts | Cosine):
            schedule = schedule.model_copy(update={"min_rate": factor * schedule.min_rate})
        return self.model_copy(update={"rate": factor * self.rate, "schedule": schedule})


class TrainConfig(Part):
    """How long, on what, and how exactly."""

    epochs: int = Field(200, ge=1)
    """Epochs of the whole run."""
    batch_size: int = Field(64, ge=2)
    """Rows of a global batch."""
    seed: int = Field(0, ge=0, lt=2**63)
    """Seed of weights, order, augmentation and, unless it has its own, noise."""
    augment: bool | None = None
    """Crop and flip; None is yes for images larger than 16 pixels, and no for features and tiny images."""
    flip: bool | None = None
    """Whether augmentation mirrors images; None is as usual for the data set, yes if nothing is usual."""
    crop_padding: int | None = Field(None, ge=0)
    """Pixels by which augmentation shifts images; None is as usual for the data set, 4 if nothing is usual."""
    device: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    """Where to train."""
    devices: int = Field(1, ge=1)
    """Processes that train together."""
    precision: Literal["32-true", "bf16-mixed", "16-mixed"] = "32-true"
    """Numeric precision of the networks; losses and per-sample state are always float32."""
    threads: int | None = Field(None, ge=1)
    """CPU threads of each process; None leaves PyTorch's choice."""
    warm_start: str | None = None
    """A finished run whose weights the networks start from; None draws them from the seed."""
    evaluate_every: int = Field(1, ge=1)
    """Epochs between evaluations on the test sets; the last epoch is always evaluated."""
    gradient_share: bool = False
    """Record which share of the gradient comes from clean and from false labels, where clean labels are known."""
    replicate_below: int = Field(256 * 2**20, ge=0)
    """Bytes up to which every process holds a whole per-sample table; larger ones are divided."""


class RunConfig(Part):
    """A whole run."""

    data: DataConfig
    noise: NoiseConfig | None = None
    method: MethodConfig = MethodConfig()
    model: ModelConfig = ModelConfig()
    optimiser: OptimiserConfig = OptimiserConfig()
    train: TrainConfig = TrainConfig()

    @field_validator("method", "model", mode="before")
    @classmethod
    def _name_alone(cls, value: Any) -> Any:
        return {"name": value} if isinstance(value, str) else value

    def notices(self) -> list[str]:
        """Settings that are allowed and rarely meant."""
        period = self.optimiser.rate_period
        if self.train.epochs % period:
            return [
                *self.model.notices(),
                f"optimiser.schedule.period={period} does not divide train.epochs={self.train.epochs}: the run ends at a "
                f"high learning rate; {self.train.epochs - self.train.epochs % period or period} epochs would end at the lowest",
            ]
        return self.model.notices()


WHERE_IT_RUNS = {
    "data": ("root", "workers", "cache"),
    "train": ("device", "devices", "threads", "replicate_below"),
}
"""Settings of a run, by part, that do not make another experiment of it."""


def validate(content: dict[str, Any]) -> RunConfig:
    """A RunConfig from nested mappings, or one line that names the field and what is allowed."""
    try:
        return RunConfig.model_validate(content)
    except ValidationError as error:
        raise ConfigError(one_line(error)) from None


def one_line(error: ValidationError, prefix: str = "") -> str:
    """The first complaint of a validation error, with the field's name."""
    first = error.errors()[0]
    field = prefix + ".".join(str(part) for part in first["loc"])
    if first["type"] == "extra_forbidden":
        return f"{field}: there is no such setting{_known_fields(first['loc'])}"
    shown = "" if first["type"] == "missing" else f", got {first['input']!r}"
    return f"{field}: {first['msg'][0].lower() + first['msg'][1:]}{shown}"


def _known_fields(location: tuple[int | str, ...]) -> str:
    models: list[Any] = [RunConfig]
    for part in location[:-1]:
        fields = models[0].model_fields if models else {}
        if part in fields:
            annotation = fields[part].annotation
            models = [model for model in (annotation, *get_args(annotation)) if hasattr(model, "model_fields")]
        else:  # the kind of a schedule, by which pydantic names the model
            models = [model for model in models if getattr(model.model_fields.get("kind"), "default", None) == part]
    return f"; there are {', '.join(models[0].model_fields)}" if models else ""
