"""A policy's published revisions: by day, and to choose from for a comparison."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from django.http import HttpRequest
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from apps.core import clock
from apps.core.errors import FieldProblem, Invalid
from apps.core.typed_numbers import read_whole
from apps.mapping.permissions import load_visibility
from apps.policies.access.scope import Visibility
from apps.policies.changesets.change_sets import ChangeSetAccess
from apps.policies.models import Policy, Revision
from apps.policies.publishing.revert import revisions_reverted
from apps.policies.selectors import list_revisions
from apps.policies.tree.stored import load_tree
from apps.priorities.sentences import numbers
from apps.web.changes.change_titles import ChangeTitle, titles_of
from apps.web.changes.entry_changes import origin_text
from apps.web.shell import presentation
from apps.web.shell.requests import actor_of

PAGE = 50
_MOST_OPTIONS = 300


@dataclass(frozen=True, slots=True)
class RevisionRow:
    """One row of the list. change_url: empty for readers who may not see the change set."""

    revision: Revision
    title: str
    reason: str
    note: str
    origin: str
    change_url: str
    reverted_by: int | None


def revision_rows(
    request: HttpRequest, policy: Policy, *, before: int | None, query: str
) -> tuple[list[RevisionRow], int | None]:
    """One page of the list, and the revision number that the next page starts before."""
    revisions = list_revisions(policy=policy, sees=sees_of(request, policy), before=before, query=query, limit=PAGE + 1)
    older = revisions[PAGE - 1].number if len(revisions) > PAGE else None
    shown = revisions[:PAGE]
    undone = revisions_reverted(policy, [revision.number for revision in shown])
    access = ChangeSetAccess(policy, actor_of(request), clock.now())
    open_to_reader = [
        revision.change_set
        for revision in shown
        if not revision.is_outside_view and access.may_see(revision.change_set)
    ]
    titles = titles_of(open_to_reader, actor=actor_of(request), at=clock.now())
    return [_row(revision, undone, titles.get(revision.change_set_id)) for revision in shown], older


def _row(revision: Revision, undone: dict[int, int], title: ChangeTitle | None) -> RevisionRow:
    """title: None for readers who may not see the change set, for whom its reason is the title."""
    change_set = revision.change_set
    if revision.is_outside_view:
        return RevisionRow(revision, _("Changes outside your view"), "", "", "", "", undone.get(revision.number))
    n = revision.n_changed
    note = ngettext("%(n)s entry changed", "%(n)s entries changed", n) % {"n": numbers.count(n)} if n else ""
    origin = origin_text(change_set.origin)
    if change_set.reverts_number:
        origin = _("Undoes revision %(n)s.") % {"n": change_set.reverts_number}
    return RevisionRow(
        revision=revision,
        title=title.text if title else presentation.first_line(revision.reason) or _("No reason given"),
        reason=title.reason if title else "",
        note=note or _("settings or usage adjustments"),
        origin=origin,
        change_url=reverse("pages:change", kwargs={"change_set": change_set.pk}) if title else "",
        reverted_by=undone.get(revision.number),
    )


def by_day(rows: Sequence[RevisionRow]) -> list[tuple[str, list[RevisionRow]]]:
    """Rows under headings such as Thu 26 November."""

    def key(row: RevisionRow) -> str:
        return presentation.day_heading(row.revision.published_at, clock.now())

    return [(day, list(some)) for day, some in groupby(rows, key)]


def sees_of(request: HttpRequest, policy: Policy) -> Visibility:
    """What the reader sees of the present tree."""
    return load_visibility(policy=policy, tree=load_tree(policy), at=clock.now(), actor=actor_of(request))


def options(request: HttpRequest, policy: Policy) -> list[dict[str, Any]]:
    """Revisions to choose from, newest first."""
    now = clock.now()
    label = _("Rev %(n)s, %(day)s: %(reason)s")
    return [
        {
            "number": revision.number,
            "label": label
            % {
                "n": revision.number,
                "day": presentation.day(revision.published_at, now),
                "reason": presentation.first_line(revision.reason) or _("outside your view"),
            },
        }
        for revision in list_revisions(policy=policy, sees=sees_of(request, policy), limit=_MOST_OPTIONS)
    ]


def read_revision_number(request: HttpRequest, name: str) -> int | None:
    """Revision number in the query string; raises Invalid if it is not a number."""
    text = request.GET.get(name, "")
    if not text:
        return None
    number = read_whole(text, 9)
    if number is None:
        problem = _("is not a number")
        raise Invalid(f"{name}: {problem}.", fields=[FieldProblem(name, problem)])
    return number
