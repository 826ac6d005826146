"""Export the cleaned labels of a run as files for other tools, and undo an export."""

from surelabel.exporting.selection import Cleaned, choose
from surelabel.exporting.undo import undo
from surelabel.exporting.write import Exported, export
from surelabel.verdicts.corrections import Rules

__all__ = ["Cleaned", "Exported", "Rules", "choose", "export", "undo"]
