"""Experiments: simulations of a policy beside variants of it, kept with their inputs and results."""
