"""Run many trainings, on this machine or on a Ray cluster, each in its own run directory."""

from surelabel.jobs.local_backend import Backend, LocalBackend
from surelabel.jobs.progress import Overview, ProgressDisplay, show_progress
from surelabel.jobs.ray_backend import RayBackend
from surelabel.jobs.runner import Outcome, claimed, run_all
from surelabel.jobs.trial import Job, Trial, find_state

__all__ = [
    "Backend",
    "Job",
    "LocalBackend",
    "Outcome",
    "Overview",
    "ProgressDisplay",
    "RayBackend",
    "Trial",
    "claimed",
    "find_state",
    "run_all",
    "show_progress",
]
