"""One run of a reproduction: where it stands in the paper's tables, and its whole configuration."""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePath

from surelabel.config import RunConfig

WHERE_IT_RUNS = ("device", "devices", "threads")
"""Of train: what does not make another run of it."""


@dataclass(frozen=True)
class Trial:
    """`cell` says in the table's own words which cell it counts for, such as data, noise, method; the seed is not part of it."""

    cell: Mapping[str, str]
    config: RunConfig

    @property
    def seed(self) -> int:
        """The seed of the run."""
        return self.config.train.seed

    @property
    def name(self) -> str:
        """A name for its folder: readable, and the same for equal configurations wherever data lie and whatever trains them."""
        content = self.config.model_dump(mode="json")
        data, train = content["data"], content["train"]
        data["source"], data["root"] = PurePath(data["source"]).name, None
        # Some options of data sets are folders, such as ImageNet's beside WebVision.
        data["options"] = {key: PurePath(v).name if isinstance(v, str) else v for key, v in data["options"].items()}
        for field in WHERE_IT_RUNS:
            train.pop(field)
        noise = self.config.noise
        words = [
            data["source"],
            "clean" if noise is None else f"{noise.kind}-{noise.rate:g}",
            self.config.method.name,
            f"seed-{self.seed}",
            hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:8],
        ]
        return re.sub(r"[^A-Za-z0-9._-]+", "-", "--".join(words))
