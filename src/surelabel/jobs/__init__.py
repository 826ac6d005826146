"""Run many trainings: on this machine or on a cluster, each in its own run directory."""

from surelabel.jobs.backend import Backend, Job
from surelabel.jobs.cluster import Cluster
from surelabel.jobs.local import Processes
from surelabel.jobs.outcome import Outcome
from surelabel.jobs.running import run_all
from surelabel.jobs.standing import standing

__all__ = ["Backend", "Cluster", "Job", "Outcome", "Processes", "run_all", "standing"]
