"""My priority in words: the deciding level first, over and under instead of ratios."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from uuid import uuid4

from apps.dashboard.walk import tell
from apps.priorities.selectors import MyPriority, WalkStep


def _step(name: str, parent: str, target: float, actual: float, state: str, **more: object) -> WalkStep:
    given: dict[str, object] = {
        "uid": uuid4(), "path": f"/{name}", "kind": "vo", "shares": 1.0, "target_global": target,
        "priority": target - actual, "n_ahead": 1, "n_siblings": 2, "message_key": state,
        "is_group": name.startswith("VO"),
    }  # fmt: skip
    return WalkStep(name=name, parent_name=parent, target=target, actual=actual, state=state, **{**given, **more})  # type: ignore[arg-type]


MINE = MyPriority(
    account="dholm",
    namespace="hpc",
    policy_slug="grid",
    policy_name="SweGrid",
    entry_uid=uuid4(),
    entry_name="dholm",
    entry_path="/VO-A/dholm",
    walk=(
        _step("VO-A", "SweGrid", 0.30, 0.382, "over"),
        _step("dholm", "VO-A", 0.25, 0.241, "on", n_ahead=0, n_siblings=3),
    ),
    deciding=0,
    rank=67,
    of=69,
    factor=0.0435,
    priorities=(-0.273, 0.036),
    vector=(3633, 5180),
    key="36335180",
    algorithm="aequus",
    operator="relative",
    revision=128,
    as_of=datetime(2026, 12, 1, tzinfo=UTC),
)


def test_the_verdict_names_place_and_deciding_level() -> None:
    story = tell(MINE)
    assert story.verdict == "Behind most: rank 67 of 69"
    assert story.reason == ("Main reason: VO-A as a whole used 38.2\u00a0% of SweGrid against a target of 30.0\u00a0%.")
    assert story.own == "Your own use inside VO-A is on target."


def test_each_level_is_one_sentence_with_over_or_under_and_no_ratio() -> None:
    first, last = tell(MINE).levels
    assert first.decides
    assert "Over by 8.2 points" in first.sentence
    assert last.sentence.startswith("You are entitled to 25.0\u00a0% of VO-A and used 24.1\u00a0%.")
    assert first.ahead == "1 of 2 others are ahead of yours."
    assert last.ahead == "Nobody is ahead of you."


def test_the_last_line_tells_what_the_scheduler_gets() -> None:
    total = tell(MINE).total
    assert "(\u22120.273, +0.036)" in total
    assert "67 of 69" in total
    assert "0.0435" in total


def test_my_own_use_is_the_reason_when_the_last_level_decides() -> None:
    steps = (MINE.walk[0], _step("dholm", "VO-A", 0.25, 0.60, "over"))
    story = tell(replace(MINE, walk=steps, deciding=1))
    assert story.reason == "Main reason: you used 60.0\u00a0% of VO-A against a target of 25.0\u00a0%."
    assert story.own == ""


def test_no_deciding_level_and_no_rank_have_words_of_their_own() -> None:
    assert "no level sets you apart" in tell(replace(MINE, deciding=None)).reason
    unranked = tell(replace(MINE, rank=None, deciding=None))
    assert unranked.verdict == "Not ranked"
    assert "fallback factor" in unranked.total


def test_an_entry_that_inherits_has_no_bar_but_a_sentence() -> None:
    dissolved = replace(MINE.walk[0], target=None, actual=None, state="unknown")
    first = tell(replace(MINE, walk=(dissolved, MINE.walk[1]), deciding=None)).levels[0]
    assert first.bar is None
    assert "compete one level up" in first.sentence
