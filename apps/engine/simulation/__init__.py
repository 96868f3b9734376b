"""Discrete-event simulation of sites that all enforce one policy: pure functions, no clock, no files."""

from apps.engine.simulation.run import simulate

__all__ = ["simulate"]
