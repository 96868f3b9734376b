"""Budgets of the roads: files, calls, depth and queries of the second request on a small site.

A road that exceeds its budget has become longer for every user. Shorten it, or raise the budget and say why beside it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from apps.accounts.actor import Actor
from apps.policies.changesets.drafts import open_draft
from tests.instants import AT
from tests.sign_in import sign_in
from tests.small_site import Site, record
from tests.worlds import fresh_process  # noqa: F401 - fixture

OURS = tuple(str(Path(__file__).parent.parent / name) + "/" for name in ("apps", "fairshare_web"))
HTMX = {"HX-Request": "true"}


@dataclass(frozen=True)
class Road:
    """What a request takes. depth: most of our functions that wait for one another."""

    files: int
    calls: int
    depth: int
    queries: int


# Aims of the design: frame 22, 230, 5; my priority 45, 1,500, 10; set_shares 35, 500, depth 25; a record 25, 400, 15.
# What a plug-in adds is in modules of its own, behind slots, and what slices share is in `web`: files, not calls.
# Of each: a file, two calls and a level for forms that are refused in place, a file and a call for compressed answers.
# Frame: a fifth of its calls are components of the help page itself.
# Whether a tab is shown takes a call where it has a condition, also that of the lab.
# set_shares draws the siblings in their rows, and the entry in the panel, too. 130 calls check the edit. Its page has
# three views, whose contexts are beside each other.
# A record: a column takes two calls to cross to the database, and three as an array: 37 columns. 16 queries, as index
# scans are switched on and off around the search for its earlier versions. Three calls note the first job that waited.
BUDGETS = {
    "frame": Road(27, 147, 21, 3),  # words of the glossary are explained where a page first uses them
    # Whom to ask about the share of a group over its target. Seven calls say where a scheduler doesn't use the rank and
    # what counts as on target at a level that is on it by its tolerance alone.
    "my priority": Road(86, 1323, 30, 9),
    "tree": Road(72, 1313, 24, 13),  # what a waiting run says has one place: runs/waiting
    # Files of schedulers and of the mapping say whether one is connected and anything maps accounts: a query each.
    # Four files and eleven calls give both pages one count of entries on target and one day since which an entry is off
    # it, and say that the usage of unmapped accounts is decayed.
    "overview": Road(96, 1222, 27, 23),
    "convergence": Road(67, 715, 26, 11),  # 80 calls draw what scripts drew before, in places that fit every width
    "set_shares": Road(60, 803, 27, 13),
    # The rules of a group are found once for all of its users. The writer makes numbers of the key, and checks values
    # and references, which each row would pay for as constraints. Two calls read two more columns of the source: with
    # them, a job whose end never comes counts no longer than it may run. Thirteen calls and a level find the rules that
    # an account needs: of thousands the others are not tried, and a preview takes a second instead of minutes.
    "usage record": Road(50, 618, 26, 17),  # makes the partition of its month
    "look-up": Road(17, 71, 14, 4),
}


class Trace:
    """Counts the calls of functions of this repository, in the thread that opened it."""

    def __init__(self) -> None:
        self.files: set[str] = set()
        self.calls = self.depth = 0
        self._open: list[FrameType] = []

    def __enter__(self) -> Trace:
        sys.setprofile(self._on_event)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _on_event(self, frame: FrameType, event: str, _argument: Any) -> None:
        if not frame.f_code.co_filename.startswith(OURS):
            return
        if event == "call":
            self.files.add(frame.f_code.co_filename)
            self.calls += 1
            self._open.append(frame)
            self.depth = max(self.depth, len(self._open))
        elif event == "return" and frame in self._open:
            self._open.remove(frame)


def road_of(ask: Callable[[], Any]) -> Road:
    """Of the second request: the first one loads code and fills caches."""
    for _ in range(2):
        with CaptureQueriesContext(connection) as queries, Trace() as trace:
            answer = ask()
        assert answer.status_code in (200, 201), answer.content
    return Road(len(trace.files), trace.calls, trace.depth, len(queries))


def requests_of(site: Site) -> dict[str, Callable[[], Any]]:
    """A request for each road."""
    alice, admin = (sign_in(Client(), user) for user in (site.alice, site.admin))
    scheduler = {"Authorization": f"Bearer {site.token('priorities:read', policy_slug='grid')}"}
    draft = open_draft(policy_slug="grid", at=AT, actor=Actor(user=site.admin, via="page"))
    entry = str(site.uid("/physics"))
    anybody = Client()
    jobs, versions = iter(range(900, 999)), count(draft.version)

    def set_shares() -> Any:
        version = next(versions)
        values = {"op": "set_shares", "entry": entry, "shares": str(70 + version), "mode": "shares", "version": version}
        return admin.post(f"/changes/{draft.pk}/edit/_operation", values, headers=HTMX)

    def push() -> Any:
        body = json.dumps([record(str(next(jobs)), "alice", "physics", 1, at=AT)])
        return admin.post("/api/v1/usage/records?source=cluster-a", body, content_type="application/json")

    return {
        "frame": lambda: alice.get("/help/user/"),
        "my priority": lambda: alice.get("/me/priority/"),
        "tree": lambda: admin.get("/policy/grid/"),
        "overview": lambda: admin.get("/"),
        "convergence": lambda: admin.get("/policy/grid/convergence/"),
        "set_shares": set_shares,
        "usage record": push,
        "look-up": lambda: anybody.get("/api/v1/policies/grid/priorities?account=bob", headers=scheduler),
    }


@pytest.mark.parametrize("name", BUDGETS)
def test_a_road_stays_within_its_budget(computed_site: Site, name: str) -> None:
    road, budget = road_of(requests_of(computed_site)[name]), BUDGETS[name]
    for what, allowed in vars(budget).items():
        assert getattr(road, what) <= allowed, f"{name}: {road}; its budget is {budget}"
