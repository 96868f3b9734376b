"""A reader of sums requests everything at every instant, and calculates: sums, differences, days, siblings.

For five days a colleague runs now alone, now among others. Every answer is written as an equation in what each
member used in each hour; linear algebra then says whether any combination of shown numbers is one member's alone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any

import numpy as np
import pytest
from django.test import Client

from apps.accounts.actor import SYSTEM, Actor
from apps.accounts.models import Account, User
from apps.mapping.rules.rule import Rule
from apps.mapping.services import set_rules
from apps.policies.models import Policy
from apps.policies.recompute_runs import queue_recompute
from apps.policies.services import make_policy, publish_document
from apps.policies.tree.stored import load_tree
from apps.priorities.selectors import open_view
from apps.priorities.serving import store
from apps.runs.services import work_run_now
from apps.series.runs import enqueue_series_build
from apps.series.stored_series import load_children, load_series
from apps.series.visible_days import as_visible, visible_days
from apps.usage.models import Source
from apps.usage.parsers.base import RecordRow
from apps.usage.records.ingest import ingest_batch
from tests.grants import make_grant
from tests.plugin_parts import added

FROM = datetime(2026, 11, 9, tzinfo=UTC)
N_DAYS = 5
HALF_LIFE_S = 7 * 86_400.0
GROUPS = {"physics": 8, "chem": 7, "tiny": 2}
ALONE = "physics0"  # runs alone on the third day, and some hours of the second
CORES_ALONE, RUN_S = 34, 3_457  # of the hours alone: a number to be known by
LOOKS = (6, 23)  # hours of each day at which everything is asked for


@dataclass
class SentenceWorld:
    """One number that was shown: of an entry, as of an instant."""

    path: str
    as_of: datetime
    usage: float


@dataclass
class Attack:
    """What one reader has gathered."""

    user: User
    world: dict[tuple[str, datetime], SentenceWorld] = field(default_factory=dict)
    numbers: set[float] = field(default_factory=set)

    @cached_property
    def _client(self) -> Client:
        client = Client()
        client.force_login(self.user, backend="django.contrib.auth.backends.ModelBackend")
        return client

    def look(self, at: datetime) -> None:
        for address in _addresses(at):
            answer = self._client.get(address)
            text = (answer.getvalue() if answer.streaming else answer.content).decode()
            self.numbers |= {float(found) for found in re.findall(r"(?<![\w.-])\d{3,}(?:\.\d+)?(?![\w-])", text)}
            if "/tree" in address and answer.status_code == 200:
                self._note(json.loads(text))

    def _note(self, tree: dict[str, Any]) -> None:
        if tree["as_of"] is None:
            return
        as_of, waiting = datetime.fromisoformat(tree["as_of"]), [tree]
        while waiting:
            entry = waiting.pop()
            waiting += entry["children"]
            if entry["suppressed"]:
                assert entry["usage_core_s"] is None
                assert entry["actual"] is entry["priority"] is entry["rank"] is entry["factor"] is None
                assert entry["state"] == "unknown"
            elif entry["usage_core_s"] is not None:
                self.world[entry["path"], as_of] = SentenceWorld(entry["path"], as_of, entry["usage_core_s"])


def _addresses(at: datetime) -> Iterator[str]:
    """Everything with numbers of entries, now, as of earlier instants, and by revision."""
    yield from ("/api/v1/policies/p/tree?depth=9", "/", "/policy/p/", "/api/v1/policies/p/tree?depth=9&at=2")
    for hours in (1, 18, 25):
        then = at - timedelta(hours=hours)
        if then > FROM:
            yield f"/api/v1/policies/p/tree?depth=9&at={then.isoformat().replace('+00:00', 'Z')}"
    yield from (path.format(day=at.date()) for path in added("privacy", "ADDRESSES"))
    tree = load_tree(Policy.objects.get(slug="p"))
    yield f"/policy/p/n/{tree.uuid(tree.index_of_path('/physics') or 0)}/physics/"


@dataclass
class Life:
    """Five days, with each user's usage by hour."""

    vera: User
    admin: User
    hours: dict[tuple[str, datetime], float] = field(default_factory=dict)  # (user, the end of the hour) → core-s


@pytest.fixture
def life(db: None) -> Life:
    vera, admin = User.objects.create_user("vera"), User.objects.create_superuser("admin")
    make_policy(slug="p", name="P", at=FROM, actor=SYSTEM)
    children = [
        {"name": group, "kind": "vo", "children": [{"name": f"{group}{k}", "kind": "user"} for k in range(n)]}
        for group, n in GROUPS.items()
    ]
    root = {"name": "p", "kind": "root", "children": children}
    publish_document(policy_slug="p", document={"root": root}, reason="first", at=FROM, actor=SYSTEM)
    policy = Policy.objects.get(slug="p")
    make_grant(vera, load_tree(policy).uuid(0), "viewer", policy=policy, at=FROM, reason="sums")
    everywhere = Rule(kind="glob", target_uid=load_tree(policy).uuid(0), suffix="/{group}/{user}")
    set_rules(policy_slug="p", rules=[everywhere], at=FROM, actor=SYSTEM)
    Source.objects.create(slug="c", name="C", namespace="c", created_at=FROM)
    return Life(vera, admin)


def _run(life: Life, user: str, start: datetime, run_s: int, cores: int) -> None:
    group = user.rstrip("0123456789")
    end = start + timedelta(seconds=run_s)
    row = RecordRow(job=f"{user}-{start:%d%H}", user=user, group=group, start_at=start, end_at=end, cpus=cores)
    ingest_batch(source=Source.objects.get(slug="c"), rows=[row], at=end)
    hour = start.replace(minute=0)
    while hour < end:
        part = (min(end, hour + timedelta(hours=1)) - max(start, hour)).total_seconds()
        key = (user, hour + timedelta(hours=1))
        life.hours[key] = life.hours.get(key, 0.0) + part * cores
        hour += timedelta(hours=1)


def _live(life: Life, monkeypatch: pytest.MonkeyPatch, *readers: Attack) -> None:
    users = [f"{group}{k}" for group, n in GROUPS.items() for k in range(n)]
    for day in range(N_DAYS):
        begin = FROM + timedelta(days=day)
        for hour in LOOKS:
            if hour == LOOKS[0] and day != 2:
                for at, user in enumerate(users):
                    _run(life, user, begin + timedelta(hours=2), 3_600, 7 + at % 3)
            if hour == LOOKS[-1] and day in (1, 2):
                _run(life, ALONE, begin + timedelta(hours=8), RUN_S, CORES_ALONE)
            at_ = begin + timedelta(hours=hour, minutes=50)
            monkeypatch.setenv("FAIRSHARE_CLOCK", at_.isoformat())
            work_run_now(queue_recompute(Policy.objects.get(slug="p"), at=at_).pk)
            store.poll()
            for reader in readers:
                reader.look(at_)


def _equations(life: Life, world: list[SentenceWorld]) -> tuple[np.ndarray, list[tuple[str, datetime]]]:
    """(numbers, hours of users): what each shown number is made of."""
    columns = sorted(life.hours)
    rows = []
    for one in world:
        row = []
        for user, end in columns:
            group = user.rstrip("0123456789")
            is_below = one.path in ("/", f"/{group}", f"/{group}/{user}")
            age_s = max((one.as_of - end).total_seconds(), 0.0)
            counts = is_below and end - timedelta(hours=1) < one.as_of
            row.append(2.0 ** (-age_s / HALF_LIFE_S) if counts else 0.0)
        assert np.dot(row, [life.hours[key] for key in columns]) == pytest.approx(one.usage, rel=1e-9)
        rows.append(row)
    return np.array(rows).reshape(len(rows), len(columns)), columns


def _recovered(life: Life, world: list[SentenceWorld]) -> set[str]:
    """Members whose usage follows alone from some combination of shown numbers."""
    equations, columns = _equations(life, world)
    if not len(equations):
        return set()
    whole = np.linalg.matrix_rank(equations)
    return {
        user
        for user in {user for user, _ in columns}
        if np.linalg.matrix_rank(equations[:, [at for at, key in enumerate(columns) if key[0] != user]]) < whole
    }


@pytest.mark.deep
@pytest.mark.timeout(600)
def test_no_combination_of_published_numbers_reveals_one_member(life: Life, monkeypatch: pytest.MonkeyPatch) -> None:
    vera, admin = Attack(life.vera), Attack(life.admin)
    _live(life, monkeypatch, vera, admin)
    world = list(vera.world.values())
    days = {one.as_of.date() for one in world if one.path == "/physics"}
    assert days == {FROM.date(), (FROM + timedelta(days=1)).date(), (FROM + timedelta(days=3)).date()}
    assert {one.path for one in world} == {"/", "/physics"}  # chem goes with tiny, which would follow else
    assert all(one.as_of.hour == LOOKS[-1] for one in world)
    assert not _recovered(life, world)
    groups = [one for one in admin.world.values() if one.path.count("/") == 1]
    assert ALONE in _recovered(life, groups), "sums of every hour would give it away"
    secret = float(CORES_ALONE * RUN_S)
    assert _is_a_difference(secret, admin.numbers)
    assert not _is_a_difference(secret, vera.numbers)


def _is_a_difference(secret: float, numbers: set[float]) -> bool:
    """Of one and another aged by some hours, in core-seconds or core-hours; itself included."""
    aged = 2.0 ** (-np.arange(0, N_DAYS * 24 + 1) * 3600 / HALF_LIFE_S)
    wanted = np.sort(secret * 2.0 ** (-np.arange(0, 2 * 144) * 600 / HALF_LIFE_S))  # every ten minutes of two days
    values = np.array(sorted({0.0} | {each for each in numbers if 1_000 < each < 1e9}))
    for value in values:
        for unit in (1.0, 3600.0):
            found = (value - values[:, None] * aged).ravel() * unit
            at = np.searchsorted(wanted, found)
            near = np.minimum(
                np.abs(wanted[np.minimum(at, len(wanted) - 1)] - found), np.abs(wanted[np.maximum(at - 1, 0)] - found)
            )
            if (near < 2e-9 * secret).any():
                return True
    return False


@pytest.mark.timeout(600)
def test_days_of_the_series_are_suppressed_by_the_same_rule(life: Life, monkeypatch: pytest.MonkeyPatch) -> None:
    _live(life, monkeypatch)
    policy, end = Policy.objects.get(slug="p"), FROM + timedelta(days=N_DAYS, hours=2)
    monkeypatch.setenv("FAIRSHARE_CLOCK", end.isoformat())
    work_run_now(enqueue_series_build(policy, at=end).pk)
    tree = load_tree(policy)
    span = {"from_on": FROM.date(), "to_on": (FROM + timedelta(days=N_DAYS - 1)).date()}
    groups = load_children(policy, tree.uuid(0), **span)
    assert len(groups.days.on) == N_DAYS
    world = _visible_days(life.vera, groups)
    whole = [True, True, False, True, True]
    assert world == {"chem": [False] * N_DAYS, "physics": whole, "tiny": [False] * N_DAYS}
    assert _visible_days(life.admin, groups) == dict.fromkeys(GROUPS, [True] * N_DAYS)
    root = load_series(policy, [tree.uuid(0)], **span)
    assert visible_days(root, view=open_view(policy_slug="p", actor=Actor(user=life.vera, via="page"))).tolist() == [
        whole
    ]
    member = User.objects.create_user("member")
    Account.objects.filter(user_name=ALONE).update(person=member)
    assert _visible_days(member, groups)["physics"] == [True] * N_DAYS, "the own group always"
    coarse, _ = as_visible(groups, view=open_view(policy_slug="p", actor=Actor(user=life.vera, via="page")))
    assert all(len(f"{value:.10g}".rstrip("0").replace(".", "").lstrip("0")) <= 2 for value in coarse.used.ravel())
    exact, _ = as_visible(groups, view=open_view(policy_slug="p", actor=Actor(user=life.admin, via="page")))
    assert exact is groups


def _visible_days(user: User, series: Any) -> dict[str, list[bool]]:
    view = open_view(policy_slug="p", actor=Actor(user=user, via="page"))
    names = [view.tree.name[view.tree.index_of_uid(uid) or 0] for uid in series.uids]
    return dict(zip(names, visible_days(series, view=view).tolist(), strict=True))
