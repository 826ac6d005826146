"""The paper's tables, and the runs of its figures, as presets of trials."""

from surelabel.jobs import Trial
from surelabel.paper.published import Published, read_published
from surelabel.paper.tables.preset import RULES, Measure, Preset
from surelabel.paper.tables.scales import SCALES, PreparedData, Scale, find_scale
from surelabel.paper.tables.trials import PRESETS, find_preset, parse_only, plan_trials

__all__ = [
    "PRESETS",
    "RULES",
    "SCALES",
    "Measure",
    "PreparedData",
    "Preset",
    "Published",
    "Scale",
    "Trial",
    "find_preset",
    "find_scale",
    "parse_only",
    "plan_trials",
    "read_published",
]
