"""docs/pages.md: each page of the interface with its guide and its routes of REST."""

from __future__ import annotations

from apps.dashboard.help.guides import GUIDES
from docsite.markdown import code, table


def page() -> str:
    """A row for each feature."""
    rows = []
    for guide in GUIDES:
        reads = ", ".join(f"[{text}]({place})" for text, place in guide.reads)
        rows.append((guide.pages, reads, ", ".join(map(code, guide.rest)) or "–"))
    return table(("page", "guide", "REST, below `/api/v1/`"), rows)
