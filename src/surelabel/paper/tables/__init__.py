"""The paper's tables, ablations and figures as functions that return run configurations; the published numbers stand beside as csv."""

from surelabel.jobs.trial import Trial
from surelabel.paper.published import Published, published
from surelabel.paper.tables.filtering import parse_only
from surelabel.paper.tables.prepared import Prepared
from surelabel.paper.tables.preset import RULES, Measure, Preset
from surelabel.paper.tables.scales import SCALES, Scale, scale_named
from surelabel.paper.tables.trials import PRESETS, planned, preset_named

__all__ = [
    "PRESETS",
    "RULES",
    "SCALES",
    "Measure",
    "Prepared",
    "Preset",
    "Published",
    "Scale",
    "Trial",
    "parse_only",
    "planned",
    "preset_named",
    "published",
    "scale_named",
]
