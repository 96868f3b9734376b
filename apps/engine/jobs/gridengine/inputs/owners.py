"""Users, projects and departments of a Grid Engine case, those registered and deleted automatically included."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from apps.engine.case_text import shown
from apps.engine.errors import BadCase
from apps.engine.jobs.fields import read_list, read_number, refuse_repeated, refuse_unknown_fields
from apps.engine.jobs.gridengine.inputs.config import LARGEST, LARGEST_USAGE, Config, read_object

Kind = Literal["user", "project", "department"]
KINDS: tuple[Kind, ...] = ("user", "project", "department")
_FIELDS: Mapping[Kind, tuple[str, ...]] = {
    "user": ("name", "fshare", "oticket", "usage", "project_usage", "idle_s"),
    "project": ("name", "fshare", "oticket", "usage"),
    "department": ("name", "fshare", "oticket", "members"),
}
_MOST_LISTED = 12  # names in a message


@dataclass(eq=False, frozen=True)
class Owner:
    """A user, project or department: functional shares, override tickets and usage by resource."""

    kind: Kind
    name: str
    fshare: float = 0.0
    oticket: float = 0.0
    usage: Mapping[str, float] = field(default_factory=dict)
    project_usage: Mapping[str, Mapping[str, float]] = field(default_factory=dict)


class Owners:
    """Owners by kind and name. Unlisted users are registered by their first job, as `enforce_user auto` does.

    registered: names of these users. deleted: users who were idle for `auto_user_delete_time`; their entry has no
    effect any more, and a job registers them anew, without usage.
    """

    def __init__(self, case: Mapping[str, Any], config: Config) -> None:
        self._config = config
        self.registered: list[str] = []
        self.deleted: list[str] = []
        self.listed: dict[Kind, dict[str, Owner]] = {kind: self._read(case, kind) for kind in KINDS}
        self._unlisted: dict[tuple[Kind, str], Owner] = {}

    def of_job(self, entry: Mapping[str, Any], place: str) -> dict[Kind, Owner]:
        """The owners of one job; a project must be listed where any is."""
        mine: dict[Kind, Owner] = {}
        for kind in KINDS:
            name = read_name(entry, kind, place)
            if name is None:
                continue
            found = self.listed[kind]
            if kind == "project" and found and name not in found:
                names = ", ".join([*found][:_MOST_LISTED]) + (" …" if len(found) > _MOST_LISTED else "")
                raise BadCase(f"unknown project {shown(name)}; allowed are {names}", place=f"{place}.project")
            mine[kind] = found.get(name) or self._register(kind, name)
        return mine

    def _register(self, kind: Kind, name: str) -> Owner:
        if (kind, name) not in self._unlisted:
            if kind == "user":
                self.registered.append(name)
                owner = Owner(kind, name, self._config.auto_user_fshare, self._config.auto_user_oticket)
            else:
                owner = Owner(kind, name)
            self._unlisted[kind, name] = owner
        return self._unlisted[kind, name]

    def _read(self, case: Mapping[str, Any], kind: Kind) -> dict[str, Owner]:
        plural = f"{kind}s"
        owners: dict[str, Owner] = {}
        for index, entry in enumerate(read_list(case, plural)):
            place = f"{plural}[{index}]"
            if not isinstance(entry, dict):
                raise BadCase(f"{shown(entry)} can't be used; an object with a name is allowed", place=place)
            refuse_repeated(entry, place)
            name = read_name(entry, "name", place)
            if name is None:
                raise BadCase("is missing; text that isn't empty is allowed", place=f"{place}.name")
            if name in owners or name in self.deleted:
                raise BadCase(f"two {plural} have the name {shown(name)}; names must differ", place=f"{place}.name")
            place = f"{plural}.{name}"
            refuse_unknown_fields(entry, _FIELDS[kind], place)
            owner = self._read_owner(entry, kind, name, place)
            if kind == "user" and self._is_deleted(entry, place):
                self.deleted.append(name)
            else:
                owners[name] = owner
        return owners

    def _read_owner(self, entry: Mapping[str, Any], kind: Kind, name: str, place: str) -> Owner:
        """A user's shares and tickets that aren't given are those of automatic users."""
        is_user = kind == "user"
        defaults = {
            "fshare": self._config.auto_user_fshare if is_user else 0.0,
            "oticket": self._config.auto_user_oticket if is_user else 0.0,
        }
        fshare, oticket = (
            read_number(entry, key, place, default=default, minimum=0.0, maximum=LARGEST)
            for key, default in defaults.items()
        )
        by_project = read_object(entry, "project_usage", place)
        return Owner(
            kind,
            name,
            fshare,
            oticket,
            usage=_read_usage(read_object(entry, "usage", place), f"{place}.usage"),
            project_usage={
                project: _read_usage(
                    read_object(by_project, project, f"{place}.project_usage"), f"{place}.project_usage.{project}"
                )
                for project in by_project
            },
        )

    def _is_deleted(self, entry: Mapping[str, Any], place: str) -> bool:
        """`idle_s`: for how long an automatic user had no job. Others have none and stay."""
        idle_s = read_number(entry, "idle_s", place, default=None, minimum=0.0, maximum=LARGEST)
        return idle_s is not None and 0 < self._config.auto_user_delete_time_s <= idle_s


def _read_usage(table: Mapping[str, Any], place: str) -> dict[str, float]:
    return {name: read_number(table, name, place, default=0.0, minimum=0.0, maximum=LARGEST_USAGE) for name in table}


def read_name(entry: Mapping[str, Any], key: str, place: str) -> str | None:
    """Text that isn't empty; None where it is absent."""
    value = entry.get(key)
    if value is not None and (not isinstance(value, str) or not value):
        raise BadCase(f"{shown(value)} can't be used; text that isn't empty is allowed", place=f"{place}.{key}")
    return value
