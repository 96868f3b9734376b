"""The terms of the glossary, for pages that explain a word where they use it.

`docs/glossary.md` is the only place that defines them; its table "Our words" is read once.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from django.conf import settings
from django.utils.text import slugify

from apps.web.links.guides import address_of

_PAGE = "glossary.md"
_HEADING = "## Our words"
_ROW = re.compile(r"^\| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)
_LINK = re.compile(r"\[([^\[\]]++)\]\([^()]++\)")


@dataclass(frozen=True, slots=True)
class Term:
    """A word and its meaning, as text without markup. anchor: id of its row on the page of the glossary."""

    name: str
    meaning: str
    anchor: str

    @property
    def url(self) -> str:
        return address_of(f"{_PAGE}#{self.anchor}")


@cache
def terms() -> Mapping[str, Term]:
    """All terms of the product by name."""
    text = Path(settings.BASE_DIR, "docs", _PAGE).read_text(encoding="utf-8").partition(_HEADING)[2]
    rows = [(name, _plain(meaning)) for name, meaning in _ROW.findall(text) if name != "word"]
    return {name: Term(name, meaning, anchor_of(name)) for name, meaning in rows}


def anchor_of(name: str) -> str:
    return f"term-{slugify(name)}"


def _plain(markdown: str) -> str:
    """A cell without links and marks, as a sentence."""
    text = re.sub(r"[*`]", "", _LINK.sub(r"\1", markdown)).strip()
    return f"{text[:1].upper()}{text[1:]}."
