"""What a page is once an answer that it asks for by itself has come: as htmx swaps it in.

`hx-swap` is outerHTML or innerHTML, with or without `morph:`, whose result is the same elements; `hx-target` an id.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from django.test import Client
from selectolax.lexbor import LexborNode

from tests.pages.page import Page

# A page asks without a click: at intervals, once it is there or near the window, when something opens, when live news
# come. `[data-tag]` is the strip that follows a publication, whose script asks and morphs.
BY_ITSELF = re.compile(r"\b(every|load|near|toggle|live-\w+)\b")
HTMX = {"HX-Request": "true"}


@dataclass(frozen=True)
class Asking:
    """An element that asks by itself, and the address that it asks."""

    node: LexborNode
    url: str

    @property
    def is_poll(self) -> bool:
        return "every" in (self.node.attributes.get("hx-trigger") or "") or "data-src" in self.node.attributes


def asking_parts(page: Page) -> Iterator[Asking]:
    for node in page.all("[hx-get]"):
        if BY_ITSELF.search(node.attributes.get("hx-trigger") or ""):
            yield Asking(node, node.attributes["hx-get"] or "")
    for node in page.all("#followup[data-src]"):
        yield Asking(node, node.attributes["data-src"] or "")


def swap_in(page: Page, asking: Asking, answer: str) -> Page:
    """The page with this answer where the element wants it."""
    attributes = asking.node.attributes
    target = page.one(attributes["hx-target"] or "") if attributes.get("hx-target") else asking.node
    chosen = attributes.get("hx-select")
    fresh = "".join(node.html or "" for node in Page(answer).all(chosen)) if chosen else answer
    stale = target.html or ""
    assert page.html.count(stale) == 1, f"not one place: {stale[:160]}"
    if "data-src" not in attributes and "outerHTML" not in (attributes.get("hx-swap") or "innerHTML"):
        fresh = stale[: stale.index(">") + 1] + fresh + f"</{target.tag}>"
    return Page(page.html.replace(stale, fresh))


def after_answers(client: Client, page: Page, *, rounds: int = 2) -> Iterator[tuple[Asking, Page]]:
    """Each part that asks by itself, with the page once its answer has come too; polls ask in every round."""
    asked = set[str]()
    for _round in range(rounds):
        for url in [each.url for each in asking_parts(page) if each.is_poll or each.url not in asked]:
            asking = next((each for each in asking_parts(page) if each.url == url), None)
            if asking is None:
                continue  # an answer before it has taken its place
            answer = client.get(url, headers=HTMX)
            assert answer.status_code in (200, 204, 304), (url, answer.status_code, answer.content[:300])
            asked.add(url)
            if answer.status_code == 200:
                page = swap_in(page, asking, answer.content.decode())
            yield asking, page


def twice(page: Page) -> list[str]:
    """Ids that two elements have: those of a part within itself, too."""
    for node in page.all("template"):
        node.decompose()
    return [name for name, n in Counter(page.values("id")).items() if n > 1]
