"""When, and what changes it, case by case: each key is shown where it is true, and nowhere else."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any
from uuid import uuid4

import pytest

from apps.engine.target_state import State
from apps.explain.entry_page import _around
from apps.explain.job_starts import HeldStarts, JobStart, NewJobShape, NewJobStart
from apps.explain.levels import Effect, PartedSiblings
from apps.explain.messages import messages_of
from apps.explain.my_priority import MyPriority, _sentence
from apps.explain.path import WalkStep
from apps.explain.rank_position import RankPosition
from apps.explain.verdict import AccountFacts, Outlook, QueueFacts, better_account, decide, queue_messages
from apps.priorities.moments import Moment
from apps.priorities.projections import PaceDays
from apps.priorities.sentences import Message
from apps.priorities.sentences.numbers import date
from tests.each_case import each_case
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


def mine(
    group: State = "over",
    own: State = "under",
    deciding: int | None = 0,
    rank: int | None = 50,
    of: int = 60,
    n_behind: int | None = None,
    **more: Any,
) -> MyPriority:
    """n_behind: by default all that aren't ahead, so none ties."""
    behind = of - (rank or 1) if n_behind is None else n_behind
    steps = (step("physics", "grid", group, is_group=True), step("alice", "physics", own))
    return MyPriority(
        **{
            "account": "alice",
            "namespace": "c1",
            "policy_slug": "grid",
            "policy_name": "Grid",
            "walk": steps,
            "deciding": deciding,
            "standing": None if rank is None else RankPosition(rank, of, behind),
            "of": of,
            "factor": 0.2,
            **more,
        }
    )


def change_messages(found: MyPriority, others: Any = ()) -> list[Message]:
    return list(decide(found, others).changes)


def when_messages(found: MyPriority, outlook: Outlook | None = None) -> list[Message]:
    return list(decide(found, (), AccountFacts(lambda: outlook)).when)


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
    assert changes(mine(own="over", deciding=1, half_life_s=604_800.0)) == ["change.own_use"]
    assert changes(mine(own="over", deciding=1)) == ["change.own_use_decays"]
    assert changes(mine(own="over")) == ["change.group", "change.own_use_decays"]
    assert changes(mine(group="under", own="over")) == ["change.own_use_decays"]
    assert changes(mine(own="idle")) == ["change.group"]


def test_if_nothing_is_over_target_only_jobs_of_others_help() -> None:
    assert changes(mine(group="under")) == ["change.nothing_yourself"]
    assert changes(mine(group="under", own="idle")) == ["change.nothing_yourself"]
    assert changes(mine(deciding=None, is_decided_above=True)) == []
    assert changes(mine(deciding=None, explained_by="number")) == ["change.nothing_yourself"]
    assert when(mine(group="under")) == ["when.not_over"]
    assert when(mine(own="under", deciding=1)) == ["when.not_over"]
    assert when(mine(deciding=None, explained_by="number")) == ["when.equal"]
    assert when(mine(deciding=None, is_decided_above=True)) == ["when.above"]


def test_without_shares_only_shares_help() -> None:
    steps = (step("physics", "grid", "over", target=0.0), step("alice", "physics", "over"))
    found = mine(walk=steps)
    assert (when(found, outlook(at=days(2))), changes(found)) == (["when.no_shares"], ["change.shares"])


@each_case(
    ("rank", "of", "n_behind", "band", "is_good"),
    [
        (1, 1, 0, "only", True),
        (1, 60, 59, "near", True),
        (6, 60, 54, "near", True),
        (11, 101, 90, "near", True),
        (12, 101, 89, "ahead", True),
        (36, 162, 126, "ahead", True),
        (20, 60, 0, "middle", False),  # 40 others tie: most aren't behind
        (17, 162, 145, "near", True),
        (54, 162, 108, "ahead", True),
        (55, 162, 107, "middle", True),
        (2, 3, 1, "middle", True),
        (2, 3, 0, "middle", False),
        (81, 161, 80, "middle", True),
        (83, 161, 78, "middle", False),
        (2, 2, 0, "behind", False),
        (118, 162, 44, "behind", False),
    ],
)
def test_the_heading_says_how_many_are_ahead_and_behind(
    rank: int, of: int, n_behind: int, band: str, is_good: bool
) -> None:
    found = RankPosition(rank, of, n_behind)
    assert (found.band, found.is_good) == (band, is_good)
    assert decide(mine(rank=rank, of=of, n_behind=n_behind)).heading.key == f"verdict.{band}"


def test_a_good_rank_is_now_and_a_bad_one_later() -> None:
    assert when(mine(rank=1), outlook(at=days(3))) == ["when.now"]
    assert when(mine(rank=6, group="over"), outlook(at=days(3))) == ["when.now"]
    (lead,) = when_messages(mine(rank=6, group="under"), outlook(at=days(31)))
    assert (lead.key, lead.values) == ("when.lead", {"name": "physics", "on": days(31)})
    assert when(mine(rank=6, group="idle"), outlook(at=days(31))) == ["when.lead"]
    assert when(mine(rank=6, own="under", deciding=1), outlook("not_at_this_pace")) == ["when.stays_under_you"]
    assert when(mine(rank=6, group="under"), outlook("never_if_nobody_runs")) == ["when.now"]
    assert changes(mine(rank=6)) == ["change.nothing"]
    assert when(mine(group="under"), outlook(at=days(31))) == ["when.under_until"]


def test_a_better_account_is_named_even_by_a_good_one() -> None:
    assert changes(mine(rank=6), [mine(account="other", rank=1)]) == ["change.other_account"]


@pytest.mark.parametrize(("rank", "n_behind"), [(6, 54), (50, 10)])
def test_the_queue_is_part_of_the_answer(rank: int, n_behind: int) -> None:
    def keys(**facts: Any) -> list[str]:
        about = {"schedulers": ["umea"], "scheduler": "umea", "n_own": 3, "position": 20, "of": 48}
        queue = QueueFacts(**{**about, **facts})
        return [found.key for found in decide(mine(rank=rank, n_behind=n_behind), (), AccountFacts(queue=queue)).queue]

    assert keys(n_by_fairshare=17) == ["queue.first", "queue.ahead"]
    assert keys(partition="batch", group="climate") == ["queue.first_in_partition", "queue.of_group"]
    assert keys(new_position=40, new_of=49) == ["queue.first", "queue.new"]
    assert keys(new_position=40, new_partition="batch") == ["queue.first", "queue.new_in_partition"]
    assert keys() == ["queue.first"]
    assert keys(position=None) == ["queue.no_place"]
    assert keys(n_own=0, position=None) == ["queue.none"]
    assert keys(n_own=0, unread={"luleå": AT}) == ["queue.none", "queue.unread"]
    assert keys(n_own=0, schedulers=[], unread={"luleå": None}) == ["queue.never_read"], "an error isn't none"


def test_jobs_ahead_are_one_number() -> None:
    queue = QueueFacts(["umea"], {}, "umea", 3, position=20, of=31, partition="batch", n_by_fairshare=17)
    first, ahead = decide(mine(), (), AccountFacts(queue=queue)).queue
    assert first.text == "3 jobs wait. The first is number 20 of 31 in batch of umea."
    assert ahead.text == "19 jobs ahead (17 because of fair share)."


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
    other = replace(mine(rank=10), group="biology")
    assert change_messages(mine(), [other])[0].values["account"] == "c1:alice (biology)"


def test_the_date_of_return_has_its_range() -> None:
    (found,) = when_messages(mine(), outlook(at=days(6), earliest=days(0), latest=days(8)))
    assert found.key == "when.recovers_between"
    assert found.values == {"name": "physics", "on": days(6), "earliest": days(0), "latest": days(8)}
    assert found.text == "Around 26 November (20 to 28 November), when physics is back on target at the usual pace."
    assert when(mine(), outlook(at=days(6))) == ["when.recovers"]
    assert when(mine(own="over", deciding=1), outlook(at=days(6))) == ["when.recovers_you"]


@pytest.mark.parametrize(
    ("more", "group", "you"),
    [
        ({"outcome": "not_at_this_pace", "quiet": 0.1, "quiet_at": 8}, "when.quiet", "when.you_stop"),
        ({"outcome": "not_within_horizon", "quiet": 0.1}, "when.later", "when.you_later"),
        ({"outcome": "not_at_this_pace", "quiet": 0.6}, "when.later", "when.you_later"),
        ({"outcome": "not_at_this_pace"}, "when.not_soon", "when.you_later"),
        (
            {"outcome": "never_if_nobody_runs", "quiet": 0.0, "pace_days": PaceDays(28, AT)},
            "when.nobody_runs",
            "when.nobody_runs",
        ),
        ({"outcome": "never_if_nobody_runs", "quiet": 0.0}, "when.later", "when.you_later"),
        ({"outcome": "on_target"}, "when.unknown", "when.unknown"),
    ],
    ids=str,
)
def test_without_a_date_the_quietest_pace_decides(more: dict[str, Any], group: str, you: str) -> None:
    given = {name: days(value) if name in ("at", "quiet_at") else value for name, value in more.items()}
    found = outlook(**{"usual": 0.7, **given})
    assert (when(mine(), found), when(mine(own="over", deciding=1), found)) == ([group], [you])


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
    assert (then.verdict.heading.key, then.verdict.reason) == ("verdict.nothing_kept", ())
    now = messages_of(mine(error="no_snapshot"))
    found = now.verdict
    assert (found.heading.key, [one.key for one in found.reason]) == ("verdict.no_snapshot", ["rank.no_snapshot"])


SIBLINGS = {"n_siblings": 27, "siblings_kind": "vo", "leaves_ahead": 66, "leaves_behind": 40}


def reason(rank: int, state: State, own: bool = False, **more: Any) -> list[str]:
    level = step("physics", "grid", state, is_group=not own, **{**SIBLINGS, **more})
    return [each.text for each in decide(mine(walk=(level,), rank=rank)).reason]


def test_the_reason_counts_siblings_and_says_what_they_used() -> None:
    ahead, behind = PartedSiblings(20, "less"), PartedSiblings(6, "more")
    assert reason(50, "over", siblings_ahead=ahead) == [
        "physics used 70.0\u00a0% of grid, more than the target of 50.0\u00a0%, so users of 20 of 27 VOs go before you."
    ]
    why, used = reason(50, "under", siblings_ahead=ahead)
    assert why.endswith("less than the target of 50.0\u00a0%, but users of 20 of 27 VOs go before you.")
    assert used == "They used less of their target."
    assert reason(6, "over", siblings_behind=behind)[1:] == ["They used more of their target."]
    assert reason(6, "under", siblings_behind=behind)[0].endswith("so you go before users of 6 of 27 VOs.")
    assert reason(6, "under", siblings_behind=behind)[1:] == []


def test_a_claim_about_siblings_is_made_only_where_it_is_true() -> None:
    assert len(reason(50, "under", siblings_ahead=PartedSiblings(20))) == 1
    assert reason(50, "under", siblings_ahead=None)[0].endswith("but 66 accounts go before you.")
    several = reason(6, "under", siblings_behind=PartedSiblings(6), siblings_kind="")
    assert several[0].endswith("so you go before users of 6 of 27 others.")


def test_colleagues_are_single_users() -> None:
    people = {"siblings_kind": "user", "n_siblings": 3, "leaves_ahead": 1, "leaves_behind": 2}
    here = PartedSiblings(2)
    assert reason(6, "under", own=True, siblings_behind=here, **people)[0].endswith("before 2 of 3 colleagues.")
    groups = {**people, "siblings_kind": "vo"}
    assert reason(6, "under", own=True, siblings_behind=here, **groups)[0].endswith("so you go before 2 accounts.")
    people["leaves_behind"] = 5
    assert reason(6, "under", own=True, siblings_behind=here, **people)[0].endswith("so you go before 5 accounts.")


def test_whom_to_ask_is_named_where_known_and_the_nearest_lead_of_the_path() -> None:
    account = mine(group="over")
    group, own = account.walk
    assert keys_of(account, {})[0] == ["change.group"]
    named, text = keys_of(account, {group.uid: ["Lea Lund", "Bo Berg"], own.uid: ["Ida Ek"]})
    assert named == ["change.group_of_lead"], "the leads of the group, not those of an entry below it"
    assert text == "Less use by physics, or a larger share for it, helps. Ask Lea Lund or Bo Berg."
    below = mine(group="on", own="over", deciding=1)
    assert keys_of(below, {below.walk[0].uid: ["Lea Lund"]})[0] == ["change.own_use_decays"]
    empty = replace(below, walk=(below.walk[0], replace(below.walk[1], target=0.0)))
    named, text = keys_of(empty, {below.walk[0].uid: ["Lea Lund"], below.walk[1].uid: ["Ida Ek"]})
    assert (named, text) == (["change.shares_of_lead"], "Ask Lea Lund for shares of physics.")
    unranked = replace(account, standing=None)
    named, text = keys_of(unranked, {group.uid: ["Lea Lund"]})
    assert named == ["change.unranked_of_lead"]
    assert text == "Jobs of this entry have the fallback factor. Ask Lea Lund for your own entry in physics."


def keys_of(account: MyPriority, leads: dict[Any, list[str]]) -> tuple[list[str], str]:
    changes = decide(account, facts=AccountFacts(leads=lambda: leads)).changes
    return [message.key for message in changes], changes[0].text


def reasons(account: MyPriority) -> list[str]:
    return [each.key for each in decide(account).reason]


LOWERS, RAISES = Effect(1.0, 2.0, None, None, 0.5, 0.25, -1.0), Effect(1.0, 0.5, None, None, 0.5, 0.7, 0.5)
SAME, LOST = Effect(1.0, 1.0, None, None, 0.5, 0.5, 0.0), Effect(1.0, None, None, None, 0.5, 0.0, -math.inf)


def of_number(deciding: int | None, *effects: Effect | None, **more: Any) -> MyPriority:
    """Of an algorithm with one number for the whole path. effects: of /physics and of the user's own entry."""
    group, own = (replace(each, effect=effect) for each, effect in zip(mine().walk, effects, strict=True))
    return mine(walk=(group, own), deciding=deciding, explained_by="ratio", **more)


@each_case(
    ("account", "keys"),
    [
        (mine(provisional=True), ["reason.new_user"]),
        (mine(rank=1, of=1), ["reason.alone"]),
        (mine(rank=1, of=1, provisional=True), ["reason.new_user"]),
        (mine(error="unmapped"), ["rank.unmapped"]),
        (mine(decided_by="inherited"), ["reason.inherited"]),
        (mine(rank=6, decided_by="inherited"), ["reason.good_rule"]),
        (mine(rank=6, decided_by="rule"), ["reason.good_rule"]),
        (mine(decided_by="rule", compares="ranks"), ["reason.group_listed"]),
        (mine(deciding=1, decided_by="rule", compares="ranks"), ["reason.you_listed"]),
        (mine(decided_by="rule"), ["reason.group_ended"]),
        (mine(deciding=1, decided_by="rule"), ["reason.you_ended"]),
        (of_number(0, LOWERS, SAME), ["factor.group_lowers"]),
        (of_number(0, replace(LOWERS, only_adds=True), SAME), ["factor.group_lowers", "effect.adds"]),
        (of_number(0, RAISES, SAME), ["factor.group_raises"]),
        (of_number(0, replace(RAISES, only_adds=True), SAME), ["factor.group_raises"]),
        (of_number(1, SAME, LOWERS), ["factor.you_lowers"]),
        (of_number(1, SAME, LOST), ["factor.you_no_shares"]),
        (of_number(0, None, None), ["factor.group_no_shares"]),
        (of_number(None, SAME, SAME), ["reason.factor_same"]),
        (of_number(None, None, SAME), ["reason.factor_same"]),
        (of_number(None, LOWERS, SAME), ["reason.factor_more"]),
        (of_number(None, LOWERS, SAME, rank=6), ["reason.factor_less"]),
        (mine(deciding=None), ["rank.place"]),
        (mine(deciding=None, is_decided_above=True), ["reason.above"]),
        (mine(deciding=None, explained_by="number"), ["reason.number"]),
        (mine(deciding=None, rank=1, n_behind=0), ["reason.equal"]),
        (mine(deciding=None, rank=2, of=20, n_behind=0), ["reason.tied"]),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_each_reason_is_given_where_it_is_true(account: MyPriority, keys: list[str]) -> None:
    assert reasons(account) == keys


def test_an_entry_without_shares_of_its_own_has_no_level_of_its_own() -> None:
    group, own = mine().walk
    inheriting = replace(own, target=None)
    assert reasons(mine(walk=(group, inheriting), decided_by="rule")) == ["reason.no_own_shares"]
    assert reasons(mine(walk=(replace(group, target=None), inheriting), deciding=None)) == ["reason.no_level"]
    assert reasons(mine(walk=(group, inheriting), deciding=None)) == ["rank.place"]


def test_what_others_cannot_overtake_is_now_without_a_lead() -> None:
    """A date of being overtaken is given only where this level decides, and its use is below the target."""
    ahead = partial(mine, group="under", rank=6)
    assert when(ahead(), outlook(at=days(31))) == ["when.lead"]
    assert when(ahead(decided_by="rule"), outlook(at=days(31))) == ["when.now"]
    assert when(ahead(deciding=None), outlook(at=days(31))) == ["when.now"]
    assert when(mine(rank=6, group="on"), outlook(at=days(31))) == ["when.now"]
    assert when(ahead()) == ["when.now"]
    assert when(mine(decided_by="inherited"), outlook(at=days(31))) == ["when.inherited"]
    assert when(mine(decided_by="rule"), outlook(at=days(31))) == ["when.equal"]
    assert when(of_number(0, LOST, SAME)) == ["when.no_shares"]


def test_one_earliest_and_latest_day_is_one_date() -> None:
    same = outlook(at=days(6), earliest=days(5.9), latest=days(6.1))
    (message,) = when_messages(mine(), same)
    assert message.key == ("when.recovers" if date(days(5.9)) == date(days(6.1)) else "when.recovers_between")
    assert when(mine(), outlook(at=days(6), earliest=days(6), latest=days(6))) == ["when.recovers"]
    assert when(mine(), outlook(at=days(6), earliest=days(6))) == ["when.recovers"]


@pytest.mark.parametrize(
    "more", [{"moment": Moment(AT, 2, "", "", AT, None, 2, None, None, False)}, {"error": "unmapped"}]
)
def test_the_queue_of_now_is_no_part_of_the_past_nor_of_an_account_without_an_entry(more: dict[str, Any]) -> None:
    queue = QueueFacts(["umea"], {}, "umea", 3, position=20, of=31, rank_use=[Message("x")])
    shown = decide(mine(), (), AccountFacts(queue=queue))
    assert [each.key for each in shown.queue] == ["queue.first"]
    assert shown.reason[-1].key == "x"
    hidden = decide(mine(**more), (), AccountFacts(queue=queue))
    assert hidden.queue == ()
    assert "x" not in [each.key for each in hidden.reason]


def test_advice_about_the_own_use_is_for_accounts_that_are_used_by_one_person() -> None:
    group, own = mine(own="over").walk
    shared = (group, replace(own, is_group=True))
    assert changes(mine(walk=shared, deciding=1, half_life_s=604_800.0)) == ["change.group"]
    assert changes(mine(walk=(replace(group, state="under"), replace(own, is_group=True)))) == [
        "change.nothing_yourself"
    ]
    assert changes(mine(own="over", decided_by="rule", half_life_s=60.0)) == ["change.own_use"], "not by the group's"


def test_the_number_of_schedulers_is_explained_by_its_algorithm() -> None:
    def number(**more: Any) -> Message:
        message = messages_of(mine(**more)).number
        assert message is not None
        return message

    for algorithm, key in (
        ("slurm-fair-tree", "number.fair_tree"),
        ("flux", "number.flux"),
        ("slurm-classic", "number.classic"),
        ("slurm-depth-oblivious", "number.depth_oblivious"),
    ):
        assert (number(algorithm=algorithm).key, number(algorithm=algorithm).values["damping"]) == (key, 1)
        assert number(algorithm=algorithm, settings={"damping_factor": 3}).values["damping"] == 3
    assert number(compares="deviations", priorities=(4.0, -2.0)).values["deviations"] == [4.0, -2.0]
    assert number(compares="deviations").key == "number.deviations"
    assert number(compares="ranks").key == "number.walk"
    assert number(compares="ranks", explained_by="ratio").key == "number.one"
    assert number(priorities=(0.5,), vector=(3,)).key == "number.levels"
    by_rank = number(settings={"resolution": 100, "factor_from": "rank"}, priorities=(0.5,), vector=(75,))
    assert (by_rank.key, by_rank.values["resolution"], by_rank.values["parts"]) == ("number.vector", 99, [75])
    assert number(settings={"resolution": 100, "factor_from": "key"}).key == "number.vector_key"
    assert number(rank=None).key == "number.fallback"
    assert number(rank=None, explained_by="number").key == "number.unranked"
    assert messages_of(mine(error="no_snapshot")).number is None


@each_case(
    ("queue", "keys"),
    [
        (None, []),
        (QueueFacts(), []),
        (QueueFacts(unread={"c2": AT, "c3": None}), ["queue.unread", "queue.never_read"]),
        (QueueFacts(["c1"], {"c2": AT}), ["queue.none", "queue.unread"]),
        (QueueFacts(["c1"], new_position=4, new_of=9, new_scheduler="c1"), ["queue.none", "queue.new"]),
        (
            QueueFacts(["c1"], {"c2": None}, new_position=4, new_of=9, new_partition="gpu", new_scheduler="c1"),
            ["queue.none", "queue.new_in_partition", "queue.never_read"],
        ),
        (QueueFacts(["c1"], {"c2": AT}, "c1", 2), ["queue.no_place", "queue.unread"]),
        (QueueFacts(["c1"], {}, "c1", 2, position=1, of=3), ["queue.first"]),
        (QueueFacts(["c1"], {}, "c1", 2, position=1, of=3, partition="gpu"), ["queue.first_in_partition"]),
        (
            QueueFacts(["c1"], {"c2": AT}, "c1", 2, position=5, of=9, group="climate", n_by_fairshare=0),
            ["queue.first", "queue.of_group", "queue.ahead", "queue.unread"],
        ),
    ],
    ids=lambda value: "",
)
def test_each_fact_of_the_queue_is_a_sentence(queue: QueueFacts | None, keys: list[str]) -> None:
    messages = queue_messages(queue)
    assert [message.key for message in messages] == keys
    numbers = {message.key: message.values for message in messages}
    if "queue.ahead" in numbers:
        assert (numbers["queue.ahead"]["n"], numbers["queue.ahead"]["by_fairshare"]) == (4, 0)


def test_a_job_of_no_size_is_every_job_and_one_of_any_size_none() -> None:
    assert _sentence(0.0, "core-hours") == "Every job changes your priority."
    assert _sentence(None, "core-hours").startswith("No job changes your priority now")
    assert _sentence(12.4, "core-hours") == "Jobs of up to 12.4 core-hours don’t change your priority."


def test_texts_of_a_start_are_listed_without_empty_ones() -> None:
    def start(*texts: str) -> JobStart:
        held = HeldStarts(None, 0, 30, is_low=False)
        return JobStart(None, None, None, None, True, AT, None, "", held, "", "soon", *texts)

    assert start("It starts.", "It was later.", "It is held.", "8 of 10 held.").sentences == [
        "It starts.",
        "It was later.",
        "It is held.",
        "8 of 10 held.",
    ]
    assert start("", "", "It is held.", "").sentences == ["It is held."]
    shape = NewJobShape("c1", "gpu", 4.0, 3600.0, "A job of 4 cores:")
    assert NewJobStart(shape, start("it starts.", "", "It is held.", "")).sentences == [
        "A job of 4 cores: it starts.",
        "It is held.",
    ]


def test_how_a_scheduler_uses_ranks_is_no_reason_without_one() -> None:
    facts = AccountFacts(queue=QueueFacts(["umea"], rank_use=[Message("x")]))
    assert [each.key for each in decide(mine(), (), facts).reason][-1] == "x"
    assert "x" not in [each.key for each in decide(mine(rank=None), (), facts).reason]


@pytest.mark.parametrize(
    ("position", "band"),
    [
        (RankPosition(2, 6, 3), "ahead"),  # 3 of the 5 others are behind
        (RankPosition(2, 6, 2), "middle"),  # the others tie
        (RankPosition(3, 6, 3), "middle"),
        (RankPosition(2, 20, 18), "near"),
        (RankPosition(4, 20, 16), "ahead"),
        (RankPosition(4, 6, 2), "middle"),
        (RankPosition(5, 6, 1), "behind"),
        (RankPosition(1, 1, 0), "only"),
    ],
    ids=str,
)
def test_a_position_is_named_by_tenths_and_thirds(position: RankPosition, band: str) -> None:
    assert position.band == band


def test_at_most_a_hundred_siblings_are_listed_around_an_entry() -> None:
    siblings = list(range(10, 310))
    assert _around(siblings, 160) == list(range(110, 210))
    assert _around(siblings, 59) == list(range(10, 110))
    assert _around(siblings, 61) == list(range(11, 111))
    assert _around(siblings, 309) == list(range(210, 310))
    assert _around(siblings[:40], 30) == siblings[:40]
