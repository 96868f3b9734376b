"""Budgets of the roads: files, calls, depth and queries of the second request on a small site.

A road that exceeds its budget has become longer for every user. Shorten it, or raise the budget and say why beside it.
"""

from __future__ import annotations

import gc
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
from apps.priorities.serving import store
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
# An answer of REST says whether it is of a deprecated route: a file and a call. Ten of the tree's calls read a policy
# whose usage may be reset by the calendar.
# Whether a tab is shown takes a call where it has a condition, also that of the lab.
# set_shares draws the siblings in their rows, and the entry in the panel, too. 100 calls check the edit. Its page has
# three views, whose contexts are beside each other.
# A record: 22 columns, and 20 arrays as parameters, take 77 calls. 16 queries, as index scans are switched on and off
# around the search for its earlier versions. Three calls note the first job that waited.
# Modules of two ideas became two, each found by its name: a file or two of overview, convergence and record.
# A metric and a unit may weight resources by kind (H100 and T4 apart): a file of each road, two of a record, whose
# kinds are stored, and a call or two for each weight. The inbox counts requests for hours, too.
# A file, and two calls for each template that a view renders, free what a page shows once it is written: 620 MB of a
# process that showed pages of a million entries.
# Whether a share is on its target is one file of five roads, engine/target_state, in place of nine formulas.
BUDGETS = {
    "frame": Road(25, 148, 20, 3),  # words of the glossary are explained where a page first uses them
    # Whom to ask about the share of a group over its target. Seven calls say where a scheduler doesn't use the rank and
    # what counts as on target at a level that is on it by its tolerance alone. Its forecast comes with the cards.
    # Two calls ask the plug-in that says when jobs start.
    # Nine calls name the tolerance where it makes a wide difference count as on target.
    "my priority": Road(71, 1024, 26, 8),
    # Six files, seventeen calls and a query say beside the ranks which schedulers don't use them.
    # A file and seven calls name drafts in both menus by what their edits do.
    "tree": Road(79, 1347, 23, 14),  # what a waiting run says has one place: runs/waiting; so have states of rows
    # Files of schedulers and of the mapping say whether one is connected and anything maps accounts: a query each.
    # Four files and eleven calls give both pages one count of entries on target and one day since which an entry is off
    # it, and say that the usage of unmapped accounts is decayed.
    # Five calls more say an allocation's unit.
    # One file and three calls more load allocations once: an entry with 10,000 of them opens in a sixth of the time.
    # Three calls ask the plug-in that says when jobs start.
    # A file draws the fair line.
    "overview": Road(100, 1270, 26, 23),  # four calls name wide tolerances
    # 80 calls draw what scripts drew before, in places that fit every width. A file and nine calls ask for the fair
    # line and the heat map. One call more links the root, which a lead's page couldn't reach.
    "convergence": Road(70, 712, 24, 11),
    # Sixteen calls take each row's state, and the targets that its usage would be on, from the one rule.
    # A file and thirty calls name the draft by what its edits do, without a query.
    "set_shares": Road(56, 687, 25, 13),
    # The writer makes numbers of the key, and checks values and references, as constraints would for each row.
    # Whether its account is mapped is read from the snapshot in memory, while that has the current tree and mapping.
    # Two files and six calls more tell jobs of one number and second apart, by the name that Slurm gives each run.
    # One file more numbers the ids of a batch in one pass: 3 ms instead of 15 for 188,041 records.
    "usage record": Road(52, 443, 21, 16),  # makes the partition of its month
    "look-up": Road(18, 71, 14, 4),
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
    """Of the second request: the first one loads code and fills caches.

    Trees that earlier tests left are collected before: their finalizers would count as calls of the request.
    """
    gc.collect()
    gc.disable()
    try:
        for _ in range(2):
            with CaptureQueriesContext(connection) as queries, Trace() as trace:
                answer = ask()
            assert answer.status_code in (200, 201), answer.content
    finally:
        gc.enable()
    return Road(len(trace.files), trace.calls, trace.depth, len(queries))


def requests_of(site: Site) -> dict[str, Callable[[], Any]]:
    """A request for each road."""
    alice, admin = (sign_in(Client(), user) for user in (site.alice, site.admin))
    scheduler = {"Authorization": f"Bearer {site.token('priorities:read', policy_slug='grid')}"}
    draft = open_draft(policy_slug="grid", at=AT, actor=Actor(user=site.admin, via="page"))
    entry = str(site.uid("/physics"))
    anybody = Client()
    jobs, versions = iter(range(900, 999)), count(draft.version)
    store.state()  # as the thread of a web process does: it has the newest snapshots in memory

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
