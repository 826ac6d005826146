"""Warnings, before training, of settings that can never act; counted in visits of a row."""

from surelabel.core import Task


def warn_of_late_start(
    task: Task, option: str, value: int, epochs: int, default: int, consequence: str, *, left_by_default: int
) -> list[str]:
    """Return a warning if an option leaves a row less than one visit in the `epochs` after it.

    `default` is the option's default value, and `left_by_default` how many epochs that one leaves.
    """
    visits = max(0, epochs) * task.visits_per_epoch
    if visits >= 1:
        return []
    enough = value != default and left_by_default * task.visits_per_epoch >= 1
    advice = f"{option}={default}" if enough else "more epochs"
    return [f"method.{option}={value} leaves {visits:.2g} visits of a row after it: {consequence}; use {advice}"]


def warn_of_short_run(task: Task, epochs: int, consequence: str) -> list[str]:
    """Return a warning if the `epochs` of a stage leave a row less than one visit."""
    visits = max(0, epochs) * task.visits_per_epoch
    if visits >= 1:
        return []
    return [f"train.epochs={task.epochs} leaves {visits:.2g} visits of a row for it: {consequence}; use more epochs"]
