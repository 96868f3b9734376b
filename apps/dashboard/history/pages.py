"""What the pages of a policy's history are made of: revisions by day, choices, and whether there is a way back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from typing import Any

from django.http import HttpRequest
from django.urls import reverse
from django.utils import formats, timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from apps.core import clock
from apps.core.errors import FieldProblem, Invalid
from apps.dashboard.history import difference_lines
from apps.dashboard.review import words as change_words
from apps.dashboard.shell import presentation
from apps.dashboard.shell.actor import actor_of
from apps.policies.changesets import drafts
from apps.policies.changesets.change_sets import ChangeSetAccess
from apps.policies.models import Policy, Revision
from apps.policies.publishing.revert import revisions_reverted
from apps.policies.selectors import list_revisions

PAGE = 50
_MOST_OPTIONS = 300


@dataclass(frozen=True, slots=True)
class RevisionRow:
    """One line of the list. `change_url` is empty for who may not see the change set."""

    revision: Revision
    title: str
    note: str
    origin: str
    change_url: str
    reverted_by: int | None


def revision_rows(
    request: HttpRequest, policy: Policy, *, before: int | None, query: str
) -> tuple[list[RevisionRow], int | None]:
    """A page of the list, and with which revision the next one goes on."""
    found = list_revisions(policy=policy, before=before, query=query, limit=PAGE + 1)
    older = found[PAGE - 1].number if len(found) > PAGE else None
    shown = found[:PAGE]
    undone = revisions_reverted(policy, [revision.number for revision in shown])
    access = ChangeSetAccess(policy, actor_of(request), clock.now())
    return [_row(revision, undone, access.may_see(revision.change_set)) for revision in shown], older


def _row(revision: Revision, undone: dict[int, int], may_see: bool) -> RevisionRow:
    change_set = revision.change_set
    n = revision.n_changed
    note = ngettext("%(n)s entry changed", "%(n)s entries changed", n) % {"n": presentation.count(n)} if n else ""
    origin = difference_lines.origin_words(change_set.origin)
    if change_set.reverts_number:
        origin = _("undoes revision %(n)s") % {"n": change_set.reverts_number}
    return RevisionRow(
        revision=revision,
        title=revision.reason.strip().split("\n", 1)[0] or change_words.title_of(change_set),
        note=note or _("settings or usage adjustments"),
        origin=origin,
        change_url=reverse("dashboard:change", kwargs={"change_set": change_set.pk}) if may_see else "",
        reverted_by=undone.get(revision.number),
    )


def by_day(rows: Sequence[RevisionRow]) -> list[tuple[str, list[RevisionRow]]]:
    """Under headings such as Thu 26 November."""

    def key(row: RevisionRow) -> str:
        return day_heading(row.revision.published_at)

    return [(day, list(some)) for day, some in groupby(rows, key)]


def day_heading(at: datetime) -> str:
    here = timezone.localtime(at)
    is_this_year = here.year == timezone.localtime(clock.now()).year
    return formats.date_format(here, "D j F" if is_this_year else "D j F Y")


def options(policy: Policy) -> list[dict[str, Any]]:
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
                "reason": revision.reason.split("\n", 1)[0][:60],
            },
        }
        for revision in list_revisions(policy=policy, limit=_MOST_OPTIONS)
    ]


def may_draft(request: HttpRequest, policy: Policy) -> bool:
    """Whether this person changes anything here: others are offered no way back."""
    return drafts.may_edit(policy, actor_of(request), clock.now())


def number_asked(request: HttpRequest, name: str) -> int | None:
    """A revision's number from the address; what is none is refused, not guessed at."""
    text = request.GET.get(name, "")
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        problem = _("is not a revision number")
        raise Invalid(f"{name}: {problem}.", fields=[FieldProblem(name, problem)])
    return int(text)
