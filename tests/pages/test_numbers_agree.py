"""Before, change and after agree wherever they stand beside each other: what has changed looks changed, by that much.

Each face gets shares that one decimal would contradict: 6.84 % and 6.76 % look alike, 1.249 % and 1.251 % don't.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from apps.cli.management.commands import import_policy
from apps.pages.changes.review import moved_ranks
from apps.pages.changes.review import pages as review
from apps.pages.charges.adjustments import presenters as adjustments
from apps.pages.entry import presenters as entry
from apps.pages.policies.files import views as files
from terminal import fairshare

UID = UUID(int=1)
PAIRS = [(0.0684, 0.0676), (0.01249, 0.01251), (0.3, 0.29996), (0.0, 0.0004), (0.5, 0.5), (0.12, 0.25)]
Shown = tuple[str, str, str]  # before, change ("" where none is shown), after


def of_policy_file(before: float, after: float) -> Shown:
    change: Any = SimpleNamespace(path="/a", changes=[], before=before, after=after)
    line = files._line(change)
    return line["before"], "", line["after"]


def of_review(before: float, after: float) -> Shown:
    line: Any = SimpleNamespace(old=before, new=after, status="gone", uid=UID, name="a", above="/")
    row = review._target(SimpleNamespace(review=SimpleNamespace()), line)  # type: ignore[arg-type]
    return row["old"], row["change"], row["new"]


def of_adjustment(before: float, after: float) -> Shown:
    def numbers(actual: float) -> Any:
        return SimpleNamespace(usage=3600.0, actual=actual, priority=0.0, rank=None, factor=None, state="on")

    preview: Any = SimpleNamespace(before=numbers(before), after=numbers(after), target=after, usage=-1.0)
    settings = SimpleNamespace(metric={"weights": {"cpu_s": 1.0}}, tolerance={"relative": 0.0, "points": 0.0})
    page: Any = SimpleNamespace(view=SimpleNamespace(settings=settings, tree=SimpleNamespace(n_children=[0])), entry=0)
    rows = {label: (first, second) for label, first, second in adjustments.draw_effect(preview, page)["rows"]}
    return rows["Actual"][0], "", rows["Actual"][1]


def of_moved_ranks(before: float, after: float) -> Shown:
    moved: Any = SimpleNamespace(targets=(before, after), step="a", reason="shares")
    sentence = moved_ranks.RankMove.sentence.fget(moved)  # type: ignore[attr-defined]
    first, second = re.findall(r"<?[\d.]+\s%", sentence)
    return first, "", second


def of_import_command(before: float, after: float) -> Shown:
    line = import_policy._line(SimpleNamespace(path="/a", changes=["shares"], before=before, after=after))  # type: ignore[arg-type]
    shown = re.findall(r"<?[\d.]+\s%", line)
    return shown[0], "", shown[-1]


def of_terminal(before: float, after: float) -> Shown:
    target, actual, points = fairshare.beside({"target": before, "actual": after})
    return target, points, actual


FACES = [of_policy_file, of_review, of_adjustment, of_moved_ranks, of_import_command, of_terminal]


def number(text: str) -> float:
    return float(re.sub(r"[^\d.]", "", text))


@pytest.mark.parametrize("face", FACES, ids=lambda face: face.__name__)
@pytest.mark.parametrize(("before", "after"), PAIRS)
def test_shares_before_and_after_and_their_change_agree(
    face: Callable[[float, float], Shown], before: float, after: float
) -> None:
    first, change, second = face(before, after)
    assert (first == second) == (before == after), f"{first} to {second}"
    if change and before != after:
        assert number(change) == pytest.approx(abs(number(second) - number(first)), abs=1e-9), (first, change, second)


@pytest.mark.parametrize(("before", "after"), PAIRS)
def test_a_row_of_the_effect_on_an_entry_changes_by_what_its_targets_show(before: float, after: float) -> None:
    """Its column has one decimal, so a change that vanishes there is <0.1."""
    row: Any = SimpleNamespace(
        name="a",
        uid=UID,
        is_changed=True,
        before=SimpleNamespace(target=before, actual=before, state="on", suppressed=False),
        after=SimpleNamespace(target=after, actual=before, state="on", suppressed=False),
        target_shift=after - before,
        moves=None,
        projection_before=None,
        projection_after=None,
    )
    shown = entry._line(row, "grid")
    if before == after:
        assert shown.change == "±0"
    elif round(before * 100, 1) == round(after * 100, 1):
        assert shown.change == "<0.1"
    else:
        expected = abs(round(after * 100, 1) - round(before * 100, 1))
        assert number(shown.change) == pytest.approx(expected)
