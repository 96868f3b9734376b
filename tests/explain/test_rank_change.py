"""Why a rank is another one than a day ago: what a sentence claims is true of both snapshots.

Claims are read from keys and values, never from words.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from hypothesis import given
from hypothesis import strategies as st

from apps.accounts.actor import Actor
from apps.core import clock
from apps.explain.my_priority import MyPriority, get_my_priority
from apps.explain.path import WalkStep
from apps.explain.rank_change import change_since_yesterday, compare_ranks
from apps.usage.models import Source
from apps.usage.parsers.base import RecordRow
from apps.usage.records.ingest import ingest_batch
from tests.examples import examples
from tests.explain.sentence_world import SentenceWorld, snapshot_of, worlds
from tests.explain.test_true_sentences import ALGORITHMS, IDS
from tests.instants import AT
from tests.pages.grid import SLUG, Grid
from tests.pages.page import read, with_cards
from tests.sign_in import sign_in

Json = dict[str, Any]
STATES = ("over", "on", "under")


def world_of(root: Json, usage: Mapping[str, float], algorithm: Json) -> SentenceWorld | None:
    snapshot = snapshot_of(root, usage, algorithm)
    return None if snapshot is None else SentenceWorld(snapshot)


def named_level(mine: MyPriority, name: str) -> WalkStep:
    return next(step for step in mine.walk if step.name == name)


def falsehoods(then: MyPriority, now: MyPriority) -> list[str]:
    """What a sentence claims that isn't so; names of drawn entries are unique."""
    change = compare_ranks(then, now)
    if change is None:
        return [] if then.rank == now.rank or None in (then.rank, now.rank) else ["a change without a sentence"]
    key, values, wrong = change.message.key.removeprefix("since."), change.message.values, []
    assert then.rank is not None
    assert now.rank is not None
    is_worse = now.rank > then.rank
    if (values["other_rank"], values["rank"]) != (then.rank, now.rank):
        wrong.append("other ranks")
    if "name" not in values:
        return wrong if key == ("worse" if is_worse else "better") else [*wrong, f"{key} without a level"]
    before, after = (named_level(each, str(values["name"])) for each in (then, now))
    if now.levels_decide:
        moved = (after.leaves_ahead or 0) - (before.leaves_ahead or 0)
        if moved * (1 if is_worse else -1) * 2 < abs(now.rank - then.rank):
            wrong.append(f"{key} of less than half of the change")
    for name, step in (("actual", after), ("other_actual", before)):
        if name in values and values[name] != step.actual:
            wrong.append(f"{key} with another {name}")
    for name, step in (("target", after), ("other_target", before)):
        if name in values and values[name] != step.target:
            wrong.append(f"{key} with another {name}")
    if "actual" in values or "target" in values:
        own, was = after.actual or 0, before.actual or 0
        if before.target != after.target:  # their quotients, without a division by 0
            own, was = own * (before.target or 0), was * (after.target or 0)
        if (own > was) != is_worse or own == was:
            wrong.append(f"{key} in the other direction")
    states = key.split("_")
    if set(states) <= set(STATES) and states != [before.state, after.state]:
        wrong.append(f"{key} from {before.state} to {after.state}")
    return wrong


def with_other_shares(root: Json, shares: dict[str, float]) -> Json:
    def changed(entry: Json) -> Json:
        below = [changed(child) for child in entry.get("children", [])]
        own = shares.get(entry["name"], entry["shares"]) if entry["shares"] not in ("parent", 0) else entry["shares"]
        return {**entry, "shares": own, **({"children": below} if "children" in entry else {})}

    return changed(copy.deepcopy(root))


@pytest.mark.parametrize("algorithm", ALGORITHMS, ids=IDS)
@examples(60, fixed=12)
@given(data=st.data())
def test_no_reason_of_a_change_is_false(algorithm: Json, data: st.DataObject) -> None:
    root, usage = data.draw(worlds())
    later = {
        path: data.draw(st.sampled_from((used, used, used + 4, used / 2, used * 10))) for path, used in usage.items()
    }
    names = sorted({part for path in usage for part in path.split("/") if part})
    shares = (
        data.draw(st.dictionaries(st.sampled_from(names), st.sampled_from((1.0, 2.0, 9.0)), max_size=2))
        if names
        else {}
    )
    then, now = world_of(root, usage, algorithm), world_of(with_other_shares(root, shares), later, algorithm)
    if then is None or now is None:
        return
    for leaf in set(then.lines) & set(now.lines):
        assert falsehoods(then.mine(leaf), now.mine(leaf)) == [], leaf


SIBLINGS = ("a", "b", "c", "d")


def flat(shares: dict[str, float]) -> Json:
    """Groups of one user each, so that a level decides alone."""
    return {
        "name": "grid",
        "uid": "00000000-0000-4000-8000-999999999999",
        "children": [
            {
                "name": name,
                "kind": "group",
                "shares": shares.get(name, 1),
                "uid": f"00000000-0000-4000-8000-{at:012d}",
                "children": [
                    {"name": f"u{name}", "kind": "user", "shares": 1, "uid": f"00000000-0000-4000-8000-{at + 50:012d}"}
                ],
            }
            for at, name in enumerate(SIBLINGS, start=1)
        ],
        "shares": 1,
    }


@pytest.mark.parametrize(
    ("key", "before", "after", "shares"),
    [
        ("under_on", (15, 20, 30, 35), (25, 22, 24, 29), {}),
        ("under_over", (15, 20, 30, 35), (40, 15, 20, 25), {}),
        ("on_over", (25, 22, 27, 26), (60, 10, 15, 15), {}),
        ("over_under", (60, 10, 15, 15), (1, 33, 33, 33), {}),
        ("over_on", (60, 5, 15, 20), (25, 27, 26, 22), {}),
        ("on_under", (25, 24, 26, 22), (10, 30, 30, 30), {}),
        ("used_more", (30, 31, 32, 7), (50, 31, 32, 7), {}),
        ("target_fell", (25, 26, 27, 22), (25, 26, 27, 22), {"b": 2, "c": 2, "d": 2}),
        ("target_rose", (29, 25, 24, 22), (29, 25, 24, 22), {"a": 5}),
    ],
)
def test_the_reason_is_what_the_level_did(
    key: str, before: tuple[float, ...], after: tuple[float, ...], shares: dict[str, float]
) -> None:
    paths = [f"/{name}/u{name}" for name in SIBLINGS]
    then = world_of(flat({}), dict(zip(paths, before, strict=True)), {"name": "aequus"})
    now = world_of(flat(shares), dict(zip(paths, after, strict=True)), {"name": "aequus"})
    assert then is not None
    assert now is not None
    change = compare_ranks(then.mine("/a/ua"), now.mine("/a/ua"))
    assert change is not None
    assert (change.message.key, change.message.values["name"]) == (f"since.{key}", "a")
    assert falsehoods(then.mine("/a/ua"), now.mine("/a/ua")) == []


def test_others_that_pass_a_level_are_the_reason_where_it_did_nothing() -> None:
    paths = [f"/{name}/u{name}" for name in SIBLINGS]
    usages = [dict(zip(paths, used, strict=True)) for used in ((20, 24, 26, 30), (20, 1, 49, 30))]
    then, now = (world_of(flat({}), used, {"name": "aequus"}) for used in usages)
    assert then is not None
    assert now is not None
    change = compare_ranks(then.mine("/a/ua"), now.mine("/a/ua"))
    assert change is not None
    assert (change.message.key, dict(change.message.values)) == (
        "since.others_ahead",
        {"name": "a", "parent": "grid", "other_rank": 1, "rank": 2},
    )


def test_hidden_numbers_and_another_algorithm_give_no_number() -> None:
    paths = [f"/{name}/u{name}" for name in SIBLINGS]
    usages = [dict(zip(paths, used, strict=True)) for used in ((15, 20, 30, 35), (40, 15, 20, 25))]
    then, now = (world_of(flat({}), used, {"name": "aequus"}) for used in usages)
    assert then is not None
    assert now is not None
    mine = now.mine("/a/ua")
    hidden = replace(mine, walk=tuple(replace(step, is_suppressed=True) for step in mine.walk))
    change = compare_ranks(then.mine("/a/ua"), hidden)
    assert change is not None
    assert (change.message.key, set(change.message.values)) == (
        "since.others_ahead",
        {"name", "parent", "rank", "other_rank"},
    )
    other = replace(mine, settings={**mine.settings, "operator": "absolute"})
    change = compare_ranks(then.mine("/a/ua"), other)
    assert change is not None
    assert change.message.key == "since.worse"


def test_drawn_changes_have_reasons_of_each_kind() -> None:
    """The property above isn't empty: these keys come up in a few plain worlds."""
    keys: Counter[str] = Counter()
    paths = [f"/{name}/u{name}" for name in SIBLINGS]
    for at in range(60):
        used = [dict(zip(paths, (1 + (at * k) % 17 for k in ks), strict=True)) for ks in ((3, 5, 7, 11), (2, 9, 4, 13))]
        then, now = (world_of(flat({}), each, {"name": "slurm-classic"}) for each in used)
        assert then is not None
        assert now is not None
        change = compare_ranks(then.mine("/a/ua"), now.mine("/a/ua"))
        keys.update([] if change is None else [change.message.key])
    assert {"since.under_over", "since.over_under"} <= set(keys)


@pytest.fixture
def later(open_grid: Grid, monkeypatch: pytest.MonkeyPatch) -> Grid:
    """A day and an hour after the grid's own day: alice of atlas has run much."""
    at = AT + timedelta(hours=25)
    monkeypatch.setenv(clock.VARIABLE, at.isoformat())
    rows = [
        RecordRow(
            job="much", user="alice", group="atlas", start_at=at - timedelta(hours=20), end_at=at - timedelta(hours=2),
            cpus=9000,
        )
    ]  # fmt: skip
    ingest_batch(source=Source.objects.get(slug="cluster-a"), rows=rows, at=at)
    open_grid.recompute()
    return open_grid


@pytest.mark.django_db
def test_page_names_the_change_and_draws_its_step(later: Grid) -> None:
    actor = Actor(user=later.alice, via="web")
    (now,) = get_my_priority(actor=actor, policy_slug=SLUG)
    change = change_since_yesterday(now, actor=actor)
    assert change is not None
    assert now.rank is not None
    assert change.rank < now.rank
    client = sign_in(Client(), later.alice)
    page = with_cards(client, read(client.get("/me/priority/")))
    first = page.one('[data-testid="trend"] span')
    assert (first.attributes["data-key"], first.text()) == (change.message.key, change.message.text)
    assert page.text(".trend .chart text.em") == str(change.rank)
    assert page.has(".trend .chart .step")
    (account,) = client.get("/api/v1/me/explain", {"policy": SLUG}).json()["accounts"]
    assert account["since_yesterday"] == change.message.json()
    assert now.as_of is not None
    for hours, is_compared in ((-1, True), (10, True), (13, False), (40, False)):  # the one before is 25 hours old
        shifted = change_since_yesterday(replace(now, as_of=now.as_of + timedelta(hours=hours)), actor=actor)
        assert (shifted is not None) == is_compared, hours


@pytest.mark.django_db
def test_without_a_snapshot_of_a_day_ago_nothing_is_compared(open_grid: Grid) -> None:
    actor = Actor(user=open_grid.alice, via="web")
    (now,) = get_my_priority(actor=actor, policy_slug=SLUG)
    assert change_since_yesterday(now, actor=actor) is None
    assert now.as_of is not None
    assert change_since_yesterday(replace(now, as_of=now.as_of + timedelta(hours=40)), actor=actor) is None


def test_two_ranks_are_compared_where_both_are_known_and_differ() -> None:
    paths = [f"/{name}/u{name}" for name in SIBLINGS]
    usages = [dict(zip(paths, used, strict=True)) for used in ((15, 20, 30, 35), (40, 15, 20, 25))]
    then, now = (world_of(flat({}), used, {"name": "aequus"}) for used in usages)
    assert then is not None
    assert now is not None
    before, after = then.mine("/a/ua"), now.mine("/a/ua")
    assert compare_ranks(before, after) is not None
    assert compare_ranks(before, replace(before, factor=0.1)) is None
    assert compare_ranks(replace(before, standing=None), after) is None
    assert compare_ranks(before, replace(after, standing=None)) is None
    assert compare_ranks(replace(before, as_of=None), after) is None


def test_siblings_are_equal_by_rounding_where_only_a_component_is_compared() -> None:
    """Of a quarter each, 10 and 12 of 100 are below the target by 0.6 and 0.52 of it: the last of four components."""
    paths = [f"/{name}/u{name}" for name in SIBLINGS]

    def counts(used: tuple[float, ...], algorithm: Json) -> tuple[int, int]:
        world = world_of(flat({}), dict(zip(paths, used, strict=True)), algorithm)
        assert world is not None
        step = named_level(world.mine("/a/ua"), "a")
        return step.n_equal, step.n_rounded

    coarse = {"name": "aequus", "operator": "relative", "resolution": 4}
    assert counts((10, 12, 30, 48), coarse) == (1, 1)
    assert counts((10, 10, 30, 50), coarse) == (1, 0)
    assert counts((10, 12, 30, 48), {"name": "gridwide"}) == (0, 0)
    assert counts((10, 10, 30, 50), {"name": "gridwide"}) == (1, 0)


def test_a_level_that_moved_nothing_is_no_reason() -> None:
    """Of an entry that doesn't compete, usage changes no factor."""
    paths = [f"/{name}/u{name}" for name in SIBLINGS]
    usages = [dict(zip(paths, used, strict=True)) for used in ((15, 20, 30, 35), (40, 15, 20, 25))]
    then, now = (world_of(flat({}), used, {"name": "slurm-classic"}) for used in usages)
    assert then is not None
    assert now is not None

    def without_effects(mine: MyPriority) -> MyPriority:
        return replace(mine, walk=tuple(replace(step, effect=None, leaves_ahead=None) for step in mine.walk))

    half_known = replace(
        now.mine("/a/ua"), walk=tuple(replace(step, leaves_ahead=3) for step in now.mine("/a/ua").walk)
    )
    assert compare_ranks(without_effects(then.mine("/a/ua")), half_known) is not None
    change = compare_ranks(without_effects(then.mine("/a/ua")), without_effects(now.mine("/a/ua")))
    assert change is not None
    assert (change.message.key, dict(change.message.values)) == ("since.worse", {"other_rank": 1, "rank": 4})
