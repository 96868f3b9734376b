"""What to do, case by case: each key is said where it helps, and nowhere else."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import pytest

from apps.explain.messages import Outlook, advise, better_account, is_near_front, messages_of
from apps.explain.my_priority import MyPriority
from apps.explain.walk import WalkStep
from apps.priorities.records import Moment
from apps.priorities.snapshots.ordering import State

AT = datetime(2026, 11, 20, 12, tzinfo=UTC)
THURSDAY = datetime(2026, 11, 26, 12, tzinfo=UTC)


def step(name: str, parent: str, state: State, **more: Any) -> WalkStep:
    actual = {"over": 0.7, "under": 0.2, "idle": 0.0, "on": 0.5}.get(state)
    return WalkStep(
        **{
            "uid": uuid4(),
            "name": name,
            "parent_name": parent,
            "path": f"/{name}",
            "kind": "x",
            "shares": 1.0,
            "target": 0.5,
            "target_global": 0.5,
            "actual": actual,
            "priority": 0.0,
            "state": state,
            "n_ahead": 1,
            "n_siblings": 2,
            "message_key": state,
            **more,
        }
    )


def mine(group: State = "over", own: State = "under", deciding: int | None = 0, **more: Any) -> MyPriority:
    steps = (step("physics", "grid", group, is_group=True), step("alice", "physics", own))
    return MyPriority(
        **{
            "account": "alice",
            "namespace": "c1",
            "policy_slug": "grid",
            "policy_name": "Grid",
            "walk": steps,
            "deciding": deciding,
            "rank": 50,
            "of": 60,
            "factor": 0.2,
            **more,
        }
    )


def keys(*args: Any) -> list[str]:
    return [said.key for said in advise(*args)]


def test_the_group_waits_where_the_group_decides_and_is_over() -> None:
    (said,) = advise(mine())
    assert said.key == "advice.group_waits"
    assert said.values == {"name": "physics", "parent": "grid", "actual": 0.7, "target": 0.5}
    assert [each for each in ("physics", "grid", "70.0\u00a0%", "50.0\u00a0%") if each not in said.text] == []


def test_ones_own_use_is_named_where_it_decides_and_where_it_adds_to_the_groups() -> None:
    assert keys(mine(own="over", deciding=1)) == ["advice.own_use"]
    assert keys(mine(own="over")) == ["advice.group_waits", "advice.own_use"]
    assert keys(mine(group="under", own="over")) == ["advice.own_use"]


def test_nothing_of_ones_own_over_says_so() -> None:
    assert keys(mine(group="under")) == ["advice.other_order"]
    assert keys(mine(group="under", own="idle")) == ["advice.nothing_ran"]
    assert keys(mine(group="over", own="idle")) == ["advice.group_waits", "advice.nothing_ran"]
    assert keys(mine(deciding=None, is_decided_above=True)) == ["advice.above"]
    assert keys(mine(deciding=None, explained_by="number")) == ["advice.not_over"]


@pytest.mark.parametrize(
    ("rank", "of", "key"),
    [(1, 60, "advice.first"), (1, 1, "advice.first"), (2, 60, "advice.front"), (6, 60, "advice.front")],
)
def test_near_the_front_fairshare_is_not_what_holds_a_job(rank: int, of: int, key: str) -> None:
    (said,) = advise(mine(rank=rank, of=of), [mine(account="other", rank=1, of=of)])
    assert said.key == key


def test_a_tenth_ahead_is_near_and_more_is_not() -> None:
    assert is_near_front(mine(rank=11, of=101))
    assert not is_near_front(mine(rank=12, of=101))
    assert not is_near_front(mine(rank=2, of=2))
    many, one = (advise(mine(rank=rank))[0] for rank in (6, 2))
    assert (many.values, one.values) == ({"n": 5, "of": 60}, {"n": 1, "of": 60})
    assert [re.findall(r"\d+", each.text) for each in (many, one)] == [["5", "60"], ["1", "60"]]
    assert many.text.replace("5", "1", 1) != one.text, "one and many read differently"


def test_another_account_that_is_ahead_comes_first_the_best_of_them() -> None:
    worse, better, best = (mine(account=f"a{rank}", rank=rank, factor=1.0) for rank in (55, 30, 20))
    assert better_account(mine(), [worse, better, best]) is best
    first, *_rest = advise(mine(), [worse, better, best])
    assert first.key == "advice.other_account"
    assert (first.values["account"], first.values["other_rank"], first.values["rank"]) == ("c1:a20", 20, 50)


@pytest.mark.parametrize(
    "other",
    [
        {"rank": 55},
        {"rank": 50},
        {"rank": None},
        {"namespace": "c2"},
        {"policy_slug": "other"},
        {"error": "unmapped"},
        {"account": "alice"},
    ],
    ids=str,
)
def test_an_account_elsewhere_or_behind_or_the_same_is_no_advice(other: dict[str, Any]) -> None:
    assert "advice.other_account" not in keys(mine(), [mine(**{"account": "b", "rank": 10, **other})])


def test_the_same_name_in_another_group_is_told_with_its_group() -> None:
    other = mine(group="over", rank=10, **{})
    other = replace(other, group="biology")
    assert advise(mine(), [other])[0].values["account"] == "c1:alice (biology)"


@pytest.mark.parametrize("outcome", ["never_if_nobody_runs", "not_at_this_pace", "not_within_horizon"])
def test_waiting_that_will_not_help_is_told_as_such(outcome: Any) -> None:
    assert keys(mine(), [], Outlook(outcome)) == ["advice.group_waits", f"advice.{outcome}"]


def test_the_day_to_wait_for_is_named_with_its_range() -> None:
    later = datetime(2026, 11, 28, 12, tzinfo=UTC)
    until = advise(mine(), [], Outlook("recovers", THURSDAY, AT, later))[1]
    assert until.key == "advice.wait_between"
    assert until.values == {"name": "physics", "parent": "grid", "on": THURSDAY, "earliest": AT, "latest": later}
    assert re.findall(r"\w+ \d+ Nov|physics", until.text) == ["Thu 26 Nov", "physics", "Fri 20 Nov", "Sat 28 Nov"]
    assert keys(mine(), [], Outlook("recovers", THURSDAY)) == ["advice.group_waits", "advice.wait_until"]
    assert keys(mine(), [], Outlook("on_target")) == ["advice.group_waits"]
    assert keys(mine(group="under"), [], Outlook("recovers", THURSDAY)) == ["advice.other_order"]


def test_late_numbers_are_said_and_are_no_advice() -> None:
    late = mine(problems=("c1 is late",))
    assert keys(late) == ["advice.group_waits"]
    said = messages_of(late).stale
    assert said is not None
    assert (said.key, dict(said.values)) == ("fresh.behind", {"problems": ["c1 is late"]})


def test_unmapped_and_uncomputed_and_unranked_have_advice_of_their_own() -> None:
    assert keys(mine(error="unmapped")) == ["advice.unmapped"]
    assert keys(mine(error="no_snapshot")) == ["advice.no_snapshot"]
    assert keys(mine(rank=None)) == ["advice.unranked"]
    assert keys(mine(rank=None, provisional=True)) == ["advice.newcomer"]
    assert keys(mine(rank=None), [mine(account="b", rank=40)]) == ["advice.unranked", "advice.other_account"]


def test_the_past_needs_no_advice_but_a_later_time_where_nothing_is_kept() -> None:
    moment = Moment(AT, 2, "", "", AT, None, 2, None, None, False, ())
    assert keys(mine(moment=moment)) == []
    assert keys(mine(moment=moment, error="no_snapshot")) == ["advice.nothing_kept"]


def test_an_instant_without_kept_numbers_is_not_called_one_before_the_first() -> None:
    """A later computation exists, so "nothing has been computed yet" would be false."""
    moment = Moment(AT, 2, "", "", AT, None, 2, None, None, False, ())
    then = messages_of(mine(moment=moment, error="no_snapshot"))
    assert (then.verdict.key, [one.key for one in then.reason]) == ("verdict.nothing_kept", [])
    now = messages_of(mine(error="no_snapshot"))
    assert (now.verdict.key, [one.key for one in now.reason]) == ("verdict.no_snapshot", ["rank.no_snapshot"])
