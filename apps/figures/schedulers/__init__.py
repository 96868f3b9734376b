"""Figures of schedulers."""
