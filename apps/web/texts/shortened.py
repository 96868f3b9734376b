"""Names that are cut to the room of a drawing."""

from __future__ import annotations


def shortened(text: str, most: int) -> str:
    """The text; of more than `most` characters, the first ones and an ellipsis in the last place."""
    return text if len(text) <= most else f"{text[: most - 1]}…"
