"""A page as tests read it: by test ids, keys, states and numbers, never by a sentence, whose wording may change.

`data-testid` names what carries a fact, `data-key` the key of a sentence, `data-state` a state, `data-value` a raw
number. What people read is compared as a whole in one place: the snapshots of texts.
"""

from __future__ import annotations

import re
from typing import Any

from django.test import Client
from selectolax.lexbor import LexborHTMLParser, LexborNode


class Page:
    """The HTML of one answer."""

    def __init__(self, html: str) -> None:
        self._tree = LexborHTMLParser(html)

    @property
    def html(self) -> str:
        return self._tree.html or ""

    def all(self, selector: str) -> list[LexborNode]:
        return self._tree.css(selector)

    def one(self, selector: str) -> LexborNode:
        found = self.all(selector)
        assert len(found) == 1, f"{len(found)} elements match {selector}"
        return found[0]

    def has(self, selector: str) -> bool:
        return bool(self.all(selector))

    def item(self, testid: str) -> LexborNode:
        return self.one(f'[data-testid="{testid}"]')

    def items(self, testid: str) -> list[LexborNode]:
        return self.all(f'[data-testid="{testid}"]')

    def text(self, selector: str) -> str:
        """What people read in the one element: for names and numbers that the test itself put there."""
        return text_of(self.one(selector))

    def texts(self, selector: str) -> list[str]:
        return [text_of(node) for node in self.all(selector)]

    def each(self, selector: str, attribute: str) -> list[str]:
        """An attribute of each element that matches; one without it counts as empty."""
        return [node.attributes.get(attribute) or "" for node in self.all(selector)]

    def values(self, attribute: str, within: str = "") -> list[str]:
        """The values of an attribute, in the page's order: `values("data-key")`, `values("href", "#others")`."""
        return [node.attributes[attribute] or "" for node in self.all(f"{within} [{attribute}]".strip())]

    def error_codes(self) -> list[str]:
        """Codes of what was refused, as `data-code` carries them."""
        return self.values("data-code")


def text_of(node: LexborNode | None) -> str:
    """The text of an element, which must be there, with each run of blanks, hard ones too, as one."""
    assert node is not None
    return " ".join(node.text(separator=" ").split())


def names_in(sentence: str, *names: str) -> bool:
    """Whether a sentence names all of this, in this order; what it says about them is its own affair."""
    return re.search(".*".join(rf"(?<!\w){re.escape(name)}(?!\w)" for name in names), sentence) is not None


def read(answer: Any, status: int = 200) -> Page:
    assert answer.status_code == status, (answer.status_code, answer.content[:500])
    return Page(answer.content.decode())


def with_cards(client: Client, page: Page) -> Page:
    """The page as it is once the cards that follow it have come."""
    html = page.html
    for card in page.all("[data-card]"):
        answer = client.get(card.attributes["hx-get"] or "", headers={"HX-Request": "true"})
        assert answer.status_code in (200, 422), (card.html, answer.content[:500])
        pending = card.html or ""
        opening = pending[: pending.index(">") + 1]
        html = html.replace(pending, f"{opening}{answer.content.decode()}</{card.tag}>")
    return Page(html)
