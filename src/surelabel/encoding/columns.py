"""Features of a table: numbers with missing ones filled in, and a column for each category.

A missing number becomes the median of the column; if training rows miss some, a further feature
says which. A category is 1 in its own column and 0 in the others. Categories that few training rows
have share a column, which unknown ones of new rows get too; blank cells are a category.
"""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
import pyarrow as pa
from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError
from torch import Tensor

MOST_CATEGORIES = 100
"""Categories of a column with a feature of their own, the most frequent ones."""
RARE = 0.005
"""Categories of a smaller fraction of the training rows, or of a single row, have none."""
RARE_FROM = 50
"""With fewer training rows every category has a feature of its own."""


class _Column(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    name: str


class NumberColumn(_Column):
    """A column of numbers."""

    kind: Literal["number"] = "number"
    fill: float = Field(allow_inf_nan=False)
    """What a missing number becomes."""
    has_indicator: bool

    @property
    def features(self) -> list[str]:
        """The names of its features."""
        return [self.name, f"{self.name} is missing"] if self.has_indicator else [self.name]

    def encode(self, column: Any) -> np.ndarray:
        """Return the features (N, D) of its cells."""
        values = column.to_numpy(zero_copy_only=False).astype(np.float64)
        missing = np.isnan(values)
        filled = np.where(missing, self.fill, values)
        return np.stack([filled, missing] if self.has_indicator else [filled], axis=1)


class CategoryColumn(_Column):
    """A column of categories."""

    kind: Literal["category"] = "category"
    values: list[str] = Field(max_length=MOST_CATEGORIES)
    """Categories with a feature of their own; a blank one is that of missing cells."""
    has_others: bool
    """Whether the other categories share a feature."""

    @model_validator(mode="after")
    def _refuse_repeated_values(self) -> "CategoryColumn":
        if len(set(self.values)) != len(self.values):
            raise PydanticCustomError("values", "a category occurs twice")
        return self

    @property
    def features(self) -> list[str]:
        """The names of its features."""
        others = [f"{self.name}: others"] if self.has_others else []
        return [f"{self.name}={value}" if value else f"{self.name} is missing" for value in self.values] + others

    def encode(self, column: Any) -> np.ndarray:
        """Return the features (N, D) of its cells."""
        place = {value: at for at, value in enumerate(self.values)}
        numbers = np.array([place.get(cell or "", len(place)) for cell in column.to_pylist()], dtype=np.int64)
        return np.eye(len(place) + 1)[numbers][:, : len(self.features)]


class Description(BaseModel):
    """What encoder.json has of this encoder."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    kind: Literal["columns"] = "columns"
    columns: list[Annotated[NumberColumn | CategoryColumn, Field(discriminator="kind")]] = Field(min_length=1)


@dataclass(frozen=True)
class ColumnEncoder:
    """Turns numbers and categories into features, as the training rows have them."""

    parts: tuple[NumberColumn | CategoryColumn, ...]

    @classmethod
    def fit(cls, cells: pa.Table, categories: tuple[str, ...]) -> "ColumnEncoder":
        """Find the categories and the medians of cells."""
        columns = zip(cells.column_names, cells.itercolumns(), strict=True)
        return cls(
            tuple(
                _fit_categories(name, column) if name in categories else _fit_numbers(name, column)
                for name, column in columns
            )
        )

    @property
    def num_features(self) -> int:
        """The number of features, D."""
        return len(self.feature_names)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The names of the D features."""
        return tuple(name for part in self.parts for name in part.features)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that it reads."""
        return tuple(part.name for part in self.parts)

    @property
    def settings(self) -> dict[str, Any]:
        """The settings of data with which a table is read for it."""
        categories = tuple(part.name for part in self.parts if part.kind == "category")
        return {"feature_columns": self.columns, "category_columns": categories}

    @property
    def has_term_weights(self) -> bool:
        """Return False: the features are no weights of terms."""
        return False

    @property
    def cache_key(self) -> None:
        """Encoding is fast enough."""

    def encode(self, cells: pa.Table) -> np.ndarray:
        """Return the features (N, D) float32 of cells."""
        found = [part.encode(cells.column(part.name)) for part in self.parts]
        return np.concatenate(found, axis=1).astype(np.float32)

    def describe(self) -> dict[str, Any]:
        """Return what encoder.json has of it: all."""
        return Description(columns=list(self.parts)).model_dump(mode="json")

    def tensors(self) -> dict[str, Tensor]:
        """Return no tensors."""
        return {}

    @classmethod
    def load(cls, content: dict[str, Any], tensors: dict[str, Tensor]) -> "ColumnEncoder":
        """Make the encoder of a run; raise ValueError if there are tensors: it has none."""
        if tensors:
            raise ValueError("tensors that do not belong to it")
        return cls(tuple(Description.model_validate(content).columns))


def _fit_numbers(name: str, column: Any) -> NumberColumn:
    values = column.to_numpy(zero_copy_only=False).astype(np.float64)
    known = values[~np.isnan(values)]
    return NumberColumn(
        name=name, fill=float(np.median(known)) if len(known) else 0.0, has_indicator=len(known) < len(values)
    )


def _fit_categories(name: str, column: Any) -> CategoryColumn:
    values, counts = np.unique([cell or "" for cell in column.to_pylist()], return_counts=True)
    least = max(2.0, RARE * len(column)) if len(column) >= RARE_FROM else 1.0
    order = np.argsort(-counts, kind="stable")
    kept = [at for at in order[:MOST_CATEGORIES] if counts[at] >= least]
    return CategoryColumn(name=name, values=sorted(str(values[at]) for at in kept), has_others=len(kept) < len(values))
