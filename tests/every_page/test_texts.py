"""What people read on each page, as a whole: the one place in which a sentence of the interface is compared.

A change of wording is read here as a difference and taken over with --snapshot-update; other tests ask for keys,
states and numbers.
"""

from __future__ import annotations

import re

import pytest
from syrupy.assertion import SnapshotAssertion

from tests.every_page.markup import findings
from tests.every_page.test_every_page import PARTS, pages_of
from tests.pages.page import Page
from tests.rights_world import World
from tests.worlds import fresh_process  # noqa: F401 - fixture

# Ports, uids, keys, secrets and the beginnings of them, revisions, what took how long, and when a session ends.
DIFFERING = re.compile(
    r"(?<=127\.0\.0\.1:)\d+|\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b|\b[0-9a-f]{4}…[0-9a-f]{4}\b"
    r"|\b(?:[0-9a-f]{16}|[0-9a-f]{64})\b|\b([A-Z2-7]{4} ){7}[A-Z2-7]{4}\b|\bfsh_\w+…\w+|\b\d+(?=\sms\b)"
    r"|\b(?:[0-9a-f]{4}\n){15}[0-9a-f]{4}\b|\([0-9a-f]{12}\+?\)|(?<=\btook )[\d.]+|[^\n]+(?=\nthis session)"
)
UNREAD = "script, style, template, svg, [hidden], .fig-table tbody"  # numbers of figures have tests of their own


def lines_of(html: str, *places: str) -> str:
    """The text in these places of a page, a line for each piece, without what differs from one run to the next."""
    page = Page(html)
    for node in page.all(UNREAD):
        node.decompose()
    pieces = [page.one(place).text(separator="\n") for place in places]
    lines = [" ".join(line.split()) for piece in pieces for line in piece.splitlines()]
    return DIFFERING.sub("...", "\n".join(line for line in lines if line))


@pytest.mark.product
@pytest.mark.parametrize("part", range(PARTS))
def test_texts_of_a_page(world: World, part: int, snapshot: SnapshotAssertion) -> None:
    client = world.client("admin")
    for name, path, _row in pages_of(world, part):
        answer = client.get(path)
        assert answer.status_code == 200, path
        html = answer.content.decode()
        assert findings(html) == [], path
        assert lines_of(html, "title", "main") == snapshot(name=name)
        for form in Page(html).all("main form"):  # each works without scripts
            assert {"action", "method"} & form.attributes.keys(), (path, form.html)


@pytest.mark.product
def test_texts_around_every_page(world: World, snapshot: SnapshotAssertion) -> None:
    html = world.client("admin").get("/").content.decode()
    around = Page(html)
    around.one("main").decompose()
    assert lines_of(around.html, "body") == snapshot


def test_markup_errors_are_found() -> None:
    html = (
        "<h2>Zero</h2>"
        "<h1>One</h1><h1>Two</h1><p id=a></p><p id=a></p><a href=/><svg></svg></a><button> </button><input id=b>"
        "<label for=c>C</label><img src=x><p aria-describedby='a d'></p>"
        "<a href=/ aria-label=Home></a><label>D <input></label><template><h1>Three</h1></template>"
    )
    assert [each.partition(":")[0] for each in findings(html)] == [
        "2 headings of the page",
        "a heading before that of the page",
        "id of two elements",
        "without a name",
        "without a name",
        "without a label",
        "without a text",
        "aria-describedby names no element",
        "for names no element",
    ]
