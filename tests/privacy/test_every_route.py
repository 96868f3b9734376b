"""Colleagues' numbers and names in everything that any route answers: complete by construction.

The routes are those of the rights matrix, which fails where one is missing. Here each of its requests is made again by
people who may not know what their colleagues used, now, as of a revision and as of an instant; and nothing of that may
be in any body or header. A manager who may know it makes them, too: he must find it, or these tests look for nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import timedelta
from itertools import islice
from typing import Any

import pytest
from django.conf import LazySettings
from django.test import Client

from apps.priorities.models import Snapshot
from apps.priorities.sentences import numbers
from apps.priorities.serving import store
from apps.web.shell import presentation
from tests.examples import first
from tests.instants import AT
from tests.privacy.known_site import ISSUER, JOBS
from tests.rights_world import REFUSALS, Row, World, cache_navigation_counts
from tests.test_idor_matrix import ROWS, answer_text, living_routes, wanted_of
from tests.worlds import fresh_process  # noqa: F401 - fixture

# Of whom each of them may know nothing; and whose names they may not read anywhere.
STRANGERS = {
    "alice": ("bob", "zorblax", "carol"),
    "vera": ("alice", "bob", "zorblax", "carol", "physics", "biology", "grid"),  # sees sums: of fewer than five, none
    "ben": ("alice", "bob", "zorblax"),
    "nobody": ("alice", "bob", "zorblax", "carol", "physics", "biology", "grid"),
}
NAMELESS = {"alice": ("zorblax", "carol"), "vera": ("zorblax", "carol"), "ben": ("zorblax",), "nobody": ("zorblax",)}
PATHS = {"physics": "/physics", "biology": "/biology", "grid": "/"}
PARTS = 8

EXEMPT = {
    "metrics": "for the site's own monitoring, by its address or a token made for it: no page of anybody's",
}


def test_every_route_is_tested_or_exempted_with_a_reason() -> None:
    asked = {row.route for row in ROWS if row.route not in EXEMPT}
    assert living_routes() == asked | EXEMPT.keys()
    assert all(EXEMPT.values())


@pytest.fixture
def known(known_world: World, settings: LazySettings) -> World:
    """Two days of snapshots, and colleagues whose numbers are theirs alone."""
    settings.FAIRSHARE_ISSUER = ISSUER
    store.poll()
    return known_world


def marks(name: str) -> set[str]:
    """How a page, a table or an answer would write what an entry used, now and the day before, or its part."""
    found: set[str] = set()
    newest = store.newest("grid")
    before = Snapshot.objects.filter(is_live=True).order_by("id").first()
    assert before is not None
    assert before.pk != newest.snapshot_id
    for snapshot in (newest, store.load_stored("grid", before.pk)):
        i, values = snapshot.tree.index_of_path(PATHS.get(name, f"/{JOBS.get(name, ('',))[0]}/{name}")), snapshot.values
        assert i is not None, name
        found |= {_digits(values.usage[i]), presentation.hours(float(values.usage[i]))}
        if i and values.actual[i] < 1:
            for share in (values.actual[i], snapshot.actual_global[i], values.priority[i]):
                found.add(_digits(abs(share)))
            found |= {numbers.percent(float(values.actual[i]), decimals=n) for n in (1, 4)}
            found |= {numbers.percent(float(snapshot.actual_global[i]), decimals=n) for n in (1, 4)}
    if name in JOBS:
        _, cores, run_s, _ = JOBS[name]
        found |= {str(cores * run_s), presentation.hours(cores * run_s), f"{cores * run_s / 3600:.6g}"}
    return found


def all_marks() -> Marks:
    return {name: _any_of(marks(name)) for name in STRANGERS["vera"]}


def _any_of(marks_of_one: set[str]) -> re.Pattern[str]:
    return re.compile(rf"(?<![\d.,])(?:{'|'.join(map(re.escape, sorted(marks_of_one)))})")


def _digits(value: float) -> str:
    """Enough of a number to know it by, as JSON and tables have it."""
    return f"{float(value):.17g}"[:9]


def _asked(world: World, row: Row, actor: str, instants: Instants) -> Iterator[tuple[str, Any]]:
    yield row.path, world.ask(row, actor)
    if row.method == "get":
        path = row.path.format(**world.objects)
        client: Client = world.client(actor)
        for at in instants.get(actor, ()):
            address = f"{path}{'&' if '?' in path else '?'}at={at}"
            yield address, client.get(address, headers=world._filled(row.headers))


# Checksums, keys and signatures have any digits by chance.
SEALS = re.compile(r"\b[0-9a-f]{64}\b|(?<![\w+/])[\w+/]{43,}={0,2}")


def _body_and_headers(answer: Any) -> str:
    collected = [answer_text(answer), *(f"{name}: {value}" for name, value in answer.headers.items())]
    return SEALS.sub("", "\n".join(collected))


Marks = dict[str, re.Pattern[str]]
Instants = dict[str, tuple[str, ...]]  # by actor: what else each route is asked as of
REVISION, INSTANT = "2", (AT - timedelta(hours=2)).isoformat().replace("+00:00", "Z")


@pytest.fixture(scope="session")
def is_deep(pytestconfig: pytest.Config) -> bool:
    return bool(pytestconfig.getoption("deep"))


def instants_of(row: Row, *, is_deep: bool) -> Instants:
    """Rows take turns: a member asks as of an instant, a viewer as of a revision; with --deep both ask both."""
    if is_deep:
        return {"alice": (REVISION, INSTANT), "vera": (REVISION, INSTANT)}
    return {"alice": (INSTANT,)} if ROWS.index(row) % 2 else {"vera": (REVISION,)}


def askers_of(row: Row, actors: Sequence[str], *, is_deep: bool) -> tuple[str, ...]:
    """Where time is short, those who are answered, by the rights matrix, and in turn one of those who are refused."""
    if is_deep:
        return tuple(actors)
    wanted = wanted_of(row)
    refused = [actor for actor in actors if int(wanted[actor]) in REFUSALS]
    in_turn = refused[ROWS.index(row) % len(refused)] if refused else ""
    return tuple(actor for actor in actors if actor not in refused or actor == in_turn)


# Numbers that are the same in every policy: a density of an operator is as large as zorblax's part.
BY_CHANCE = {"policy/<slug:policy>/operators/": "16.0\N{NO-BREAK SPACE}%"}


def _leaks(world: World, row: Row, actor: str, known_by: Marks, instants: Instants) -> list[str]:
    found = []
    for address, answer in _asked(world, row, actor, instants):
        result = _body_and_headers(answer)
        for name in STRANGERS[actor]:
            marked = next((one for one in known_by[name].finditer(result) if one[0] != BY_CHANCE.get(row.route)), None)
            if marked:
                found.append(f"{row.method} {address}: {actor} reads {marked[0]!r} of {name}")
        for name in NAMELESS[actor]:
            if name not in address and re.search(rf"\b{name}\b", result):
                found.append(f"{row.method} {address}: {actor} reads the name of {name}")
    return found


@pytest.mark.timeout(600)
@pytest.mark.parametrize("part", first(1, range(PARTS)))
def test_no_route_discloses_usage_or_names_of_colleagues(
    known: World, is_deep: bool, part: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache_navigation_counts(monkeypatch)
    rows = [row for row in ROWS if row.route not in EXEMPT and row.method == "get"][part::PARTS]
    known_by = all_marks()
    found = [
        line
        for row in rows
        for actor in askers_of(row, [*STRANGERS], is_deep=is_deep)
        for line in _leaks(known, row, actor, known_by, instants_of(row, is_deep=is_deep))
    ]
    assert not found, "\n".join(found)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("part", first(1, range(PARTS)))
def test_no_write_discloses_usage_or_names_of_colleagues(
    known: World, is_deep: bool, part: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache_navigation_counts(monkeypatch)
    rows = [row for row in ROWS if row.route not in EXEMPT and row.method != "get"][part::PARTS]
    known_by = all_marks()
    found = [
        line
        for row in rows
        for actor in askers_of(row, ("alice", "vera", "ben"), is_deep=is_deep)
        for line in _leaks(known, row, actor, known_by, {})
    ]
    assert not found, "\n".join(found)


@pytest.mark.timeout(600)
def test_permitted_users_read_the_numbers_on_many_routes(known: World) -> None:
    """Else the numbers looked for would be written in another way than pages write them."""
    of_bob = _any_of(marks("bob"))
    reads = (
        row.path
        for row in ROWS
        if row.method == "get"
        and row.route not in EXEMPT
        and "physics" in row.path + row.word
        and of_bob.search(_body_and_headers(known.ask(row, "pia")))
    )
    readers = [*islice(reads, 5)]
    assert len(readers) == 5, readers
