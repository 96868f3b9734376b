"""Changes of entries as rows and phrases: the field, its value before and after, and the effect on targets."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from apps.policies.tree.revision_diff import EntryDifference
from apps.priorities.selectors.history import PLACE, HistoryLine
from apps.priorities.sentences import numbers
from apps.web.shell import field_labels, lines, presentation
from apps.web.texts import value_texts

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


def effect(row: EntryDifference) -> str:
    """Change of an entry's target in points of its group: +7.5 points."""
    before, after = row.target_before, row.target_after
    if before is None and after is None:
        return ""
    return _("%(n)s points") % {"n": presentation.change(before, after)}


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
        return value_texts.date_text(value if isinstance(value, Mapping) else None)
    if field == "members":
        n = len(value or ())
        return ngettext("%(n)s rule", "%(n)s rules", n) % {"n": n} if n else _("none")
    if field == "scope":
        return str(value) if value else _("as above")
    if field == "locked":
        return _("locked") if value else _("open")
    return value_texts.value_text(value)


def origin_text(origin: str) -> str:
    """Origin of a change set; "" if it was made by hand."""
    return {
        "import": _("from a file"),
        "rule": _("by a membership rule"),
        "dates": _("by date"),
        "allocation": _("by a rule of allocations"),
        "revert": _("undoes"),
        "request": _("requested by a group"),
        "mount": _("from another site"),
    }.get(origin, "")


def _fields(row: EntryDifference) -> list[tuple[str, str, str]]:
    """(field, before, after) as text; the parent of a moved entry comes first."""
    if row.change in ("added", "removed"):
        kind, shares = (dict((name, (old, new)) for name, old, new in row.fields).get(f) for f in ("kind", "shares"))
        which = 1 if row.change == "added" else 0
        text = value_texts.amount(_weight(shares[which] if shares else None))
        if row.n_below:
            n = row.n_below
            both = ngettext("%(shares)s, and %(n)s entry below it", "%(shares)s, and %(n)s entries below it", n)
            text = both % {"shares": text, "n": numbers.count(n)}
        sides = (_("none"), text) if which else (text, _("archived"))
        return [(str(kind[which]) if kind else row.kind, *sides)]
    changes = []
    if row.change == "moved":
        changes.append((field_labels.entry_field(PLACE), _above(row.path_before), _above(row.path)))
    if row.change == "kept":
        targets = numbers.change_shares(row.target_before, row.target_after)
        return [(_("target"), targets.before, targets.after)]
    for field, before, after in row.fields:
        changes.append((field_labels.entry_field(field), value_text(field, before), value_text(field, after)))
    return changes


def _weight(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) else None


def _above(path: str) -> str:
    """Path of the parent, without its leading slash."""
    return path.rpartition("/")[0].removeprefix("/").replace("/", " / ") or _("the root")
