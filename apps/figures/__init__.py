"""Figures: numbers in, a Plotly figure, its table and its first drawing out. No data access and no rights in here."""

from apps.figures.figure import Choice, Column, Control, EndLabel, Figure, Mark, Swatch, Table

__all__ = ["Choice", "Column", "Control", "EndLabel", "Figure", "Mark", "Swatch", "Table"]
