"""Figures: build a Plotly figure, its table and its server-side drawing from records. Reads no data and checks no
rights.
"""

from apps.figures.figure import Choice, Column, Control, EndLabel, Figure, Mark, Swatch, Table

__all__ = ["Choice", "Column", "Control", "EndLabel", "Figure", "Mark", "Swatch", "Table"]
