"""Figures of my priority."""
