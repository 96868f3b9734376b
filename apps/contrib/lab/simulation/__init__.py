"""Discrete-event simulation of sites that all enforce one policy: pure functions, no clock, no files."""

from apps.contrib.lab.simulation.run import simulate
from apps.contrib.lab.simulation.scenario import MOST_REPORTS

__all__ = ["MOST_REPORTS", "simulate"]
