"""No link that a reader is shown is refused or leads nowhere: every page that a role may open is read for its links.

The pages are those of the rights matrix, which fails where a route is missing. Tokens open no page, so that theirs end
at the sign-in form.
"""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urldefrag, urljoin

import pytest

from tests.every_page.test_every_page import PAGES, is_opened
from tests.pages.page import Page
from tests.rights_world import World, cache_navigation_counts
from tests.worlds import fresh_process  # noqa: F401 - fixture

READERS = ("alice", "pia")  # a user and the manager of a group; the others where time is no matter
FURTHER = ("anonymous", "nobody", "ben", "vera", "dora", "admin", "narrow", "reader", "aside")
BASE = "http://testserver"


def links_of(html: str, address: str) -> Iterator[str]:
    """Addresses of this site that a page links to, without fragments."""
    for href in Page(html).each("a[href]", "href"):
        target = urldefrag(urljoin(BASE + address, href)).url
        if target.startswith(BASE + "/"):
            yield target.removeprefix(BASE)


def refused_links(world: World, actor: str) -> list[str]:
    """Links that the actor is shown and that answer 403 or 404, each with a page that shows it."""
    client, shown_on = world.client(actor), dict[str, str]()
    for row in filter(is_opened, PAGES):
        address = row.path.format(**world.objects)
        answer = client.get(address)
        if answer.status_code == 200 and answer["Content-Type"].startswith("text/html"):
            for link in links_of(answer.content.decode(), address):
                shown_on.setdefault(link, address)
    refused = []
    for link, address in shown_on.items():
        status = client.get(link).status_code
        if status in (403, 404):
            refused.append(f"{address} links to {link}: {status}")
    return refused


@pytest.mark.timeout(600)
@pytest.mark.parametrize("actor", [*READERS, *(pytest.param(actor, marks=pytest.mark.deep) for actor in FURTHER)])
def test_no_link_that_is_shown_is_refused(world: World, actor: str, monkeypatch: pytest.MonkeyPatch) -> None:
    cache_navigation_counts(monkeypatch)
    refused = refused_links(world, actor)
    assert not refused, "\n".join(refused)


def test_links_are_read_as_a_browser_resolves_them() -> None:
    html = (
        "<a href=/a/#b>A</a><a href='?c=1'>C</a><a href=#d>D</a><a href=https://e.example/>E</a>"
        "<a href=mailto:f@g>F</a>"
    )
    assert list(links_of(html, "/here/?at=3")) == ["/a/", "/here/?c=1", "/here/?at=3"]
