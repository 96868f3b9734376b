"""Figures of *My priority*: rank, place, waiting times, forecast."""
