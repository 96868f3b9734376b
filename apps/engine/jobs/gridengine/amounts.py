"""A number with its calculation as text, so that both agree."""

from __future__ import annotations

from dataclasses import dataclass

from apps.engine.jobs.fields import plain


@dataclass(frozen=True)
class Amount:
    """A value and its calculation as text; words are in parentheses that begin with a letter."""

    value: float
    text: str

    def line(self, label: str) -> str:
        return f"{label} {plain(self.value)} = {self.text}"


NOTHING = Amount(0.0, "0")


def total_of(parts: list[Amount], otherwise: str) -> Amount:
    """The sum in the order given; `otherwise` says why it is empty."""
    if not parts:
        return Amount(0.0, f"0 ({otherwise})")
    value = 0.0
    for part in parts:
        value += part.value
    return Amount(value, " + ".join(part.text for part in parts))
