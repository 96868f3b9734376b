"""Texts and rows of the strip that follows a publication, and of the list of people whose rank changed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import groupby
from typing import Any

from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from apps.core.errors import NotFound
from apps.pages.changes.review.moved_ranks import FOLLOWED_FOR, Followup, RankMove, followup_of
from apps.pages.changes.review.reviewed_change import ReviewPage
from apps.priorities.sentences import numbers
from apps.runs.waiting import waiting_of
from apps.web.shell import lines, presentation

SHOWN = 8  # groups before "show all"
MOST_FOLLOWED_PEOPLE = 100  # people listed in one group
_TRACK = (4.0, 128.0)  # x of the first and the last rank, in pixels


@dataclass(frozen=True, slots=True)
class Strip:
    """One state of the strip. left_s: seconds until the recompute is due, while a script counts them down."""

    state: str
    heading: str
    text: str
    icon: str
    left_s: int | None = None


def context_of(page: ReviewPage, *, show_all: bool = False) -> dict[str, Any]:
    """Context of the strip; empty for change sets that are not published or were published long ago."""
    try:
        followup = followup_of(page)
    except NotFound:
        return {}
    if followup.now > followup.revision.published_at + FOLLOWED_FOR or followup.revision.number < 2:
        return {}
    return {
        "policy": page.review.policy.slug,
        "followup": followup,
        "strip": strip_of(followup),
        "followup_tag": tag_of(followup),
        "followup_url": reverse("pages:change-followup", kwargs={"change_set": page.review.change_set.pk}),
        "may_undo": page.review.why_not_publish(page.actor) is None,
        **_rank_changes(followup, show_all=show_all),
    }


def tag_of(followup: Followup) -> str:
    """ETag of the strip: it changes exactly when the content of the strip or of the list changes."""
    run = None if followup.run is None else (followup.run.pk, followup.run.state, followup.run.error)
    snapshots = [
        None if snapshot is None else snapshot.snapshot_id
        for snapshot in (followup.served, followup.before, followup.after)
    ]
    content = (followup.state, run, snapshots if followup.state != "done" else snapshots[1:])
    return sha256(repr(content).encode()).hexdigest()[:32]


def strip_of(followup: Followup) -> Strip:
    number = followup.revision.number
    if followup.after is not None:
        at = presentation.clock_time(followup.after.computed_at, followup.now)
        heading = _("Priorities updated to revision %(n)s at %(at)s.") % {"n": number, "at": at}
        return Strip("done", heading, _result(followup), "circle-check")
    meanwhile = _served(followup)
    if followup.state == "failed" and followup.run is not None:
        at = presentation.clock_time(followup.run.finished_at or followup.now, followup.now)
        text = _("Attempt %(n)s failed: %(error)s") % {"n": followup.run.attempts, "error": followup.run.error[:200]}
        return Strip(
            "failed", _("The recompute failed at %(at)s.") % {"at": at}, f"{text} {meanwhile}", "alert-octagon"
        )
    if followup.state == "slow":
        usual = presentation.age(followup.expected_duration_s)
        text = _("Usually %(usual)s.") % {"usual": usual}
        return Strip("slow", _("The recompute is taking longer than usual."), f"{text} {meanwhile}", "clock")
    if followup.state == "running":
        n = len(followup.page.review.after)
        heading = ngettext("Recomputing %(n)s entry.", "Recomputing %(n)s entries.", n) % {"n": numbers.count(n)}
        text = _("Usually %(usual)s.") % {"usual": presentation.age(followup.expected_duration_s)}
        return Strip("running", heading, f"{text} {meanwhile}", "refresh")
    left_s = max(round((followup.due_at - followup.now).total_seconds()), 0)
    heading = _("Revision %(n)s is published. Priorities follow in") % {"n": number}
    waiting = waiting_of(followup.run, at=followup.now)
    text = meanwhile if waiting is None else f"{waiting.sentence} {meanwhile}"
    return Strip("waiting", heading, text, "clock", left_s)


def _served(followup: Followup) -> str:
    """Sentence on the revision whose priorities schedulers use until the recompute is done."""
    if followup.served is None:
        return _("Schedulers get no priorities yet.")
    return _("Schedulers get the priorities of revision %(n)s from %(at)s until then.") % {
        "n": followup.served.revision,
        "at": presentation.clock_time(followup.served.computed_at, followup.now),
    }


def _result(followup: Followup) -> str:
    n = len(followup.moves)
    if not n:
        return _("No rank changed.")
    up = sum(move.places > 0 for move in followup.moves)
    text = ngettext(
        "%(n)s of %(all)s people changed rank: %(up)s up, %(down)s down.",
        "%(n)s of %(all)s people changed rank: %(up)s up, %(down)s down.",
        n,
    ) % {"n": numbers.count(n), "all": numbers.count(followup.n_compared), "up": up, "down": n - up}
    differ = followup.n_differ
    if not differ:
        return text
    more = ngettext(
        "%(n)s differs from the preview, because usage arrived in between.",
        "%(n)s differ from the preview, because usage arrived in between.",
        differ,
    )
    return f"{text} {more % {'n': numbers.count(differ)}}"


def _moved_title(followup: Followup, n: int) -> str:
    if not n:
        return _("No rank changes") if followup.computed is not None else _("Rank changes")
    if followup.after is None:
        title = ngettext("%(n)s person will move", "%(n)s people will move", n)
    else:
        title = ngettext("%(n)s person moved", "%(n)s people moved", n)
    return title % {"n": numbers.count(n)}


def _rank_changes(followup: Followup, *, show_all: bool) -> dict[str, Any]:
    groups = list(_groups(followup))
    shown = groups if show_all else groups[:SHOWN]
    n = len(followup.moves)
    return {
        "moved_title": _moved_title(followup, n),
        "moved_is_expected": followup.after is None,
        "moved_is_known": followup.computed is not None,
        "moved_groups": shown,
        "n_more_groups": len(groups) - len(shown),
    }


def _groups(followup: Followup) -> Iterator[dict[str, Any]]:
    """Groups below the root with their people, sorted by largest rank change."""
    by_group = sorted(followup.moves, key=lambda move: str(move.group))
    grouped = [list(moves) for _group, moves in groupby(by_group, key=lambda move: move.group)]
    for moves in sorted(grouped, key=lambda moves: (-abs(moves[0].places), -len(moves), moves[0].group_name)):
        first = moves[0]
        yield {
            "name": first.group_name,
            "url": lines.entry_url(followup.revision.policy.slug, first.group, first.group_name),
            "n": len(moves),
            "before": _span([move.before for move in moves]),
            "after": _span([move.after for move in moves]),
            "places": places_text(first.places),
            "is_up": first.places > 0,
            "slope": _slope(moves, followup.n_ranked),
            "why": first.sentence,
            "people": [_person(followup, move) for move in moves[:MOST_FOLLOWED_PEOPLE]],
            "n_more": max(0, len(moves) - MOST_FOLLOWED_PEOPLE),
        }


def _person(followup: Followup, move: RankMove) -> dict[str, Any]:
    return {
        "name": move.name,
        "above": move.path.rpartition("/")[0],
        "url": lines.entry_url(followup.revision.policy.slug, move.uid, move.name),
        "before": numbers.count(move.before),
        "after": numbers.count(move.after),
        "expected": "" if move.expected in (None, move.after) else numbers.count(move.expected or 0),
        "places": places_text(move.places),
        "is_up": move.places > 0,
        "why": move.sentence,
    }


def places_text(moved: int) -> str:
    if moved > 0:
        return ngettext("%(n)s up", "%(n)s up", moved) % {"n": numbers.count(moved)}
    return ngettext("%(n)s down", "%(n)s down", -moved) % {"n": numbers.count(-moved)}


def _span(ranks: Sequence[int]) -> str:
    low, high = min(ranks), max(ranks)
    return numbers.count(low) if low == high else f"{numbers.count(low)}–{numbers.count(high)}"


def _slope(moves: Sequence[RankMove], n_ranked: int) -> dict[str, str]:
    """X positions of a group's mean rank before and after, on a line from the first rank to the last."""
    low, high = _TRACK
    scale = (high - low) / max(n_ranked - 1, 1)

    def x(ranks: Sequence[int]) -> str:
        return f"{low + (sum(ranks) / len(ranks) - 1) * scale:.1f}"

    return {"before": x([move.before for move in moves]), "after": x([move.after for move in moves])}
