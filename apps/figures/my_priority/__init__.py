"""Figures of My priority."""
