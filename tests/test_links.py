"""No link that a reader is shown is refused or leads nowhere: every page that a role may open is read for its links.

The pages and their parts that come later are those of the rights matrix, which fails where a route is missing. A page
shows other links by its address (search lists actions where nothing is searched): so pages that links lead to are read
as well, until each name in a query was read once on each route. Tokens open no page, so that theirs end at the sign-in
form.

`make test` leaves out links that another one decides: those that differ from it in words of the query that name no
object, and for all but one reader what the matrix opens to everybody, such as the documentation.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator
from urllib.parse import parse_qs, parse_qsl, urldefrag, urljoin, urlsplit

import pytest
from django.urls import Resolver404, resolve

from tests.every_page.test_every_page import PAGES, is_opened
from tests.pages.page import Page
from tests.rights_world import HTMX, Row, World, cache_navigation_counts
from tests.test_idor_matrix import ROWS
from tests.worlds import fresh_process  # noqa: F401 - fixture

READERS = ("alice", "pia")  # a user and the manager of a group; the others where time is no matter
FURTHER = ("anonymous", "nobody", "ben", "vera", "dora", "admin", "narrow", "reader", "aside")
BASE = "http://testserver"
OBJECT = re.compile(r"/|[0-9a-f]{8}-[0-9a-f]{4}-")  # an address, a path, a uid
OPEN_TO_ALL = {row.route for row in ROWS if {*row.statuses.split()} == {"200"}}


def links_of(html: str, address: str) -> Iterator[str]:
    """Addresses of this site that a page links to, without fragments."""
    for href in Page(html).each("a[href]", "href"):
        target = urldefrag(urljoin(BASE + address, href)).url
        if target.startswith(BASE + "/"):
            yield target.removeprefix(BASE)


def is_part(row: Row) -> bool:
    """Whether a page loads it later as a part of itself."""
    return row.method == "get" and row.headers == HTMX


def kinds_of(address: str) -> set[tuple[str, str]]:
    """What decides which links a page has: its route, with each name in its query. Raises Resolver404."""
    parts = urlsplit(address)
    route = str(resolve(parts.path).route)
    return {(route, name) for name in ("", *parse_qs(parts.query, keep_blank_values=True))}


def decisive(links: Iterable[str], objects: Iterable[object], *, is_first_reader: bool) -> Iterator[str]:
    """Links without those that another one decides: see above."""
    named = {str(each) for each in objects}
    seen = set()
    for link in links:
        path, query = urlsplit(link).path, parse_qsl(urlsplit(link).query, keep_blank_values=True)
        words = tuple(sorted((name, value if value in named or OBJECT.match(value) else "") for name, value in query))
        if (path, words) not in seen and (is_first_reader or str(resolve(path).route) not in OPEN_TO_ALL):
            yield link
        seen.add((path, words))


def refused_links(world: World, actor: str, *, is_deep: bool) -> list[str]:
    """Links that the actor is shown and that answer 403 or 404, each with a page that shows it."""
    client, shown_on, statuses = world.client(actor), dict[str, str](), dict[str, int]()
    waiting = deque((row.path.format(**world.objects), row.headers) for row in ROWS if is_part(row))
    waiting.extend((row.path.format(**world.objects), {}) for row in PAGES if is_opened(row))
    read = set().union(*(kinds_of(address) for address, _headers in waiting))
    while waiting:
        address, headers = waiting.popleft()
        answer = client.get(address, headers=headers)
        if not headers:
            statuses[address] = answer.status_code
        if answer.status_code != 200 or not answer["Content-Type"].startswith("text/html"):
            continue
        for link in links_of(answer.content.decode(), address):
            if link in shown_on:
                continue
            shown_on[link] = address
            try:
                kinds = kinds_of(link)
            except Resolver404:
                statuses[link] = 404
                continue
            if kinds - read:
                read |= kinds
                waiting.append((link, {}))
    unread = [link for link in shown_on if link not in statuses]
    if not is_deep:
        unread = list(decisive(unread, world.objects.values(), is_first_reader=actor == READERS[0]))
    statuses |= {link: client.get(link).status_code for link in unread}
    return [
        f"{address} links to {link}: {statuses[link]}"
        for link, address in shown_on.items()
        if statuses.get(link) in (403, 404)
    ]


@pytest.mark.deep
@pytest.mark.timeout(600)
@pytest.mark.parametrize("actor", [*READERS, *FURTHER])
def test_no_link_that_is_shown_is_refused(
    world: World, actor: str, monkeypatch: pytest.MonkeyPatch, pytestconfig: pytest.Config
) -> None:
    cache_navigation_counts(monkeypatch)
    refused = refused_links(world, actor, is_deep=pytestconfig.getoption("deep"))
    assert not refused, "\n".join(refused)


def test_links_are_read_as_a_browser_resolves_them() -> None:
    html = (
        "<a href=/a/#b>A</a><a href='?c=1'>C</a><a href=#d>D</a><a href=https://e.example/>E</a>"
        "<a href=mailto:f@g>F</a>"
    )
    assert list(links_of(html, "/here/?at=3")) == ["/a/", "/here/?c=1", "/here/?at=3"]


def test_a_link_is_left_out_only_where_another_one_decides_it() -> None:
    sorts = ["/policy/grid/?sort=name", "/policy/grid/?sort=shares", "/policy/grid/?page=2"]
    entries = ["/policy/grid/?under=17", "/policy/grid/?under=18", "/search/?q=/physics", "/search/?q=/biology"]
    links = [*sorts, *entries, "/healthz"]
    assert "healthz" in OPEN_TO_ALL
    first = list(decisive(links, [17, 18], is_first_reader=True))
    assert first == [sorts[0], sorts[2], *entries, "/healthz"]
    assert list(decisive(links, [17, 18], is_first_reader=False)) == first[:-1]
