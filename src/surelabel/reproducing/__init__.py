"""Many trials at once: on this machine or on a cluster, each in its own run directory; and the tables that they fill."""

from surelabel.reproducing.backend import Backend, Job
from surelabel.reproducing.cluster import Cluster
from surelabel.reproducing.local import Processes
from surelabel.reproducing.outcome import Outcome
from surelabel.reproducing.running import run_all
from surelabel.reproducing.standing import standing

__all__ = ["Backend", "Cluster", "Job", "Outcome", "Processes", "run_all", "standing"]
