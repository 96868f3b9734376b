"""What a page's HTML alone shows of its accessibility, without a browser: names, references, one heading of the page.

axe finds more (contrast, focus, scripts): tests/every_page/test_every_page.py.
"""

from __future__ import annotations

from collections import Counter

from selectolax.lexbor import LexborNode

from tests.pages.page import Page, text_of

FIELDS = "input:not([type=hidden], [type=submit], [type=button], [type=image], [hidden]), select, textarea"
# A script names those of `data-on` by their state.
CONTROLS = "a[href], button:not([data-on], [aria-hidden=true]), summary"
NOT_SHOWN = "dialog:not([open])"  # filled when it opens
NAMED = ("aria-label", "aria-labelledby", "title")
REFERRING = ("aria-labelledby", "aria-describedby", "for")


def findings(html: str) -> list[str]:
    page = Page(html)
    for node in page.all("template"):
        node.decompose()
    ids = Counter(page.values("id"))
    for node in page.all(NOT_SHOWN):
        node.decompose()
    found = [f"{len(page.all('h1'))} headings of the page"] if len(page.all("h1")) != 1 else []
    first = next(iter(page.all("h1, h2, h3, h4")), None)
    found += ["a heading before that of the page"] if first is not None and first.tag != "h1" else []
    found += [f"id of two elements: {each}" for each, count in ids.items() if count > 1]
    found += [f"without a name: {_shown(node)}" for node in page.all(CONTROLS) if not _says(node)]
    found += [f"without a label: {_shown(node)}" for node in page.all(FIELDS) if not _is_labelled(page, node)]
    found += [f"without a text: {_shown(node)}" for node in page.all("img:not([alt])")]
    for name in REFERRING:
        wanted = {each for value in page.values(name) for each in value.split()}
        found += [f"{name} names no element: {each}" for each in sorted(wanted - ids.keys())]
    return found


def _says(node: LexborNode) -> bool:
    """Text, a name, or a picture with one."""
    return bool(text_of(node)) or _is_named(node) or any(map(_is_named, node.css("svg"))) or bool(node.css("img[alt]"))


def _is_named(node: LexborNode) -> bool:
    return any(node.attributes.get(name) for name in NAMED)


def _is_labelled(page: Page, node: LexborNode) -> bool:
    own = node.attributes.get("id")
    above = node.parent
    while above is not None and above.tag != "label":
        above = above.parent
    return _is_named(node) or above is not None or bool(own and page.has(f'label[for="{own}"]'))


def _shown(node: LexborNode) -> str:
    return (node.html or "")[:160]
