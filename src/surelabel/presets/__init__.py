"""The paper's tables, ablations and figures as functions that return run configurations; the published numbers stand beside as csv."""

from surelabel.presets.filtering import parse_only
from surelabel.presets.planning import PRESETS, planned, preset_named
from surelabel.presets.prepared import Prepared
from surelabel.presets.preset import RULES, Measure, Preset
from surelabel.presets.published import Published, published
from surelabel.presets.scales import SCALES, Scale, scale_named
from surelabel.presets.trial import Trial

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
