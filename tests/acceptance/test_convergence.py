"""Convergence of a real grid as REST, table and page report it, against the raw lines of the log alone.

Courses of entries and sentences are worked out here once more, with lists and loops, from what the log's lines say.
"""

from __future__ import annotations

import csv
from collections import Counter
from dataclasses import dataclass
from datetime import date
from html import unescape
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from apps.accounts.actor import COMMAND
from apps.accounts.services import make_user
from apps.core import clock
from apps.runs.services import work_run_now
from apps.series import runs
from tests.acceptance import lcg_by_hand
from tests.acceptance.lcg_by_hand import DAYS, POINTS, RELATIVE, Raw, decayed_at_end_of, targets, used_on
from tests.oracles import convergence as twin

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(300)]

ENDS = [date(2005, 11, 24), date(2005, 11, 27), date(2005, 11, 30), date(2005, 12, 5)]


@dataclass(frozen=True)
class Course:
    """State of one entry on the last day: its trend, since when, and points over (positive) or under."""

    does: str
    since: date | None = None
    points: float = 0.0
    is_alone: bool = False


@pytest.fixture
def raw(traces_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Raw:
    found = lcg_by_hand.put_in_place(traces_dir, monkeypatch)
    (asked,) = runs.build_series_stale(at=clock.now())
    assert work_run_now(asked).state == "succeeded"
    return found


@pytest.fixture
def client() -> Client:
    user, _ = make_user(username="root", email="", password="a long enough phrase", is_admin=True, actor=COMMAND)
    client = Client()
    client.force_login(user, backend="django.contrib.auth.backends.ModelBackend")
    return client


class Reckoned:
    """Shares of all groups on the days up to one, and everything that is said of them."""

    def __init__(self, raw: Raw, view: str, until: date) -> None:
        self.names = raw.groups
        self.on = [on for on in DAYS if on <= until]
        hours = {name: raw.of_group(name) for name in self.names}
        used = {name: [float(used_on(hours[name], on)) for on in self.on] for name in self.names}
        counted = used
        if view == "decayed":
            counted = {name: [decayed_at_end_of(hours[name], on) for on in self.on] for name in self.names}
        whole = [sum(counted[name][day] for name in self.names) for day in range(len(self.on))]
        promised = targets(raw)
        self.target = {name: promised[name][: len(self.on)] for name in self.names}
        self.actual = {
            name: [own / all_of if all_of > 0 else None for own, all_of in zip(counted[name], whole, strict=True)]
            for name in self.names
        }
        self.band = {name: [twin.tolerance(t, RELATIVE, POINTS) for t in self.target[name]] for name in self.names}
        self.state = {
            name: [
                ""
                if a is None
                else twin.state(actual=a, target=t, band=b, used=u, waited=0, knows=False, competes=True).lower()
                for a, t, b, u in zip(self.actual[name], self.target[name], self.band[name], used[name], strict=True)
            ]
            for name in self.names
        }

    def course(self, name: str) -> Course:
        actual, target, band, state = self.actual[name], self.target[name], self.band[name], self.state[name]
        if actual[-1] is None:
            return Course("unknown")
        points = (actual[-1] - target[-1]) * 100
        if state[-1] in ("on", "no_demand"):
            return Course("on" if state[-1] == "on" else "idle", None, points)
        away = {day: abs(a - t) for day, (a, t) in enumerate(zip(actual, target, strict=True)) if a is not None}
        inside = [day for day in away if away[day] <= band[day] * (1 + 1e-9)]
        first = max(inside) if inside else min(away)
        since_then = [day for day in away if day >= first]
        nearest = max(day for day in since_then if away[day] == min(away[one] for one in since_then))
        last = max(away)
        if away[last] - away[nearest] > band[-1] / 2 and away[last] >= 0.9 * max(
            away[day] for day in away if day >= nearest
        ):
            others = [self.state[one][nearest:] for one in self.names if one != name]
            is_alone = points > 0 and all(each in ("no_demand", "") for row in others for each in row)
            return Course("moves_away", self.on[nearest], points, is_alone)
        if away[last] < 0.9 * max(away[day] for day in since_then):
            return Course("approaching", self.on[first], points)
        return Course("steady", self.on[first], points)

    def verdict(self) -> list[tuple[str, dict[str, Any]]]:
        courses = {name: self.course(name) for name in self.names}
        n_of = Counter(one.does for one in courses.values())
        n_known = len(courses) - n_of["unknown"]
        if not n_known:
            return [("nobody_used", {})]
        n_fine = n_of["on"] + n_of["idle"]
        collected: list[tuple[str, dict[str, Any]]] = [("none_at_target", {"of": n_known})]
        parts = {"n_on": n_of["on"], "n_idle": n_of["idle"]}
        if n_fine:
            collected = [("at_target_or_idle", {"n": n_fine, "of": n_known, **parts})]
        if n_fine == n_known:
            collected = [("all_at_target_or_idle", {"n": n_known, **parts})]
        leaving = sorted(
            (name for name in courses if courses[name].does == "moves_away"),
            key=lambda name: -abs(courses[name].points),
        )
        for name in leaving[:2]:
            one = courses[name]
            key = "moves_away_alone" if one.is_alone else "moves_away"
            values = {
                "name": name,
                "since": one.since.isoformat() if one.since else None,
                "points": round(abs(one.points), 1),
                "side": "over" if one.points > 0 else "under",
            }
            collected.append((key, values))
        if leaving[2:]:
            collected.append(("more_move_away", {"n": len(leaving) - 2}))
        return collected + [(does, {"n": n_of[does]}) for does in ("approaching", "steady") if n_of[does]]


def _query(view: str, until: date) -> str:
    return f"view={view}&from={DAYS[0]}&to={until}"


@pytest.mark.deep
@pytest.mark.parametrize("view", ["decayed", "raw"])
def test_published_convergence_equals_the_raw_records(raw: Raw, client: Client, view: str) -> None:
    sentences_by_day: set[str] = set()
    for until in ENDS:
        reckoned = Reckoned(raw, view, until)
        answer = client.get(f"/api/v1/policies/lcg/convergence?{_query(view, until)}").json()
        _panels_agree(reckoned, _every_page(client, answer, view, until))
        collected = [(one["key"], one["values"]) for one in answer["verdict"]]
        assert collected == reckoned.verdict()
        _table_agrees(reckoned, client, view, until)
        _page_agrees(reckoned, client, view, until, [one["text"] for one in answer["verdict"]])
        _figures_agree(reckoned, answer["figures"])
        sentences_by_day |= {key for key, _values in collected}
    if view == "decayed":
        assert {"at_target_or_idle", "moves_away", "approaching"} <= sentences_by_day, (
            "the log shows more than one course"
        )
    else:
        assert "nobody_used" in sentences_by_day, "no usage on the last day"


def _every_page(client: Client, answer: dict[str, Any], view: str, until: date) -> dict[str, dict[str, Any]]:
    rows = list(answer["results"])
    while answer["next"]:
        answer = client.get(f"/api/v1/policies/lcg/convergence?{_query(view, until)}&cursor={answer['next']}").json()
        rows += answer["results"]
    return {row["name"]: row for row in rows}


def _panels_agree(reckoned: Reckoned, panels: dict[str, dict[str, Any]]) -> None:
    assert sorted(panels) == reckoned.names
    for name, panel in panels.items():
        assert panel["target"] == pytest.approx(reckoned.target[name], rel=1e-9, abs=1e-12)
        assert [one is None for one in panel["actual"]] == [one is None for one in reckoned.actual[name]]
        known = [day for day, one in enumerate(reckoned.actual[name]) if one is not None]
        mine = [reckoned.actual[name][day] or 0.0 for day in known]
        assert [panel["actual"][day] for day in known] == pytest.approx(mine, rel=1e-9, abs=1e-12)
        gaps = [(a - reckoned.target[name][day]) * 100 for day, a in zip(known, mine, strict=True)]
        assert [panel["deviation_points"][day] for day in known] == pytest.approx(gaps, rel=1e-9, abs=1e-9)
        assert panel["state"] == reckoned.state[name]


def _figures_agree(reckoned: Reckoned, figures: dict[str, Any]) -> None:
    """Means over days, weighted by shares."""
    names, n_days = reckoned.names, len(reckoned.on)
    known = [[reckoned.actual[name][day] is not None for day in range(n_days)] for name in names]
    actual = [[one or 0.0 for one in reckoned.actual[name]] for name in names]
    target = [reckoned.target[name] for name in names]
    gaps = [[abs(a - t) for a, t in zip(*rows, strict=True)] for rows in zip(actual, target, strict=True)]
    inside = [
        [float(gap <= reckoned.band[name][day] + twin.EDGE) for day, gap in enumerate(row)]
        for name, row in zip(names, gaps, strict=True)
    ]
    for key, values, scale in (("mean_deviation_points", gaps, 100), ("inside", inside, 1)):
        days = [one for one in twin.weighted(values, target, known) if one is not None]
        assert figures[key] == pytest.approx(sum(days) / len(days) * scale, rel=1e-9)
    assert figures["n_days"] == n_days


def _table_agrees(reckoned: Reckoned, client: Client, view: str, until: date) -> None:
    answer = client.get(f"/policy/lcg/convergence/days.csv?{_query(view, until)}")
    text = b"".join(answer.streaming_content).decode("utf-8-sig")  # type: ignore[attr-defined]
    rows = [row for row in csv.DictReader(StringIO(text)) if not row["as_of"]]
    assert len(rows) == len(reckoned.names) * len(reckoned.on)
    place = {on.isoformat(): day for day, on in enumerate(reckoned.on)}
    for row in rows:
        name, day = row["name"], place[row["day"]]
        actual = reckoned.actual[name][day]
        assert float(row["target"]) == pytest.approx(reckoned.target[name][day], rel=1e-9, abs=1e-12)
        assert (row["actual"] == "") == (actual is None)
        if actual is not None:
            assert float(row["actual"]) == pytest.approx(actual, rel=1e-9, abs=1e-12)


def _page_agrees(reckoned: Reckoned, client: Client, view: str, until: date, sentences: list[str]) -> None:
    query = _query(view, until)
    page = unescape(client.get(f"/policy/lcg/convergence/?{query}&more=numbers&section=rest").content.decode())
    for sentence in sentences:
        assert sentence in page
    panels = [
        panel
        for section in ("off", "small", "rest")
        for panel in client.get(f"/policy/lcg/convergence/figures/panels?{query}&section={section}").json()["panels"]
    ]
    assert all(one["heading"]["used"] in page for one in panels)
    axis = client.get(f"/policy/lcg/convergence/figures/panels?{query}").json()["axis"]
    is_over = (
        axis["stops"][axis["resting"]] == reckoned.on[-1].isoformat()
    )  # else the newest snapshot is the last point
    if is_over and any(one is not None for one in (reckoned.actual[name][-1] for name in reckoned.names)):
        first = max(reckoned.names, key=lambda name: abs((reckoned.actual[name][-1] or 0) - reckoned.target[name][-1]))
        assert f"{(reckoned.actual[first][-1] or 0) * 100:.1f}" in page, "the furthest one's tile tells its share"
