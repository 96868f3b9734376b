"""My priority in words: the deciding level first, over and under instead of ratios."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime
from uuid import uuid4

import pytest

from apps.explain.my_priority import MyPriority
from apps.explain.path import WalkStep
from apps.explain.rank_position import RankPosition
from apps.priorities.sentences import build_message
from apps.web.texts.account_explanation import build_account_explanation


def _step(name: str, parent: str, target: float, actual: float, state: str, **more: object) -> WalkStep:
    given: dict[str, object] = {
        "uid": uuid4(),
        "path": f"/{name}",
        "kind": "vo",
        "shares": 1.0,
        "target_global": target,
        "priority": target - actual,
        "n_ahead": 1,
        "n_siblings": 2,
        "message_key": state,
        "is_group": name.startswith("VO"),
    }
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
        _step("VO-A", "SweGrid", 0.30, 0.382, "over", leaves_ahead=66, leaves_behind=2),
        _step("dholm", "VO-A", 0.25, 0.241, "on", n_ahead=0, n_siblings=3),
    ),
    deciding=0,
    standing=RankPosition(67, 69, 2),
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


def test_the_verdict_names_rank_and_deciding_level() -> None:
    story = build_account_explanation(MINE)
    facts = {"name": "VO-A", "parent": "SweGrid", "actual": 0.382, "target": 0.30}
    assert story.verdict.heading == build_message("verdict.behind", rank=67, of=69)
    assert story.verdict.reason == (build_message("reason.group_bad_over", **facts, n=66),)


def test_each_level_is_one_sentence_with_over_or_under_and_no_ratio() -> None:
    story = build_account_explanation(MINE)
    first, last = story.levels
    standings = [level.standing for level in story.messages.levels]
    assert first.decides
    assert [found.key for found in standings] == ["walk.over", "walk.on_you"]
    assert standings[0].values["points"] == pytest.approx(8.2)
    assert standings[1].values == {"name": "dholm", "parent": "VO-A", "target": 0.25, "actual": 0.241}
    assert [first.sentence, last.sentence] == [found.text for found in standings]
    assert [each for each in ("VO-A", "25.0\u00a0%", "24.1\u00a0%") if each not in last.sentence] == []
    assert "8.2" in first.sentence
    assert not re.search(r"\b0\.\d", first.sentence + last.sentence), "no bare ratio"
    assert first.ahead == build_message("ahead.some_yours", n_ahead=1, n_siblings=2).text
    assert last.ahead == build_message("ahead.nobody_you").text


def test_the_last_line_shows_the_value_sent_to_schedulers() -> None:
    story = build_account_explanation(MINE)
    total = story.total
    assert story.messages.number is not None
    assert story.messages.number.key == "number.levels"
    assert (story.messages.number.values["rank"], story.messages.number.values["of"]) == (67, 69)
    assert "(\u22120.273, +0.036)" in total
    assert [each for each in ("67", "69") if each not in total] == []
    assert "0.0435" in total


def test_own_usage_is_the_reason_if_the_last_level_decides() -> None:
    steps = (MINE.walk[0], _step("dholm", "VO-A", 0.25, 0.60, "over", leaves_ahead=66))
    story = build_account_explanation(replace(MINE, walk=steps, deciding=1))
    facts = {"name": "dholm", "parent": "VO-A", "actual": 0.60, "target": 0.25}
    assert story.verdict.reason == (build_message("reason.you_bad_over", **facts, n=66),)


def test_no_deciding_level_and_no_rank_have_their_own_sentences() -> None:
    equal = build_account_explanation(replace(MINE, deciding=None, standing=RankPosition(1, 69, 0)))
    assert equal.verdict.reason == (build_message("reason.equal", n=0),)
    above = build_account_explanation(replace(MINE, deciding=None, is_decided_above=True))
    assert above.verdict.reason == (build_message("reason.above"),)
    unranked = build_account_explanation(replace(MINE, standing=None, deciding=None))
    assert unranked.verdict.heading == build_message("verdict.unranked")
    assert unranked.messages.number == build_message("number.fallback", factor=0.0435)
    assert "0.0435" in unranked.total


def test_an_inheriting_entry_has_a_sentence_instead_of_a_bar() -> None:
    dissolved = replace(MINE.walk[0], target=None, actual=None, state="unknown")
    story = build_account_explanation(replace(MINE, walk=(dissolved, MINE.walk[1]), deciding=None))
    assert story.levels[0].bar is None
    assert story.messages.levels[0].standing == build_message("walk.dissolved", name="VO-A", parent="SweGrid")
    assert story.levels[0].sentence == story.messages.levels[0].standing.text
