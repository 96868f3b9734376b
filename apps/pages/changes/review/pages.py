"""Template contexts of the review of a change set: summary, tabs (changes, effect, checks, discussion) and decision."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from django.http import HttpRequest
from django.urls import NoReverseMatch, reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from apps.accounts.selectors import display_name
from apps.core import clock
from apps.pages.changes.review import followup
from apps.pages.changes.review import text as review_text
from apps.pages.changes.review.back_test import back_test_context
from apps.pages.changes.review.reviewed_change import (
    LeafLine,
    ReviewPage,
    TargetLine,
    get_review_page,
    indirect_targets,
)
from apps.policies.changesets.change_sets import ChangeSetAccess
from apps.policies.changesets.checks import Check
from apps.policies.models import ChangeSet
from apps.policies.publishing.size_guard import second_persons
from apps.priorities.sentences import numbers
from apps.web.changes.change_titles import title_of
from apps.web.shell import lines, presentation
from apps.web.shell.requests import actor_of
from apps.web.svg import moves
from apps.web.texts.shortened import shortened

TABS = ("diff", "effect", "back-test", "checks", "discussion")
SHOWN = 20
MOST_REVIEW_ROWS = 200
State = ChangeSet.State
STATES: dict[str, tuple[str, str]] = {  # badge and icon
    State.DRAFT: ("", "pencil"),
    State.PROPOSED: ("warn", "clock"),
    State.APPROVED: ("ok", "check"),
    State.PUBLISHED: ("version", "git-commit"),
    State.WITHDRAWN: ("", "x"),
}


@dataclass(frozen=True)
class Decision:
    """Actions that the reader may take on the change set, and the reasons against the others."""

    page: ReviewPage

    @property
    def _change_set(self) -> ChangeSet:
        return self.page.review.change_set

    @property
    def is_open(self) -> bool:
        return self.page.review.is_open

    @property
    def is_asked(self) -> bool:
        return self._change_set.state in (State.PROPOSED, State.APPROVED)

    @cached_property
    def is_mine(self) -> bool:
        """Whether the reader is its author or a manager of the whole policy."""
        return ChangeSetAccess(self.page.review.policy, self.page.actor, self.page.now).is_of(self._change_set)

    @cached_property
    def blocks(self) -> list[Check]:
        return [check for check in self.page.checks if check.state == "block"]

    @cached_property
    def has_approved(self) -> bool:
        user = self.page.actor.user
        own_approvals = self._change_set.approvals.filter(version=self._change_set.version, user=user)
        return user is not None and own_approvals.exists()

    @cached_property
    def why_not_approve(self) -> str:
        refusal = self.page.review.why_not_approve(self.page.actor)
        return "" if refusal is None else refusal.message

    @cached_property
    def why_not_publish(self) -> str:
        refusal = self.page.review.why_not_publish(self.page.actor)
        return "" if refusal is None else refusal.message

    @property
    def may_approve(self) -> bool:
        return self.is_asked and not self.why_not_approve

    @property
    def may_publish(self) -> bool:
        return self.is_open and not self.why_not_publish and not self.blocks

    @property
    def may_propose(self) -> bool:
        return self._change_set.state == State.DRAFT and self.is_mine and bool(self._change_set.operations)

    @property
    def may_withdraw(self) -> bool:
        return self.is_open and self.is_mine

    @property
    def may_rebase(self) -> bool:
        return self.is_open and self.is_mine and bool(self.page.review.conflicts)

    @property
    def primary(self) -> str:
        """Name of the action whose button is highlighted."""
        if self.may_approve and not self.has_approved:
            return "approve"
        return "publish" if self.may_publish else "propose"

    @property
    def is_only_read(self) -> bool:
        return not (self.may_approve or self.may_publish or self.may_propose or self.may_withdraw)

    @cached_property
    def is_scheduled(self) -> bool:
        return self._change_set.effective_at is not None and self._change_set.state == State.APPROVED


def open_page(request: HttpRequest, change_set: int) -> ReviewPage:
    """Load the review of a change set, and mark its policy as the one that the navigation shows."""
    page = get_review_page(id=change_set, actor=actor_of(request), at=clock.now())
    request.policy_slug = page.review.policy.slug  # type: ignore[attr-defined]
    return page


def page_context(page: ReviewPage, tab: str, *, show_all: bool = False, on: str = "") -> dict[str, Any]:
    """Context of the whole page with one of its tabs."""
    review, change_set = page.review, page.review.change_set
    slug = review.policy.slug
    css, icon = STATES[change_set.state]
    revision = getattr(change_set, "revision", None) if change_set.state == State.PUBLISHED else None
    title = title_of(change_set, actor=page.actor, at=page.now)
    return {
        **tab_context(page, tab, show_all=show_all, on=on),
        "title": title.text,
        "reason": change_set.reason.strip() if change_set.reason.strip() != title.text else "",
        "state": change_set.get_state_display(),
        "state_css": css,
        "state_icon": icon,
        "revision": revision,
        "kpis": kpis(page),
        **followup.context_of(page, show_all=show_all),
        "decision": Decision(page),
        "approvals": approvals(page),
        "digest": [check for check in page.checks if check.state != "ok"],
        "n_passed": sum(check.state == "ok" for check in page.checks),
        "edit_url": draft_url(change_set.pk) if Decision(page).may_withdraw and not review.is_whole else "",
        "crumbs": [
            {"label": review.policy.name, "url": reverse("pages:policy", kwargs={"policy": slug})},
            {"label": _("Changes"), "url": reverse("pages:changes", kwargs={"policy": slug})},
            {"label": title.text},
        ],
    }


def tab_context(page: ReviewPage, tab: str, *, show_all: bool, on: str) -> dict[str, Any]:
    """Context of one tab and of the row of tabs above it."""
    build = {
        "diff": _diff,
        "effect": _effect,
        "back-test": _back_test,
        "checks": _checks,
        "discussion": _discussion,
    }[tab]
    change_set = page.review.change_set
    n_marked = sum(check.state != "ok" for check in page.checks)
    counts = {"diff": page.n_edits, "checks": n_marked, "discussion": change_set.comments.count()}
    names = {
        "diff": _("Changes"),
        "effect": _("Effect"),
        "back-test": _("Back-test"),
        "checks": _("Checks"),
        "discussion": _("Discussion"),
    }
    tabs = [
        {
            "key": key,
            "name": names[key],
            "count": counts.get(key, 0),
            "alert": key == "checks",
            "url": tab_url(change_set.pk, key),
            "part": part_url(change_set.pk, key),
        }
        for key in TABS
    ]
    return {
        "page": page,
        "review": page.review,
        "change_set": change_set,
        "policy": page.review.policy.slug,
        "tab": tab,
        "tabs": tabs,
        "show_all": show_all,
        **build(page, show_all=show_all, on=on),
    }


def tab_url(change_set: int, tab: str = "diff") -> str:
    name = "change" if tab == "diff" else f"change-{tab}"
    return reverse(f"pages:{name}", kwargs={"change_set": change_set})


def part_url(change_set: int, tab: str) -> str:
    return reverse(f"pages:change-part-{tab}", kwargs={"change_set": change_set})


def draft_url(change_set: int) -> str:
    """URL of the editor for a draft; empty if there is no editor."""
    try:
        return reverse("pages:draft", kwargs={"change_set": change_set})
    except NoReverseMatch:
        return ""


def kpis(page: ReviewPage) -> list[dict[str, str]]:
    """Labels, values and notes of the summary card."""
    n_indirect = len(indirect_targets(page.targets))
    indirect = ngettext("%(n)s target changed indirectly", "%(n)s targets changed indirectly", n_indirect) % {
        "n": numbers.count(n_indirect)
    }
    figures = [
        {"key": "edits", "label": _("Edits"), "value": numbers.count(page.n_edits), "note": indirect},
        _rank_changes(page),
    ]
    gains = max(page.targets, key=lambda line: line.change, default=None)
    loses = min(page.targets, key=lambda line: line.change, default=None)
    if gains is not None and gains.change > 0:
        figures.append(_extreme("gain", _("Largest gain"), gains))
    if loses is not None and loses.change < 0:
        figures.append(_extreme("loss", _("Largest loss"), loses))
    if page.review.is_open and page.effect.as_of is not None:
        note = _("Rev %(n)s") % {"n": page.effect.head_number}
        at = presentation.clock_time(page.effect.as_of, page.now)
        figures.append({"key": "simulated", "label": _("Usage as of"), "value": at, "note": note})
    return figures


def _rank_changes(page: ReviewPage) -> dict[str, str]:
    """Number of rank changes, as in the bars of the effect; number of changed targets if ranks are unknown."""
    ranks = page.n_rank_changes if page.review.is_open else None
    label = _("Users whose target changes") if ranks is None else _("Rank changes")
    n, of = (page.n_people, page.n_leaves) if ranks is None else ranks
    note = _("of %(n)s") % {"n": numbers.count(of)}
    key = "targets" if ranks is None else "ranks"
    return {"key": key, "label": label, "value": numbers.count(n), "note": note}


def approvals(page: ReviewPage) -> list[dict[str, Any]]:
    """Approvals of the change set, and whether each still counts for its current version."""
    valid = {approval.pk for approval in second_persons(page.review.change_set, page.now)}
    rows = page.review.change_set.approvals.order_by("pk")
    return [{"name": display_name(row.user_name), "at": row.created_at, "counts": row.pk in valid} for row in rows]


def _extreme(key: str, label: str, line: TargetLine) -> dict[str, str]:
    words = {"whole": _whole(line), "name": shortened(line.name, 26)}
    note = _("points of %(whole)s: %(name)s") % words
    return {"key": key, "label": label, "value": presentation.change(line.old, line.new), "note": note}


def _diff(page: ReviewPage, *, show_all: bool, on: str) -> dict[str, Any]:
    edits = review_text.edit_lines(page)
    effective = indirect_targets(page.targets)
    most = MOST_REVIEW_ROWS if show_all else SHOWN
    return {
        "edits": edits[:MOST_REVIEW_ROWS],
        "n_more_edits": max(0, len(edits) - MOST_REVIEW_ROWS),
        "effective": [_target(page, line) for line in effective[:most]],
        "n_effective": len(effective),
        "n_more_effective": max(0, len(effective) - most),
        "outside": page.outside if page.outside.n_entries or page.outside.n_edits else None,
        "outside_points": presentation.change(0.0, page.outside.points),
        "groups": _groups(effective),
        "n_diluted": sum(line.change < 0 for line in effective),
    }


def _groups(effective: Sequence[TargetLine]) -> str:
    """Numbers of entries that lose or gain by group, such as “9 lower below /physics”."""
    counts = Counter((line.above or "/", line.change < 0) for line in effective)
    text = {True: _("%(n)s lower below %(path)s"), False: _("%(n)s higher below %(path)s")}
    parts = [text[falls] % {"n": numbers.count(n), "path": path} for (path, falls), n in counts.items()]
    return ", ".join(parts[:3]) + ("…" if len(parts) > 3 else "")


def _effect(page: ReviewPage, *, show_all: bool, on: str) -> dict[str, Any]:
    most = MOST_REVIEW_ROWS if show_all else SHOWN
    targets = page.targets
    drawn = [(_short(line), _change(line), line.old, line.new) for line in targets[:SHOWN]]
    leaves = page.leaves(most) if page.review.is_open else []
    projection = page.effect.projection if page.review.is_open else None
    return {
        "targets": [_target(page, line) for line in targets[:most]],
        "n_more_targets": max(0, len(targets) - most),
        "wide": moves.draw_dumbbell(drawn, width=720) if drawn else None,
        "narrow": moves.draw_dumbbell(drawn, width=340, narrow=True) if drawn else None,
        "effect": page.effect if page.review.is_open and page.edits else None,
        "days": projection.horizons_days[1:] if projection is not None else (),
        "leaves": [_leaf(page, line) for line in leaves],
        "n_moving": page.n_moving if page.review.is_open else 0,
        "n_more_leaves": max(0, page.n_moving - most) if page.review.is_open else 0,
        "bars": [{"bar": bar, "words": _range_text(bar.step)} for bar in moves.draw_moves(page.histogram)]
        if leaves
        else [],
        "changed_settings": review_text.settings_lines(
            page.review.settings.parts(), page.review.wanted.parts(), page.review.changed_settings
        ),
        "outside": page.outside if page.outside.n_entries else None,
        "outside_points": presentation.change(0.0, page.outside.points),
    }


def _back_test(page: ReviewPage, *, show_all: bool, on: str) -> dict[str, Any]:
    return back_test_context(page, show_all=show_all)


def _checks(page: ReviewPage, *, show_all: bool, on: str) -> dict[str, Any]:
    return {"checks": page.checks, "decision": Decision(page)}


def _discussion(page: ReviewPage, *, show_all: bool, on: str) -> dict[str, Any]:
    comments = [
        {
            "comment": comment,
            "about": "" if comment.operation is None else review_text.sentence_of(page, comment.operation),
        }
        for comment in page.review.change_set.comments.select_related("author")
    ]
    seen: set[int] = set()
    choices = []
    for edit in page.edits[:MOST_REVIEW_ROWS]:
        if not edit.is_hidden and edit.index not in seen:
            seen.add(edit.index)
            choices.append({"index": edit.index, "words": review_text.sentence_of(page, edit.index)})
    return {"comments": comments, "choices": choices, "on": int(on) if on.isdecimal() and len(on) < 6 else None}


def _target(page: ReviewPage, line: TargetLine) -> dict[str, Any]:
    status = {"new": _("new"), "gone": _("archived"), "moved": _("moved"), "": ""}[line.status]
    is_here = line.status in ("", "moved") and page.review.policy.head_number >= page.review.number
    shares = numbers.change_shares(line.old, line.new)
    return {
        "line": line,
        "url": lines.entry_url(page.review.policy.slug, line.uid, line.name) if is_here else "",
        "old": _("none") if line.old is None else shares.before,
        "new": _("none") if line.new is None else shares.after,
        "change": _change(line),
        "status": status,
    }


def _leaf(page: ReviewPage, line: LeafLine) -> dict[str, Any]:
    moved = line.moved
    words = "" if moved is None or moved == 0 else _moved_text(moved)
    return {
        "line": line,
        "url": "" if line.reason == "new" else lines.entry_url(page.review.policy.slug, line.uid, line.name),
        "now": _rank(line.without[0]),
        "after": _rank(line.ranks_with[0]),
        "moved": words,
        "later": [
            {"day": day, "ranks_with": _rank(after), "without": _rank(before)}
            for day, before, after in zip(
                (page.effect.projection.horizons_days[1:] if page.effect.projection else ()),
                line.without[1:],
                line.ranks_with[1:],
                strict=True,
            )
        ],
        "factor": numbers.factor(line.factor_after),
        "factor_before": numbers.factor(line.factor_before),
        "reason": review_text.reason_text(line),
    }


def _moved_text(moved: int) -> str:
    if moved > 0:
        return ngettext("%(n)s up", "%(n)s up", moved) % {"n": numbers.count(moved)}
    return ngettext("%(n)s down", "%(n)s down", -moved) % {"n": numbers.count(-moved)}


def _range_text(step: int) -> str:
    """Range of rank changes that a bar counts."""
    if step == 0:
        return _("same place")
    low, high = {1: (1, 9), 2: (10, 99), 3: (100, None)}[abs(step)]
    amount = f"{low}–{high}" if high else _("%(n)s and more") % {"n": low}
    return (_("%(n)s up") if step > 0 else _("%(n)s down")) % {"n": amount}


def _rank(rank: int | None) -> str:
    return numbers.UNKNOWN if rank is None else numbers.count(rank)


def _change(line: TargetLine) -> str:
    return _("%(n)s points of %(whole)s") % {"n": presentation.change(line.old, line.new), "whole": _whole(line)}


def _whole(line: TargetLine) -> str:
    """Whose usage the target is a part of."""
    return line.above.rpartition("/")[2] or _("the policy")


def _short(line: TargetLine) -> str:
    """Name and group of an entry, shortened to the 26 characters that fit in the chart."""
    group = line.above.rpartition("/")[2]
    return shortened(f"{line.name}, {group}" if group else line.name, 26)
