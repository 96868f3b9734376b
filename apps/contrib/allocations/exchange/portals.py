"""What a portal of projects shows, in this product's terms: groups with members, and their allocations.

`coldfront` and `waldur` read the answers of their REST interfaces into this.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Annotated, Any

from apps.contrib.allocations.exchange.lines import AllocationFile, LineReader
from apps.core.errors import FieldProblem, Invalid
from apps.policies.units import CORE_HOUR

_RULE = re.compile(r"(?P<name>.+?)=(?P<symbol>[^=*]+?)(?:\*(?P<factor>[0-9.eE+-]+))?")


@dataclass(frozen=True)
class UnitRule:
    """An amount that a portal names, in hours of a unit: its number times `factor`, such as 1000 for k-Hours."""

    symbol: str
    factor: float = 1.0


@dataclass(frozen=True, kw_only=True)
class PortalTerms:
    """How allocations of a portal are read. units: by the portal's name of the attribute or component.

    starts_on, ends_on: of allocations for which the portal names no day.
    """

    units: Mapping[str, UnitRule]
    starts_on: date | None = None
    ends_on: date | None = None


@dataclass(frozen=True)
class PortalGroup:
    """A project, or one account of it, which is an entry here. place: where the portal has it."""

    place: str
    name: str
    members: tuple[str, ...] = ()


@dataclass(frozen=True)
class PortalAmount:
    """One amount of a portal. of: the portal's id of the allocation or resource. amount: in hours of the unit."""

    place: str
    of: str
    attribute: Annotated[str, "Name of the attribute or component"]
    group: str
    unit: str
    amount: Any
    starts_on: date | str | None
    ends_on: date | str | None


@dataclass
class PortalState:
    """Groups by name, the amounts allocated to them, and what was left out, as sentences."""

    groups: dict[str, PortalGroup] = field(default_factory=dict)
    amounts: list[PortalAmount] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    problems: list[FieldProblem] = field(default_factory=list)

    def add_group(self, group: PortalGroup) -> None:
        """Add a group, or its members to those of the same name."""
        other = self.groups.get(group.name)
        members = (*other.members, *group.members) if other else group.members
        self.groups[group.name] = PortalGroup(group.place, group.name, tuple(dict.fromkeys(members)))

    def file(self, below: str) -> AllocationFile:
        """The amounts as allocations to children of an entry; amounts of one group, unit and days are added up."""
        reader = LineReader(_number)
        sums: dict[tuple[Any, ...], tuple[str, float]] = {}
        for each in self.amounts:
            days = each.starts_on, each.ends_on
            try:
                amount = _number(each.amount)
            except ValueError as error:
                reader.problem(each.place, "amount", str(error))
                continue
            key = (each.group, each.unit, *days)
            place, total = sums.get(key, (each.place, 0.0))
            sums[key] = (place, total + amount)
        for (group, unit, starts_on, ends_on), (place, amount) in sums.items():
            values = {"entry": child_path(below, group), "unit": unit, "amount": amount}
            reader.add(place, {**values, "starts_on": starts_on, "ends_on": ends_on})
        problems = [*self.problems, *map(_with_days, reader.problems)]
        return AllocationFile(tuple(reader.lines), tuple(problems))


def child_path(below: str, name: str) -> str:
    return f"{below.rstrip('/')}/{name}"


def read_unit_rules(texts: Iterable[str]) -> dict[str, UnitRule]:
    """Read rules such as `Core Usage (Hours)=core-h` and `cpu=core-h*1000`; raises Invalid for others."""
    rules = {}
    for text in texts:
        match = _RULE.fullmatch(text.strip())
        factor = _factor(match["factor"]) if match else None
        if match is None or factor is None:
            message = f"{text[:80]!r} is no rule NAME=SYMBOL or NAME=SYMBOL*FACTOR, such as cpu=core-h*1000"
            raise Invalid(f"unit {message}.", fields=[FieldProblem("unit", message)])
        rules[match["name"].strip()] = UnitRule(match["symbol"].strip(), factor)
    return rules or {"Core Usage (Hours)": UnitRule(CORE_HOUR.symbol), "cpu": UnitRule(CORE_HOUR.symbol)}


def _factor(text: str | None) -> float | None:
    try:
        factor = float(text or 1)
    except ValueError:
        return None
    return factor if math.isfinite(factor) and factor > 0 else None


def scaled(value: object, rule: UnitRule) -> Any:
    """An amount times the rule's factor; a value that is no number stays, so that its place is named."""
    try:
        return _number(value) * rule.factor
    except ValueError:
        return value


def _number(value: object) -> float:
    """A number, or a text that is one, as portals store both."""
    try:
        number = math.nan if isinstance(value, bool) else float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise ValueError(f"{str(value)[:40]!r} is no number: correct it in the portal")
    return number


def _with_days(problem: FieldProblem) -> FieldProblem:
    """The problem of a missing day with the option that states it."""
    name = problem.where.rpartition(", ")[2]
    if name in ("starts_on", "ends_on") and problem.message.startswith("is empty"):
        message = f"the portal names no day: state it for all such allocations, with {name}"
        return FieldProblem(problem.where, message)
    return problem


def objects_of(value: object, place: str, problems: list[FieldProblem]) -> list[Mapping[str, Any]]:
    """The objects of a list; anything else is a problem. None is an empty list."""
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(each, Mapping) for each in value):
        problems.append(FieldProblem(place, "must be a list of objects, as the portal's REST interface answers"))
        return []
    return value


def text_in(value: Mapping[str, Any], *names: str) -> str:
    """The first text that isn't empty among the fields of an object; "" if there is none."""
    return next((text.strip() for name in names if isinstance(text := value.get(name), str) and text.strip()), "")


Read = Callable[[Mapping[str, Any], PortalTerms], PortalState]
