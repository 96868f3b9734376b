"""A policy's history for templates: revisions by day, options, and differences between two revisions as rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from typing import Any

from django.http import HttpRequest
from django.urls import reverse
from django.utils import formats, timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from apps.core import clock
from apps.core.errors import FieldProblem, Invalid
from apps.core.typed_numbers import read_whole
from apps.mapping.permissions import load_visibility
from apps.pages.changes.review import text as review_text
from apps.policies.access.scope import Visibility
from apps.policies.changesets import drafts
from apps.policies.changesets.change_sets import ChangeSetAccess
from apps.policies.models import Policy, Revision
from apps.policies.publishing.revert import revisions_reverted
from apps.policies.selectors import list_revisions
from apps.policies.tree.revision_diff import EntryDifference
from apps.policies.tree.stored import load_tree
from apps.priorities.selectors import RevisionDiff
from apps.priorities.selectors.history import PLACE, HistoryLine
from apps.priorities.selectors.revision_differences import Correction
from apps.priorities.sentences import unit_of
from apps.web.shell import field_labels, lines, presentation
from apps.web.shell.requests import actor_of

# CSS class, icon and text alternative.
MARKS = {
    "added": ("add", "plus", gettext_lazy("Added")),
    "removed": ("del", "archive", gettext_lazy("Archived")),
    "moved": ("mov", "arrows-move", gettext_lazy("Moved")),
    "changed": ("chg", "pencil", gettext_lazy("Changed")),
    "kept": ("keep", "on", gettext_lazy("Targets changed indirectly")),
}


@dataclass(frozen=True, slots=True)
class DiffLine:
    """One changed field of one entry; lines after an entry's first show only the field."""

    css: str
    icon: str
    label: str
    name: str
    where: str
    url: str
    field: str
    before: str
    after: str
    effect: str
    is_first: bool


def diff_lines(diff: RevisionDiff, rows: Sequence[EntryDifference], *, now: int) -> Iterator[DiffLine]:
    """Rows of a comparison. An entry links to the later of the two revisions that has it."""

    def moment(row: EntryDifference) -> str:
        there = diff.before.number if row.change == "removed" else diff.after.number
        return "" if there == now else f"?at={there}"

    return entry_lines(rows, policy_slug=diff.policy.slug, moment=moment)


def entry_lines(
    rows: Sequence[EntryDifference], *, policy_slug: str, moment: Callable[[EntryDifference], str] = lambda row: ""
) -> Iterator[DiffLine]:
    """Rows of changed entries. moment: returns the query string of an entry's link."""
    for row in rows:
        css, icon, label = MARKS[row.change]
        for at, (field, before, after) in enumerate(_fields(row)):
            path = row.path or row.path_before
            yield DiffLine(
                css=css,
                icon=icon,
                label=str(label),
                name=row.name,
                where=path.rpartition("/")[0].removeprefix("/").replace("/", " / "),
                url=lines.entry_url(policy_slug, row.uid, row.name, moment(row)),
                field=field,
                before=before,
                after=after,
                effect="" if at else effect(row),
                is_first=not at,
            )


def settings_rows(diff: RevisionDiff) -> list[tuple[str, str, str]]:
    """(name, before, after) of each changed setting."""
    return [(setting_name(name), *_setting_values(name, before, after)) for name, before, after in diff.settings]


def setting_name(name: str) -> str:
    """Readable name of a setting: Usage window: half life, for window.half_life_s."""
    part, _dot, keys = name.partition(".")
    words = keys.removesuffix("_s").replace("_", " ").replace(".", ", ")
    return f"{field_labels.setting(part)}: {words}" if words else field_labels.setting(part)


def _setting_values(name: str, before: Any, after: Any) -> tuple[str, str]:
    key = (
        "" if name.startswith("metric.weights.") else name.rpartition(".")[2]
    )  # weights named after core-seconds are not durations
    return review_text.value_text(before, key), review_text.value_text(after, key)


def correction_text(correction: Correction) -> str:
    """A usage adjustment with its unit: +12 core-hours."""
    sign = "+" if correction.amount_s > 0 else presentation.MINUS
    unit = unit_of(correction.resource)
    return f"{sign}{presentation.core_hours(abs(correction.amount_s))} {unit}"


def effect(row: EntryDifference) -> str:
    """Change of an entry's target in points of its group: +7.5 points."""
    before, after = row.target_before, row.target_after
    if before is None and after is None:
        return ""
    return _("%(n)s points") % {"n": presentation.change(before or 0.0, after or 0.0)}


def field_key(field: str, before: Any, after: Any) -> str:
    """Key of the phrase that `field_text` returns: the field, or the event of the entry."""
    if field == "archived":
        return "archived" if after else "restored" if before else "added"
    return "moved" if field == PLACE else field


def field_text(field: str, before: Any, after: Any) -> str:
    """A change of an entry as a phrase: shares 20 to 30, moved from physics to biology, archived."""
    if field == "archived":
        return _("archived") if after else _("restored") if before else _("added")
    if field == PLACE:
        elsewhere = _("elsewhere")
        return _("moved from %(before)s to %(after)s") % {"before": before or elsewhere, "after": after or elsewhere}
    if field == "locked":
        return _("locked") if after else _("unlocked")
    name, was, is_now = field_labels.entry_field(field), value_text(field, before), value_text(field, after)
    if before in (None, "", []):
        return f"{name}: {is_now}"
    return f"{name}: {was} → {is_now}"


def history_row(line: HistoryLine) -> dict[str, Any]:
    """Row of an entry's history."""
    words = [{"key": field_key(*each), "text": field_text(*each)} for each in line.fields]
    return {"line": line, "words": words, "origin": origin_text(line.origin)}


def value_text(field: str, value: Any) -> str:
    """Value of an entry's field as text."""
    if field == "shares":
        return "" if value is None else presentation.shares(value if isinstance(value, int | float) else None)
    if field == "dates":
        return review_text.date_text(value if isinstance(value, Mapping) else None)
    if field == "members":
        n = len(value or ())
        return ngettext("%(n)s rule", "%(n)s rules", n) % {"n": n} if n else _("none")
    if field == "scope":
        return str(value) if value else _("as above")
    if field == "locked":
        return _("locked") if value else _("open")
    return review_text.value_text(value)


def origin_text(origin: str) -> str:
    """Origin of a change set; "" if it was made by hand."""
    return {
        "import": _("from a file"),
        "rule": _("by a membership rule"),
        "dates": _("by date"),
        "revert": _("undoes"),
        "request": _("requested by a group"),
        "mount": _("from another site"),
    }.get(origin, "")


def verdict(diff: RevisionDiff) -> str:
    """Summary such as 12 entries changed, 3 added, 2 settings differ."""
    changed, moved, added, removed = (
        diff.counts["changed"],
        diff.counts["moved"],
        diff.counts["added"],
        diff.counts["removed"],
    )
    n_settings, n_adjustments = len(diff.settings), len(diff.corrections)
    counts = (
        (changed, ngettext("%(n)s entry changed", "%(n)s entries changed", changed)),
        (moved, ngettext("%(n)s moved", "%(n)s moved", moved)),
        (added, ngettext("%(n)s added", "%(n)s added", added)),
        (removed, ngettext("%(n)s archived", "%(n)s archived", removed)),
        (n_settings, ngettext("%(n)s setting changed", "%(n)s settings changed", n_settings)),
        (n_adjustments, ngettext("%(n)s usage adjustment", "%(n)s usage adjustments", n_adjustments)),
    )
    return ", ".join(text % {"n": presentation.count(n)} for n, text in counts if n) or _("No differences")


def _fields(row: EntryDifference) -> list[tuple[str, str, str]]:
    """(field, before, after) as text; the parent of a moved entry comes first."""
    if row.change in ("added", "removed"):
        kind, shares = (dict((name, (old, new)) for name, old, new in row.fields).get(f) for f in ("kind", "shares"))
        which = 1 if row.change == "added" else 0
        text = review_text.amount(_weight(shares[which] if shares else None))
        if row.n_below:
            n = row.n_below
            both = ngettext("%(shares)s, and %(n)s entry below it", "%(shares)s, and %(n)s entries below it", n)
            text = both % {"shares": text, "n": presentation.count(n)}
        sides = (_("none"), text) if which else (text, _("archived"))
        return [(str(kind[which]) if kind else row.kind, *sides)]
    found = []
    if row.change == "moved":
        found.append((field_labels.entry_field(PLACE), _above(row.path_before), _above(row.path)))
    if row.change == "kept":
        return [(_("target"), presentation.percent(row.target_before), presentation.percent(row.target_after))]
    for field, before, after in row.fields:
        found.append((field_labels.entry_field(field), value_text(field, before), value_text(field, after)))
    return found


def _weight(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) else None


def _above(path: str) -> str:
    """Path of the parent, without its leading slash."""
    return path.rpartition("/")[0].removeprefix("/").replace("/", " / ") or _("the root")


PAGE = 50
_MOST_OPTIONS = 300


@dataclass(frozen=True, slots=True)
class RevisionRow:
    """One row of the list. change_url: empty for readers who may not see the change set."""

    revision: Revision
    title: str
    note: str
    origin: str
    change_url: str
    reverted_by: int | None


def revision_rows(
    request: HttpRequest, policy: Policy, *, before: int | None, query: str
) -> tuple[list[RevisionRow], int | None]:
    """One page of the list, and the revision number that the next page starts before."""
    found = list_revisions(policy=policy, sees=sees_of(request, policy), before=before, query=query, limit=PAGE + 1)
    older = found[PAGE - 1].number if len(found) > PAGE else None
    shown = found[:PAGE]
    undone = revisions_reverted(policy, [revision.number for revision in shown])
    access = ChangeSetAccess(policy, actor_of(request), clock.now())
    return [_row(revision, undone, access.may_see(revision.change_set)) for revision in shown], older


def _row(revision: Revision, undone: dict[int, int], may_see: bool) -> RevisionRow:
    change_set = revision.change_set
    if revision.is_outside_view:
        return RevisionRow(revision, _("Changes outside your view"), "", "", "", undone.get(revision.number))
    n = revision.n_changed
    note = ngettext("%(n)s entry changed", "%(n)s entries changed", n) % {"n": presentation.count(n)} if n else ""
    origin = origin_text(change_set.origin)
    if change_set.reverts_number:
        origin = _("Undoes revision %(n)s.") % {"n": change_set.reverts_number}
    return RevisionRow(
        revision=revision,
        title=presentation.first_line(revision.reason) or presentation.title_of(change_set),
        note=note or _("settings or usage adjustments"),
        origin=origin,
        change_url=reverse("dashboard:change", kwargs={"change_set": change_set.pk}) if may_see else "",
        reverted_by=undone.get(revision.number),
    )


def by_day(rows: Sequence[RevisionRow]) -> list[tuple[str, list[RevisionRow]]]:
    """Rows under headings such as Thu 26 November."""

    def key(row: RevisionRow) -> str:
        return day_heading(row.revision.published_at)

    return [(day, list(some)) for day, some in groupby(rows, key)]


def day_heading(at: datetime) -> str:
    here = timezone.localtime(at)
    is_this_year = here.year == timezone.localtime(clock.now()).year
    return formats.date_format(here, "D j F" if is_this_year else "D j F Y")


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


def may_draft(request: HttpRequest, policy: Policy) -> bool:
    """Whether the actor may change anything in this policy; others get no Revert and Restore buttons."""
    return policy.archived_at is None and drafts.may_edit(policy, actor_of(request), clock.now())


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
