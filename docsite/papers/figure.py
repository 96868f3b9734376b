"""One figure of a paper: what the paper shows, in our words, and what we compute, with a drawing where it is one."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Figure:
    """number: as the paper has it. said: the paper's statement in our words. ours: sentences with our numbers.

    where: page or command that shows it. drawing: SVG; empty where the figure is no plot.
    """

    paper: str
    number: str
    title: str
    said: str
    ours: str
    where: str
    drawing: str = ""

    @property
    def path(self) -> str:
        """Of the drawing, below docs/pictures."""
        return f"papers/{self.paper}-{self.number}.svg"
