"""Grid Engine's policies to experiment with: a form of settings and owners, its case, and examples to start from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, Literal

from django.http import QueryDict
from django.utils.functional import Promise
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from apps.core.typed_numbers import read_number

MOST_CALCULATOR_ROWS = 20  # of users, of departments and of projects
MOST_CALCULATOR_JOBS = 2_000
_LARGEST = 10**12
_LONGEST_CELL = 60  # characters of a cell
Text = str | Promise
Number = int | float
_TO_CASE = {"posix": "posix_priority", "waits_s": "submitted_s_ago", "slots": "slots", "job_share": "job_share"}
_STATES = (("running", "running"), ("waiting", "pending"))
_TICKETS = {"weight_tickets_functional": "1000000", "auto_user_fshare": "100"}


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
    """A group of related settings."""

    title: Text
    fields: Sequence[Field]


SETTINGS = (
    Group(
        _("Weights"),
        (
            Field("weight_urgency", _("Urgency")),
            Field("weight_ticket", _("Tickets")),
            Field("weight_priority", _("POSIX priority")),
        ),
    ),
    Group(
        _("Tickets"),
        (
            Field("weight_tickets_functional", _("Functional tickets")),
            Field("weight_tickets_share", _("Share-tree tickets")),
            Field("auto_user_fshare", _("Functional shares of automatic users")),
        ),
    ),
    Group(
        _("Functional tickets"),
        (
            Field("weight_user", _("Users")),
            Field("weight_department", _("Department")),
            Field("weight_project", _("Project")),
            Field("weight_job", _("Job shares")),
            Field("max_functional_jobs_to_schedule", _("Pending jobs considered"), "whole"),
        ),
    ),
    Group(
        _("Urgency"),
        (
            Field("slots_urgency", _("Per slot")),
            Field("weight_waiting_time", _("Per second of waiting")),
        ),
    ),
)
USER_FIELDS = (
    Field("user", _("User"), "name"),
    Field("running", _("Running jobs"), "whole", largest=MOST_CALCULATOR_JOBS),
    Field("waiting", _("Waiting jobs"), "whole", largest=MOST_CALCULATOR_JOBS),
    Field("fshare", _("Functional shares")),
    Field("oticket", _("Override tickets")),
    Field("department", _("Department"), "name"),
    Field("project", _("Project"), "name"),
    Field("slots", _("Slots"), "whole", 1, 10**6),
    Field("waits_s", _("Age (s)")),
    Field("posix", _("POSIX priority"), "whole", -1023, 1024),
    Field("job_share", _("Job shares")),
    Field("tree", _("Tree shares")),
    Field("cpu", _("CPU used")),
)
_ONCE = ("fshare", "oticket", "tree", "cpu")  # values of a user, whose jobs may have several rows
DEPARTMENT_FIELDS = (
    Field("dept", _("Department"), "name"),
    Field("dept_fshare", _("Functional shares")),
    Field("dept_oticket", _("Override tickets")),
)
PROJECT_FIELDS = (
    Field("proj", _("Project"), "name"),
    Field("proj_fshare", _("Functional shares")),
    Field("proj_oticket", _("Override tickets")),
)


@dataclass(frozen=True, slots=True)
class Cell:
    """An input with the typed text, its number (None if empty), and the problem with it."""

    field: Field
    typed: str
    value: Number | None
    problem: str = ""
    key: str = ""  # unique on the page

    @property
    def is_name(self) -> bool:
        return self.field.kind == "name"


@dataclass(frozen=True, slots=True)
class Row:
    """One owner. number: counts from 1 in its table."""

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


class CalculatorForm:
    """The form as read from the query string. Blank rows are left out; `settings` has only filled-in values."""

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
        """(field, message) of each invalid input, then of problems of several inputs."""
        problems = [
            (str(cell.field.label), cell.problem) for _g, cells in self.groups for cell in cells if cell.problem
        ]
        for row in (*self.users, *self.departments, *self.projects):
            where = row.name or gettext("Row %(n)s") % {"n": row.number}
            problems += [(f"{where}: {cell.field.label}", cell.problem) for cell in row.cells if cell.problem]
        return problems or list(self._of_all())

    def _of_all(self) -> Iterator[tuple[str, str]]:
        n_jobs = sum(int(row.cell(field).value or 0) for row in self.users for field in ("running", "waiting"))
        if n_jobs > MOST_CALCULATOR_JOBS:
            yield (
                str(gettext("Jobs")),
                ngettext(
                    "%(n)s job; at most %(most)s are allowed here.",
                    "%(n)s jobs; at most %(most)s are allowed here.",
                    n_jobs,
                )
                % {"n": n_jobs, "most": MOST_CALCULATOR_JOBS},
            )
        for rows in (self.departments, self.projects):
            names = [row.name for row in rows]
            for name in dict.fromkeys(name for name in names if names.count(name) > 1):
                yield name, gettext("Two rows have this name.")
        first = {row.name: row.number for row in reversed(self.users)}
        for row in self.users:
            if row.number != first[row.name] and any(row.cell(name).typed for name in _ONCE):
                yield row.name, gettext("Enter shares, override tickets and usage only in the first row of this user.")


def blank_row(fields: Sequence[Field], number: int) -> Row:
    """An empty row to fill in."""
    return Row(number, [_read(field, "", number) for field in fields])


def _rows(query: QueryDict, fields: Sequence[Field]) -> list[Row]:
    """Rows from repeated parameters, at most `MOST_CALCULATOR_ROWS`; `drop=user-2` leaves out the second user."""
    columns = [query.getlist(field.name)[:MOST_CALCULATOR_ROWS] for field in fields]
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
    return Row(row.number, [Cell(first.field, "", None, gettext("Enter a name."), first.key), *row.cells[1:]])


def _read(field: Field, text: str, number: int = 0) -> Cell:
    typed, key = text.strip()[:_LONGEST_CELL], f"{field.name}-{number}" if number else field.name
    if field.kind == "name" or not typed:
        return Cell(field, typed, None, key=key)
    try:
        value: float | None = read_number(typed)
    except ValueError:
        value = None
    is_whole = field.kind == "whole"
    if value is None or not field.lowest <= value <= field.largest or (is_whole and not value.is_integer()):
        what = (
            gettext("Enter a whole number from %(low)s to %(high)s.")
            if is_whole
            else gettext("Enter a number from %(low)s up.")
        )
        return Cell(field, typed, None, what % {"low": field.lowest, "high": field.largest}, key)
    return Cell(field, typed, int(value) if value.is_integer() else value, key=key)


@dataclass(frozen=True, slots=True)
class Start:
    """An example to start from, as a query string."""

    name: str
    label: str | Promise
    query: str


def _query(settings: dict[str, str], users: Sequence[dict[str, str]]) -> str:
    query = QueryDict(mutable=True)
    query.update(settings)
    for name in users[0]:
        query.setlist(name, [user[name] for user in users])
    return query.urlencode()


def _user(name: str, running: int, waiting: int, **more: str) -> dict[str, str]:
    return {"user": name, "running": str(running), "waiting": str(waiting), **more}


STARTS = (
    Start(
        "worked",
        _("Grid Engine: the worked example of 2011"),
        _query({"preset": "6.2", **_TICKETS}, [_user("userA", 2, 0), _user("userB", 1, 3), _user("userC", 0, 2)]),
    ),
    Start(
        "many",
        _("Same, with 1,000 jobs"),
        _query({"preset": "6.2", **_TICKETS}, [_user("userA", 2, 0), _user("userB", 1, 1000), _user("userC", 0, 2)]),
    ),
    Start(
        "departments",
        _("Departments and a share tree"),
        _query(
            {
                "preset": "8.1.9",
                "weight_tickets_functional": "600000",
                "weight_tickets_share": "400000",
                "dept": "physics",
                "dept_fshare": "70",
            },
            [
                _user("ada", 1, 2, fshare="60", department="physics", tree="50", cpu="9000"),
                _user("ben", 0, 2, fshare="40", department="physics", tree="30", cpu="1000"),
                _user("cy", 1, 1, fshare="100", department="", tree="20", cpu="200"),
            ],
        ),
    ),
)


def case_of(form: CalculatorForm) -> dict[str, Any]:
    """The job case that the form describes, as `manage.py jobs` reads it. Only for a form without problems."""
    settings = dict(form.settings)
    slots = settings.pop("slots_urgency", None)
    config: dict[str, Any] = {**({"preset": form.preset} if form.preset else {}), **settings}
    if slots is not None:
        config["urgency"] = {"slots": slots}
    tree = [
        {"name": row.name, "shares": row.cell("tree").value}
        for row in _first_rows(form)
        if row.cell("tree").value is not None
    ]
    case: dict[str, Any] = {
        "algorithm": {"name": "gridengine"},
        "config": config,
        "users": [_user_entry(row) for row in _first_rows(form)],
        "departments": _owners(form, form.departments, "department", "dept"),
        "projects": _owners(form, form.projects, "project", "proj"),
        "jobs": list(_jobs(form)),
    }
    if tree:
        case["sharetree"] = {"name": "Root", "shares": 1, "children": tree}
    return case


def _first_rows(form: CalculatorForm) -> Iterator[Row]:
    seen: set[str] = set()
    for row in form.users:
        if row.name not in seen:
            seen.add(row.name)
            yield row


def _user_entry(row: Row) -> dict[str, Any]:
    shares = {name: row.cell(name).value for name in ("fshare", "oticket") if row.cell(name).value is not None}
    usage = {"usage": {"cpu": row.cell("cpu").value}} if row.cell("cpu").value is not None else {}
    return {"name": row.name, **shares, **usage}


def _owners(form: CalculatorForm, rows: Sequence[Row], field: str, prefix: str) -> list[dict[str, Any]]:
    """Departments or projects: those with a row, then those that only users name, which have no shares."""
    owners = {}
    for row in rows:
        cells = {name: row.cell(f"{prefix}_{name}").value for name in ("fshare", "oticket")}
        owners[row.name] = {"name": row.name, **{name: value for name, value in cells.items() if value is not None}}
    for user in form.users:
        if name := user.cell(field).typed:
            owners.setdefault(name, {"name": name})
    return list(owners.values())


def _jobs(form: CalculatorForm) -> Iterator[dict[str, Any]]:
    """Running jobs of every user, then waiting ones: the first job of each user, then the second, and so on."""
    numbers: Counter[str] = Counter()
    for field, state in _STATES:
        most = max((int(row.cell(field).value or 0) for row in form.users), default=0)
        for turn in range(most):
            for row in form.users:
                if turn < int(row.cell(field).value or 0):
                    numbers[row.name] += 1
                    yield {
                        "id": f"{row.name}-{numbers[row.name]}",
                        "user": row.name,
                        "state": state,
                        **_common_values(row),
                    }


def _common_values(row: Row) -> dict[str, Any]:
    """Values that all jobs of a row share."""
    owners = {name: row.cell(name).typed for name in ("department", "project") if row.cell(name).typed}
    return owners | {to: row.cell(name).value for name, to in _TO_CASE.items() if row.cell(name).value is not None}
