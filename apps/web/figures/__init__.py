"""Figures: build a Plotly figure and its table from records. Reads no data and checks no rights."""

from apps.web.figures.figure import Choice, Column, Control, EndLabel, Figure, Mark, Swatch, Table

__all__ = ["Choice", "Column", "Control", "EndLabel", "Figure", "Mark", "Swatch", "Table"]
