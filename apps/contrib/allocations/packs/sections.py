"""A pack as sections with texts, tables and the values of bar charts, shared by page, link and file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any
from zoneinfo import ZoneInfo

from django.utils import formats
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from apps.contrib.allocations.packs.bars import Bars, core_h
from apps.priorities.sentences.numbers import change_shares, number, percent

Json = Mapping[str, Any]
_MOST_BARS = 12
_KINDS = {
    "shares_end": gettext_lazy("shares end"),
    "allocation_ends": gettext_lazy("allocation ends"),
}


@dataclass(frozen=True)
class Section:
    """columns: titles; those from `first_number` on hold numbers. empty: text shown without rows."""

    key: str
    title: str
    columns: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    empty: str
    note: str = ""
    first_number: int = 1
    bars: Bars | None = None


def title_of(pack: Json) -> str:
    return _("%(name)s: allocations from %(first)s to %(last)s") % {
        "name": pack["name"],
        "first": _day(pack["from"]),
        "last": _day(pack["to"]),
    }


def source_line(pack: Json) -> str:
    """Return the source of the numbers: policy, revision, time."""
    at = datetime.fromisoformat(pack["made_at"]).astimezone(ZoneInfo(pack["zone"]))
    return _("Policy %(policy)s, revision %(n)s, as of %(at)s") % {
        "policy": pack["policy_name"],
        "n": pack["revision"],
        "at": f"{formats.date_format(at, 'j M Y, H:i')} {at:%Z}",
    }


def sections_of(pack: Json) -> list[Section]:
    return [_allocations(pack), _balance(pack), _held_back(pack), _changes(pack), _expiring(pack)]


def _label(row: Json) -> str:
    """The path of an entry; the root is the whole policy."""
    path = row["path"]
    label = _("Whole policy") if path == "/" else str(path)
    return _("%(name)s (not shown)") % {"name": label} if row.get("suppressed") else label


def _allocations(pack: Json) -> Section:
    rows = pack["allocations"]["rows"]
    rows = [{**row, "expected_core_h": _expected_core_h(row)} for row in rows]
    names = ("allocated", "expected", "delivered", "remaining")
    return Section(
        "allocations",
        _("Allocated and delivered, core-hours"),
        (_("Entry"), _("Allocated"), _("Expected"), _("Delivered"), _("Remaining")),
        [(_label(row), *(core_h(row[f"{name}_core_h"]) for name in names)) for row in rows],
        _("None."),
        note=_("Of many entries the first are listed.") if pack["allocations"]["is_cut"] else "",
        bars=_bars(rows, (("expected_core_h", _("Expected")), ("delivered_core_h", _("Delivered")))),
    )


def _expected_core_h(row: Json) -> float | None:
    """Expected core-hours to date: of the allocation, else of the shares, as for the root."""
    is_allocated = row["allocated_core_h"] and row["path"] != "/"
    expected_core_h: float | None = row["due_core_h" if is_allocated else "expected_core_h"]
    return expected_core_h


def _balance(pack: Json) -> Section:
    rows = pack["balance"]
    names = ("entitled", "used", "lent", "missed", "unclear", "borrowed")
    note = _(
        "Lent: unused without waiting jobs. Missed: unused while jobs waited. Borrowed: used beyond the entitlement."
    )
    return Section(
        "balance",
        _("Lent and borrowed core-hours"),
        (_("Entry"), _("Entitled"), _("Used"), _("Lent"), _("Missed"), _("Unclear"), _("Borrowed")),
        [(_label(row), *(core_h(row[f"{name}_core_h"]) for name in names)) for row in rows],
        _("None."),
        note=" ".join(filter(None, (note, _fairness(pack.get("fairness")), _missing(rows)))),
        bars=_bars(
            [row for row in rows if row["path"] != pack["entry"]],
            (("lent_core_h", _("Lent")), ("borrowed_core_h", _("Borrowed"))),
        ),
    )


def _fairness(fairness: Json | None) -> str:
    if fairness is None:
        return ""
    values = {name: number(value, 2 if name in ("jain", "gini") else 1) for name, value in fairness.items()}
    return (
        _(
            "Jain index %(jain)s, Gini coefficient %(gini)s. Used beyond entitlements: %(misplaced_percent)s %%; beyond"
            " entitlements and demand: %(misplaced_with_demand_percent)s %%."
        )
        % values
    )


def _missing(rows: Sequence[Json]) -> str:
    n = max((row["missing_days"] for row in rows), default=0)
    return ngettext("No data for %(n)s day.", "No data for %(n)s days.", n) % {"n": n} if n else ""


def _held_back(pack: Json) -> Section:
    return Section(
        "held_back",
        _("Missed core-hours by borrower"),
        (_("Held back"), _("By"), _("Core-hours")),
        [(row["path"], row["by_path"], core_h(row["core_h"])) for row in pack["held_back"]],
        _("None."),
        note=_("Core-hours missed while jobs waited, divided among those who borrowed on the same day."),
        first_number=2,
    )


def _changes(pack: Json) -> Section:
    zone = ZoneInfo(pack["zone"])
    rows = []
    for change in pack["changes"]:
        at = datetime.fromisoformat(change["at"]).astimezone(zone)
        share_changes = ", ".join(
            f"{each['path']} {_shares(each['before'])} → {_shares(each['after'])}" for each in change["entries"]
        )
        rows.append(
            (
                str(change["revision"]),
                formats.date_format(at, "j M Y"),
                change["author"],
                change["reason"],
                share_changes,
            )
        )
    return Section(
        "changes",
        _("Changes with reasons"),
        (_("Revision"), _("Day"), _("Author"), _("Reason"), _("Shares")),
        rows,
        _("None."),
        first_number=9,
    )


def _expiring(pack: Json) -> Section:
    rows = [
        (
            row["path"],
            _day(row["on"]),
            str(_KINDS.get(row["kind"], row["kind"])),
            core_h(row["core_h"]),
            percent(row["target"]),
            _effect(row),
        )
        for row in pack["expiring"]
    ]
    return Section(
        "expiring",
        _("Ending within 90 days"),
        (_("Entry"), _("Last day"), _("What"), _("Core-hours"), _("Target"), _("If renewed")),
        rows,
        _("Nothing ends within 90 days."),
        first_number=9,
    )


def _effect(row: Json) -> str:
    if row["is_covered"]:
        return _("continues without renewal")
    if row["target_after"] is not None:
        shares = change_shares(row["target"], row["target_after"])
        return _("keeps %(now)s; else %(after)s") % {"now": shares.before, "after": shares.after}
    if row["core_h"] is not None:
        return _("keeps %(n)s core-hours; its shares stay either way") % {"n": core_h(row["core_h"])}
    return _("its shares stay either way")


def _bars(rows: Sequence[Json], series: Sequence[tuple[str, str]]) -> Bars | None:
    """Chart of the series that have values; None if none has."""
    drawn = [column for column in series if any((row[column[0]] or 0) > 0 for row in rows)]
    groups = [(_label(row), tuple(row[name] for name, _title in drawn)) for row in rows]
    known = [group for group in groups if any(value is not None for value in group[1])][:_MOST_BARS]
    return Bars(tuple(title for _name, title in drawn), known) if drawn else None


def _shares(value: Any) -> str:
    return _("inherit") if value is None else f"{value:g}"


def _day(text: str) -> str:
    return str(formats.date_format(date.fromisoformat(text), "j M Y"))
