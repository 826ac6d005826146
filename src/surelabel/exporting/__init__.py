"""The cleaned data of a run as files that other tools read, and taking them back."""

from surelabel.exporting.choosing import Cleaned, choose
from surelabel.exporting.taking_back import undo
from surelabel.exporting.writing import Exported, export
from surelabel.verdicts.corrections import Rules

__all__ = ["Cleaned", "Exported", "Rules", "choose", "export", "undo"]
