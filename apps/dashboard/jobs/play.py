"""From the form in which Grid Engine's policies are tried to a case, and the states it can start from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from django.http import QueryDict
from django.utils.functional import Promise
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from apps.dashboard.jobs.play_forms import (
    DEPARTMENT_FIELDS,
    MOST_ROWS,
    PROJECT_FIELDS,
    USER_FIELDS,
    Field,
    PlayForm,
    Row,
    blank_row,
)
from apps.dashboard.jobs.tables import short
from apps.engine.jobs.gridengine.config import AS_SHIPPED, MOST_FUNCTIONAL_JOBS, PRESETS

_TO_CASE = {"posix": "posix_priority", "waits_s": "submitted_s_ago", "slots": "slots", "job_share": "job_share"}
_STATES = (("running", "running"), ("waiting", "pending"))


@dataclass(frozen=True, slots=True)
class Start:
    """A state of the form to start from, as the query of its address."""

    name: str
    label: str | Promise
    query: str


def _query(settings: dict[str, str], users: Sequence[dict[str, str]]) -> str:
    found = QueryDict(mutable=True)
    found.update(settings)
    for name in users[0]:
        found.setlist(name, [user[name] for user in users])
    return found.urlencode()


def _user(name: str, running: int, waiting: int, **more: str) -> dict[str, str]:
    return {"user": name, "running": str(running), "waiting": str(waiting), **more}


_TICKETS = {"weight_tickets_functional": "1000000", "auto_user_fshare": "100"}
STARTS = (
    Start(
        "worked",
        _("Worked example of 2011"),
        _query({"preset": "6.2", **_TICKETS}, [_user("userA", 2, 0), _user("userB", 1, 3), _user("userC", 0, 2)]),
    ),
    Start(
        "many",
        _("Same, with 1,000 jobs of userB"),
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


def case_of(form: PlayForm) -> dict[str, Any]:
    """The case that the form describes, as `manage.py jobs` takes it. Only for a form without problems."""
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


def _first_rows(form: PlayForm) -> Iterator[Row]:
    seen: set[str] = set()
    for row in form.users:
        if row.name not in seen:
            seen.add(row.name)
            yield row


def _user_entry(row: Row) -> dict[str, Any]:
    given = {name: row.cell(name).value for name in ("fshare", "oticket") if row.cell(name).value is not None}
    usage = {"usage": {"cpu": row.cell("cpu").value}} if row.cell("cpu").value is not None else {}
    return {"name": row.name, **given, **usage}


def _owners(form: PlayForm, rows: Sequence[Row], field: str, prefix: str) -> list[dict[str, Any]]:
    """Departments or projects: those with a row, then those that only users name, which have nothing to give."""
    found = {}
    for row in rows:
        cells = {name: row.cell(f"{prefix}_{name}").value for name in ("fshare", "oticket")}
        found[row.name] = {"name": row.name, **{name: value for name, value in cells.items() if value is not None}}
    for user in form.users:
        if name := user.cell(field).typed:
            found.setdefault(name, {"name": name})
    return list(found.values())


def _jobs(form: PlayForm) -> Iterator[dict[str, Any]]:
    """Running jobs of every user, then waiting ones: the first of each user, the second of each, and so on."""
    numbers: Counter[str] = Counter()
    for field, state in _STATES:
        most = max((int(row.cell(field).value or 0) for row in form.users), default=0)
        for turn in range(most):
            for row in form.users:
                if turn < int(row.cell(field).value or 0):
                    numbers[row.name] += 1
                    yield {"id": f"{row.name}-{numbers[row.name]}", "user": row.name, "state": state, **_of_each(row)}


def _of_each(row: Row) -> dict[str, Any]:
    """What all jobs of a row have in common."""
    owners = {name: row.cell(name).typed for name in ("department", "project") if row.cell(name).typed}
    return owners | {to: row.cell(name).value for name, to in _TO_CASE.items() if row.cell(name).value is not None}


@dataclass(frozen=True, slots=True)
class OwnerTable:
    """One table of inputs: its rows, then blank ones to fill in. name: of its first column."""

    name: str
    title: str
    fields: Sequence[Field]
    rows: Sequence[Row]
    focused: str = ""  # key of the input to go on with

    @property
    def may_grow(self) -> bool:
        return len(self.rows) < MOST_ROWS


def layout_of(form: PlayForm, *, adding: str) -> dict[str, Any]:
    """Tables with a blank row each, settings with the value that a blank one has. adding: the table that grew last."""
    tables = {
        "users_table": _table(gettext("Users and their jobs"), USER_FIELDS, form.users, adding),
        "departments_table": _table(gettext("Departments"), DEPARTMENT_FIELDS, form.departments, adding),
        "projects_table": _table(gettext("Projects"), PROJECT_FIELDS, form.projects, adding),
    }
    preset = PRESETS.get(form.preset, PRESETS[AS_SHIPPED])
    defaults = {**preset, "slots_urgency": preset.get("urgency", {}).get("slots", 0)}
    defaults["max_functional_jobs_to_schedule"] = MOST_FUNCTIONAL_JOBS
    groups = [
        (group.title, [(cell, short(defaults[cell.field.name])) for cell in cells]) for group, cells in form.groups
    ]
    presets = [(name, name == (form.preset or AS_SHIPPED)) for name in PRESETS]
    return {**tables, "groups": groups, "presets": presets}


def _table(title: str, fields: Sequence[Field], rows: Sequence[Row], adding: str) -> OwnerTable:
    number = len(rows) + 1
    blank = [blank_row(fields, number)] if number <= MOST_ROWS else []
    focused = blank[0].cells[0].key if blank and adding == fields[0].name else ""
    return OwnerTable(fields[0].name, title, fields, [*rows, *blank], focused)
