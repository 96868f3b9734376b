"""The form in which Grid Engine's policies are tried: settings and owners from a query, checked cell by cell."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from math import isfinite
from typing import Literal

from django.http import QueryDict
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

MOST_ROWS = 20  # of users, of departments and of projects
MOST_JOBS = 2_000
_LARGEST = 10**12
_LONGEST = 60  # characters of a cell
Text = str | Promise
Number = int | float


@dataclass(frozen=True, slots=True)
class Field:
    """One input: a name, or a number from `lowest` to `largest`."""

    name: str
    label: Text
    kind: Literal["name", "number", "whole"] = "number"
    lowest: int = 0
    largest: int = _LARGEST


@dataclass(frozen=True, slots=True)
class Group:
    """Settings that belong together."""

    title: Text
    fields: Sequence[Field]


SETTINGS = (
    Group(
        gettext_lazy("Weights of the priority"),
        (
            Field("weight_urgency", gettext_lazy("Urgency")),
            Field("weight_ticket", gettext_lazy("Tickets")),
            Field("weight_priority", gettext_lazy("POSIX priority")),
        ),
    ),
    Group(
        gettext_lazy("Tickets"),
        (
            Field("weight_tickets_functional", gettext_lazy("Functional tickets")),
            Field("weight_tickets_share", gettext_lazy("Share-tree tickets")),
            Field("auto_user_fshare", gettext_lazy("Functional shares of automatic users")),
        ),
    ),
    Group(
        gettext_lazy("Weights of the functional tickets"),
        (
            Field("weight_user", gettext_lazy("Users")),
            Field("weight_department", gettext_lazy("Departments")),
            Field("weight_project", gettext_lazy("Projects")),
            Field("weight_job", gettext_lazy("Job shares")),
            Field("max_functional_jobs_to_schedule", gettext_lazy("Pending jobs considered"), "whole"),
        ),
    ),
    Group(
        gettext_lazy("Urgency"),
        (
            Field("slots_urgency", gettext_lazy("Each slot")),
            Field("weight_waiting_time", gettext_lazy("Each second of waiting")),
        ),
    ),
)
USER_FIELDS = (
    Field("user", gettext_lazy("User"), "name"),
    Field("running", gettext_lazy("Running jobs"), "whole", largest=MOST_JOBS),
    Field("waiting", gettext_lazy("Waiting jobs"), "whole", largest=MOST_JOBS),
    Field("fshare", gettext_lazy("Functional shares")),
    Field("oticket", gettext_lazy("Override tickets")),
    Field("department", gettext_lazy("Department"), "name"),
    Field("project", gettext_lazy("Project"), "name"),
    Field("slots", gettext_lazy("Slots a job"), "whole", 1, 10**6),
    Field("waits_s", gettext_lazy("Age, s")),
    Field("posix", gettext_lazy("POSIX priority"), "whole", -1023, 1024),
    Field("job_share", gettext_lazy("Job shares")),
    Field("tree", gettext_lazy("Tree shares")),
    Field("cpu", gettext_lazy("CPU used")),
)
_ONCE = ("fshare", "oticket", "tree", "cpu")  # of a user, whose jobs may have several rows
DEPARTMENT_FIELDS = (
    Field("dept", gettext_lazy("Department"), "name"),
    Field("dept_fshare", gettext_lazy("Functional shares")),
    Field("dept_oticket", gettext_lazy("Override tickets")),
)
PROJECT_FIELDS = (
    Field("proj", gettext_lazy("Project"), "name"),
    Field("proj_fshare", gettext_lazy("Functional shares")),
    Field("proj_oticket", gettext_lazy("Override tickets")),
)


@dataclass(frozen=True, slots=True)
class Cell:
    """An input with what was typed, the number it means (None: left out) and what is wrong with it."""

    field: Field
    typed: str
    value: Number | None
    problem: str = ""
    key: str = ""  # tells the inputs of a page apart

    @property
    def is_name(self) -> bool:
        return self.field.kind == "name"


@dataclass(frozen=True, slots=True)
class Row:
    """One owner; `number` counts from 1 in its table."""

    number: int
    cells: Sequence[Cell]

    @property
    def name(self) -> str:
        return self.cells[0].typed

    @property
    def is_blank(self) -> bool:
        return not any(cell.typed for cell in self.cells)

    def cell(self, field: str) -> Cell:
        return next(cell for cell in self.cells if cell.field.name == field)


class PlayForm:
    """What a query says. Blank rows are left out, `settings` has only what was filled in."""

    def __init__(self, query: QueryDict) -> None:
        self.preset = query.get("preset", "")
        self.variants = query.getlist("variants")
        self.groups = [
            (group, [_read(field, query.get(field.name, "")) for field in group.fields]) for group in SETTINGS
        ]
        self.users = _rows(query, USER_FIELDS)
        self.departments = _rows(query, DEPARTMENT_FIELDS)
        self.projects = _rows(query, PROJECT_FIELDS)

    @property
    def settings(self) -> Mapping[str, Number]:
        cells = (cell for _group, cells in self.groups for cell in cells)
        return {cell.field.name: cell.value for cell in cells if cell.value is not None}

    @property
    def problems(self) -> list[tuple[str, str]]:
        """Where (in the words of the page) and what, cell by cell; then what concerns several."""
        found = [(str(cell.field.label), cell.problem) for _g, cells in self.groups for cell in cells if cell.problem]
        for row in (*self.users, *self.departments, *self.projects):
            where = row.name or _("row %(n)s") % {"n": row.number}
            found += [(f"{where}: {cell.field.label}", cell.problem) for cell in row.cells if cell.problem]
        return found or list(self._of_all())

    def _of_all(self) -> Iterator[tuple[str, str]]:
        n_jobs = sum(int(row.cell(field).value or 0) for row in self.users for field in ("running", "waiting"))
        if n_jobs > MOST_JOBS:
            yield str(_("Jobs")), _("%(n)s jobs; at most %(most)s are allowed here.") % {"n": n_jobs, "most": MOST_JOBS}
        for rows in (self.departments, self.projects):
            names = [row.name for row in rows]
            for name in dict.fromkeys(name for name in names if names.count(name) > 1):
                yield name, _("Two rows have this name.")
        first = {row.name: row.number for row in reversed(self.users)}
        for row in self.users:
            if row.number != first[row.name] and any(row.cell(name).typed for name in _ONCE):
                yield row.name, _("Enter shares, override tickets and usage only in the first row of this user.")


def blank_row(fields: Sequence[Field], number: int) -> Row:
    """A row to be filled in."""
    return Row(number, [_read(field, "", number) for field in fields])


def _rows(query: QueryDict, fields: Sequence[Field]) -> list[Row]:
    """Rows from repeated parameters, of which the first `MOST_ROWS` count; `drop=user-2` leaves out the second user."""
    columns = [query.getlist(field.name)[:MOST_ROWS] for field in fields]
    dropped = query.get("drop", "")
    rows: list[Row] = []
    for index, typed in enumerate(zip_longest(*columns, fillvalue=""), start=1):
        if dropped == f"{fields[0].name}-{index}":
            continue
        number = len(rows) + 1
        row = Row(number, [_read(field, text, number) for field, text in zip(fields, typed, strict=True)])
        if not row.is_blank:
            rows.append(row if row.name else _nameless(row))
    return rows


def _nameless(row: Row) -> Row:
    first = row.cells[0]
    return Row(row.number, [Cell(first.field, "", None, _("Enter a name."), first.key), *row.cells[1:]])


def _read(field: Field, text: str, number: int = 0) -> Cell:
    typed, key = text.strip()[:_LONGEST], f"{field.name}-{number}" if number else field.name
    if field.kind == "name" or not typed:
        return Cell(field, typed, None, key=key)
    value = _number(typed)
    is_whole = field.kind == "whole"
    if value is None or not field.lowest <= value <= field.largest or (is_whole and not value.is_integer()):
        what = _("Enter a whole number from %(low)s to %(high)s.") if is_whole else _("Enter a number from %(low)s up.")
        return Cell(field, typed, None, what % {"low": field.lowest, "high": field.largest}, key)
    return Cell(field, typed, int(value) if value.is_integer() else value, key=key)


def _number(text: str) -> float | None:
    """A number with a decimal point or comma."""
    plain = text.replace(",", ".") if text.count(",") == 1 and "." not in text else text
    if not plain.isascii() or "_" in plain:
        return None
    try:
        value = float(plain)
    except ValueError:
        return None
    return value if isfinite(value) else None
