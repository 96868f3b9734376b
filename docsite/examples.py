"""Files of docs/examples that a page shows whole."""

from __future__ import annotations

from apps.core.code_paths import REPOSITORY

EXAMPLES = REPOSITORY / "docs/examples"


def shown(path: str) -> str:
    """The file as a block of the page, with a link to it."""
    text = (EXAMPLES / path).read_text(encoding="utf-8").rstrip("\n").replace("\t", "    ")
    return f"[`{path.rpartition('/')[2]}`](examples/{path})\n\n```\n{text}\n```"
