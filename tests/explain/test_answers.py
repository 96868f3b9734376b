"""When, and what changes it, case by case: each key is shown where it is true, and nowhere else."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest

from apps.explain.messages import Outlook, better_account, change_messages, is_near_front, messages_of, when_messages
from apps.explain.my_priority import MyPriority
from apps.explain.walk import WalkStep
from apps.priorities.records import Moment
from apps.priorities.snapshots import State
from tests.instants import AT


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


def changes(*args: Any) -> list[str]:
    return [found.key for found in change_messages(*args)]


def when(*args: Any) -> list[str]:
    return [found.key for found in when_messages(*args)]


def days(n: float) -> datetime:
    return AT + timedelta(days=n)


def outlook(outcome: Any = "recovers", **more: Any) -> Outlook:
    return Outlook(outcome, AT, **more)


def test_a_deciding_group_over_target_is_named_with_advice() -> None:
    (found,) = change_messages(mine())
    assert (found.key, dict(found.values)) == ("change.group", {"name": "physics"})
    assert changes(mine(own="over", deciding=1)) == ["change.own_use"]
    assert changes(mine(own="over")) == ["change.group", "change.own_use"]
    assert changes(mine(group="under", own="over")) == ["change.own_use"]
    assert changes(mine(own="idle")) == ["change.group", "change.nothing_ran"]


def test_if_nothing_is_over_target_only_jobs_of_others_help() -> None:
    assert changes(mine(group="under")) == ["change.others"]
    assert changes(mine(group="under", own="idle")) == ["change.others"]
    assert changes(mine(deciding=None, is_decided_above=True)) == []
    assert changes(mine(deciding=None, explained_by="number")) == ["change.every_job"]
    assert when(mine(group="under")) == ["when.not_over"]
    assert when(mine(own="under", deciding=1)) == ["when.you_not_over"]
    assert when(mine(deciding=None, explained_by="number")) == ["when.equal"]
    assert when(mine(deciding=None, is_decided_above=True)) == ["when.above"]


def test_without_shares_only_shares_help() -> None:
    steps = (step("physics", "grid", "over", target=0.0), step("alice", "physics", "over"))
    found = mine(walk=steps)
    assert (when(found, outlook(at=days(2))), changes(found)) == (["when.no_shares"], ["change.shares"])


@pytest.mark.parametrize(
    ("rank", "of", "key"),
    [(1, 60, "when.first"), (1, 1, "when.first"), (2, 60, "when.front"), (6, 60, "when.front")],
)
def test_near_the_front_fairshare_does_not_delay_a_job(rank: int, of: int, key: str) -> None:
    found = mine(rank=rank, of=of)
    assert when(found, outlook(at=days(3))) == [key]
    assert changes(found, [mine(account="other", rank=1, of=of)]) == ["change.nothing"]


def test_near_the_front_means_at_most_a_tenth_ahead() -> None:
    assert is_near_front(mine(rank=11, of=101))
    assert not is_near_front(mine(rank=12, of=101))
    assert not is_near_front(mine(rank=2, of=2))
    many, one = (when_messages(mine(rank=rank))[0] for rank in (6, 2))
    assert (many.values, one.values) == ({"n": 5, "of": 60}, {"n": 1, "of": 60})
    assert [re.findall(r"\d+", each.text) for each in (many, one)] == [["5", "60"], ["1", "60"]]
    assert many.text.replace("5", "1", 1) != one.text, "one and many read differently"


def test_the_best_other_account_is_the_first_advice() -> None:
    worse, better, best = (mine(account=f"a{rank}", rank=rank, factor=1.0) for rank in (55, 30, 20))
    assert better_account(mine(), [worse, better, best]) is best
    first, *_rest = change_messages(mine(), [worse, better, best])
    assert first.key == "change.other_account"
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
def test_accounts_elsewhere_behind_or_equal_are_no_advice(other: dict[str, Any]) -> None:
    assert "change.other_account" not in changes(mine(), [mine(**{"account": "b", "rank": 10, **other})])


def test_the_same_name_in_another_group_has_its_group() -> None:
    other = replace(mine(group="over", rank=10), group="biology")
    assert change_messages(mine(), [other])[0].values["account"] == "c1:alice (biology)"


def test_the_date_of_return_has_its_range() -> None:
    (found,) = when_messages(mine(), outlook(at=days(6), earliest=days(0), latest=days(8)))
    assert found.key == "when.recovers_between"
    assert found.values == {"name": "physics", "on": days(6), "earliest": days(0), "latest": days(8)}
    assert re.findall(r"\w+ \d+ Nov|physics", found.text) == ["physics", "Thu 26 Nov", "Fri 20 Nov", "Sat 28 Nov"]
    assert when(mine(), outlook(at=days(6))) == ["when.recovers"]
    assert when(mine(own="over", deciding=1), outlook(at=days(6))) == ["when.you_recover"]


@pytest.mark.parametrize(
    ("more", "group", "you"),
    [
        ({"outcome": "not_at_this_pace", "quiet": 0.1, "quiet_at": 8}, "when.quiet", "when.you_stop"),
        ({"at": 31, "quiet": 0.1, "quiet_at": 30}, "when.quiet", "when.you_stop"),
        ({"outcome": "not_within_horizon", "quiet": 0.1, "quiet_at": 31}, "when.later", "when.you_later"),
        ({"outcome": "not_at_this_pace", "quiet": 0.6}, "when.never", "when.you_later"),
        ({"outcome": "not_at_this_pace"}, "when.unknown", "when.you_later"),
        ({"outcome": "never_if_nobody_runs", "quiet": 0.0, "quiet_at": 8}, "when.nobody_runs", "when.nobody_runs"),
        ({"outcome": "on_target"}, "when.unknown", "when.unknown"),
    ],
    ids=str,
)
def test_beyond_thirty_days_the_quietest_pace_decides(more: dict[str, Any], group: str, you: str) -> None:
    given = {name: days(value) if name in ("at", "quiet_at") else value for name, value in more.items()}
    found = outlook(**{"usual": 0.7, **given})
    assert (when(mine(), found), when(mine(own="over", deciding=1), found)) == ([group], [you])


def test_the_earliest_date_names_both_paces() -> None:
    (found,) = when_messages(mine(), outlook("not_at_this_pace", usual=0.7, quiet=0.42, quiet_at=days(8)))
    assert [part for part in ("Sat 28 Nov", "42.0\u00a0%", "70.0\u00a0%", "grid") if part not in found.text] == []


def test_without_known_days_there_is_no_date() -> None:
    assert when(mine()) == ["when.unknown"]


def test_late_numbers_are_reported_with_the_reason() -> None:
    late = mine(problems=("c1 is late",))
    assert changes(late) == ["change.group"]
    found = messages_of(late).stale
    assert found is not None
    assert (found.key, dict(found.values)) == ("fresh.behind", {"problems": ["c1 is late"]})


def test_unmapped_uncomputed_and_unranked_have_their_own_answers() -> None:
    collected = [(when(one), changes(one)) for one in (mine(error="unmapped"), mine(error="no_snapshot"))]
    assert collected == [(["when.unmapped"], ["change.unmapped"]), (["when.no_snapshot"], [])]
    assert (when(mine(rank=None)), changes(mine(rank=None))) == ([], ["change.unranked"])
    new = mine(rank=None, provisional=True)
    assert (when(new), changes(new)) == (["when.new_user"], [])
    assert changes(mine(rank=None), [mine(account="b", rank=40)]) == ["change.unranked", "change.other_account"]


def test_past_answers_have_no_advice_but_a_later_time_if_nothing_is_stored() -> None:
    moment = Moment(AT, 2, "", "", AT, None, 2, None, None, False)
    assert (when(mine(moment=moment)), changes(mine(moment=moment))) == ([], [])
    assert changes(mine(moment=moment, error="no_snapshot")) == ["change.nothing_kept"]


def test_an_instant_without_stored_numbers_differs_from_one_before_the_first() -> None:
    """A later computation exists, so "nothing has been computed yet" would be false."""
    moment = Moment(AT, 2, "", "", AT, None, 2, None, None, False)
    then = messages_of(mine(moment=moment, error="no_snapshot"))
    assert (then.verdict.key, [one.key for one in then.reason]) == ("verdict.nothing_kept", [])
    now = messages_of(mine(error="no_snapshot"))
    assert (now.verdict.key, [one.key for one in now.reason]) == ("verdict.no_snapshot", ["rank.no_snapshot"])
