"""One run of a reproduction: where it stands in the paper's tables, and its whole configuration."""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePath

from surelabel.config import WHERE_IT_RUNS, RunConfig


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
        # Without defaults, so that a setting which is added later does not rename what is done.
        content = self.config.model_dump(mode="json", exclude_defaults=True)
        content["schedule"] = self.config.optimiser.schedule.kind  # the default of each kind, so left out above
        data = content["data"]
        data["source"] = PurePath(data["source"]).name
        # Some options of data sets are folders, such as ImageNet's beside WebVision.
        options = data.get("options", {}).items()
        data["options"] = {key: PurePath(value).name if isinstance(value, str) else value for key, value in options}
        for part, fields in WHERE_IT_RUNS.items():
            for field in fields:
                content.get(part, {}).pop(field, None)
        noise = self.config.noise
        words = [
            data["source"],
            "clean" if noise is None else f"{noise.kind}-{noise.rate:g}",
            self.config.method.name,
            f"seed-{self.seed}",
            hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:8],
        ]
        return re.sub(r"[^A-Za-z0-9._-]+", "-", "--".join(words))
