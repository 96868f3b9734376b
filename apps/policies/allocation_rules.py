"""Rules of allocations as a policy's settings declare them: what a rule concerns, what it may change, and its terms.

A rule acts once a day at most, and once in each of its periods. What it computes is in apps.contrib.allocations.rules.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Literal, cast

from apps.policies.settings_reader import SettingsReader
from apps.policies.tree.names import MOST_ENTRY_SHARES
from apps.policies.units import CORE_HOUR, LONGEST_SYMBOL

LONGEST_RULE_NAME = 64
LONGEST_LIMIT_NAME = 64
MOST_RULES = 50
_MOST_PATTERNS, _MOST_LEVELS, _MOST_TRES = 100, 20, 20
_LONGEST_DAYS = 3_660
_MOST_ENTRIES = 5_000  # of a day: a change set holds 10,000 operations
_MOST_PERCENT = 1_000.0
_MOST_MINUTES = 10**15
_BELOW = "**"  # last segment of a pattern: everything below

Json = dict[str, Any]
Mode = Literal["off", "shadow", "on"]
Every = Literal["month", "quarter"]
MODES: tuple[Mode, ...] = ("off", "shadow", "on")
EVERY: tuple[Every, ...] = ("month", "quarter")
MONTHS_OF: dict[str, int] = {"month": 1, "quarter": 3}


_THINGS = {
    "shares": "the shares",
    "limits": "the QOS or GrpTRESMins",
    "amount": "the amount of allocations",
    "carried": "what is carried over",
}
_COMMON = ("name", "kind", "mode", "entries", "unit", "most")


@dataclass(frozen=True, slots=True)
class Level:
    """What happens from a percentage of the amount on. None leaves a thing as the level before has it.

    shares: a number to which shares are lowered. qos: a QOS; "" for the usual one. grp_tres_mins: minutes by TRES;
    empty for no limit.
    """

    percent: float
    notify: bool = True
    shares: float | None = None
    qos: str | None = None
    grp_tres_mins: tuple[tuple[str, int], ...] | None = None


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Levels of use, ascending: each acts when it is reached, and again after hours were added and used up."""

    levels: tuple[Level, ...]


@dataclass(frozen=True, slots=True)
class LastWhenUsedUp:
    """Siblings divide the sum of their shares by what remains of their allocations. least_shares: of a used-up one."""

    every: Every
    least_shares: float


@dataclass(frozen=True, slots=True)
class CarryOver:
    """A part of what is unused at the end goes to the allocation that follows.

    percent: of what is unused. most_percent: of the following amount, at most; None for no cap. days: of its validity.
    """

    percent: float
    most_percent: float | None
    days: int


@dataclass(frozen=True, slots=True)
class Portions:
    """The amount becomes available in equal portions. keeps: how many periods later an unused one is lost; None for
    never.
    """

    every: Every
    keeps: int | None


@dataclass(frozen=True, slots=True)
class Aging:
    """After each interval, what should have been used by then at an even pace is lost where it wasn't used."""

    interval_days: int


@dataclass(frozen=True, slots=True)
class Reduction:
    """Below a percentage of the plan, so many percent are removed."""

    below_percent: float
    removed_percent: float


@dataclass(frozen=True, slots=True)
class PullBack:
    """Removes hours after each period but the last, by a table, where use is below the plan.

    days_after: the period. plan: percent of the amount by period, None for even. of: what is a removed percent of: the
    plan to date, all removals together; or what is unused, each time. table: by descending bounds.
    """

    every: Every
    days_after: int
    plan: tuple[float, ...] | None
    of: Literal["planned", "unused"]
    table: tuple[Reduction, ...]


Terms = Thresholds | LastWhenUsedUp | CarryOver | Portions | Aging | PullBack


@dataclass(frozen=True, slots=True)
class AllocationRule:
    """A rule of a policy.

    entries: patterns of paths, such as /physics, /physics/* or /physics/**; empty for every entry with an allocation.
    unit: of the allocations that it concerns, by its symbol. most_percent: of what an allocation or the shares had
    before, at most so much is taken away. most_entries: at most so many are changed a day.
    """

    name: str
    kind: str
    mode: Mode
    entries: tuple[str, ...]
    unit: str
    most_percent: float
    most_entries: int
    terms: Terms

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> AllocationRule:
        """Of the settings of a revision, which are complete."""
        kind = KINDS[data["kind"]]
        return cls(
            name=data["name"],
            kind=data["kind"],
            mode=data["mode"],
            entries=tuple(data["entries"]),
            unit=data["unit"],
            most_percent=float(data["most"]["percent"]),
            most_entries=int(data["most"]["entries"]),
            terms=kind.load(data[data["kind"]]),
        )

    @property
    def is_on(self) -> bool:
        return self.mode == "on"

    @property
    def changes(self) -> frozenset[str]:
        """What it may change of an entry: shares, limits, amount, or carried (a new allocation)."""
        if isinstance(self.terms, Thresholds):
            levels = self.terms.levels
            changed = {"shares"} if any(level.shares is not None for level in levels) else set()
            has_limits = any(level.qos is not None or level.grp_tres_mins is not None for level in levels)
            return frozenset(changed | ({"limits"} if has_limits else set()))
        return frozenset({KINDS[self.kind].changes})

    def concerns(self, path: str) -> bool:
        return not self.entries or any(_matches(pattern, path) for pattern in self.entries)


def rules_of(settings: Sequence[Mapping[str, Any]]) -> tuple[AllocationRule, ...]:
    return tuple(AllocationRule.from_json(each) for each in settings)


def _matches(pattern: str, path: str) -> bool:
    wanted, names = pattern[1:].split("/"), path[1:].split("/")
    if wanted[-1] == _BELOW:
        wanted, names = wanted[:-1], names[: len(wanted) - 1] if len(names) >= len(wanted) else []
        if not names and wanted:
            return False
    return len(wanted) == len(names) and all(mine in ("*", name) for mine, name in zip(wanted, names, strict=True))


def _overlap(one: str, other: str) -> bool:
    """Whether some path fits both patterns."""
    left, right = one[1:].split("/"), other[1:].split("/")
    for mine, yours in zip(left, right, strict=False):
        if _BELOW in (mine, yours):
            return True  # what is below one is below the other, as far as the other goes
        if mine != yours and "*" not in (mine, yours):
            return False
    return len(left) == len(right)


def fighting(rules: Sequence[AllocationRule]) -> list[tuple[AllocationRule, AllocationRule, str]]:
    """Pairs of rules that are on and would change the same thing of the same entries, and that thing."""
    pairs = []
    for one, other in combinations([rule for rule in rules if rule.is_on], 2):
        both = one.changes & other.changes - (frozenset() if one.unit == other.unit else {"amount", "carried"})
        patterns = [(a, b) for a in one.entries or ("/**",) for b in other.entries or ("/**",)]
        if both and any(_overlap(a, b) for a, b in patterns):
            pairs.append((one, other, min(both)))
    return pairs


def read_rules(checked: SettingsReader, value: object) -> list[Json]:
    """Validate rules: each has a name and terms of its own, and no two that are on change the same thing."""
    where, read, taken = "settings.rules", [], set()
    for place, item in checked.items(value, where, MOST_RULES):
        n_before = len(checked.problems)
        rule = checked.mapping(item, place)
        kind = checked.choice(rule.get("kind"), f"{place}.kind", tuple(KINDS))
        rule = checked.mapping(rule, place, allowed=[*_COMMON, kind])
        name = checked.text(rule.get("name"), f"{place}.name", LONGEST_RULE_NAME)
        if name.casefold() in taken:
            checked.problem(f"{place}.name", f"is repeated: {name!r} is another rule")
        taken.add(name.casefold())
        most = checked.mapping(rule.get("most", {}), f"{place}.most", allowed=["percent", "entries"])
        data = {
            "name": name,
            "kind": kind,
            "mode": checked.choice(rule.get("mode", "shadow"), f"{place}.mode", MODES),
            "entries": _patterns(checked, rule.get("entries", []), f"{place}.entries"),
            "unit": checked.text(rule.get("unit", CORE_HOUR.symbol), f"{place}.unit", LONGEST_SYMBOL),
            "most": {
                "percent": checked.number(most.get("percent", 100), f"{place}.most.percent", 0, 100),
                "entries": checked.whole(most.get("entries", 1_000), f"{place}.most.entries", 1, _MOST_ENTRIES),
            },
            kind: KINDS[kind].read(checked, _terms(checked, rule, kind, place), f"{place}.{kind}"),
        }
        if len(checked.problems) == n_before:
            read.append(data)
    for one, other, thing in fighting(rules_of(read)):
        checked.problem(
            where,
            f"{one.name!r} and {other.name!r} would both change {_THINGS[thing]} of the same entries: "
            "turn one off, or narrow its entries",
        )
    return read


def _terms(checked: SettingsReader, rule: Mapping[str, Any], kind: str, place: str) -> Mapping[str, Any]:
    return checked.mapping(rule.get(kind, {}), f"{place}.{kind}", allowed=list(KINDS[kind].keys))


def _patterns(checked: SettingsReader, value: object, where: str) -> list[str]:
    if not isinstance(value, list) or len(value) > _MOST_PATTERNS:
        checked.problem(where, f"must be a list of at most {_MOST_PATTERNS} paths")
        return []
    read = []
    for i, item in enumerate(value):
        segments = item[1:].split("/") if isinstance(item, str) and item.startswith("/") else [""]
        if not all(segments) or _BELOW in segments[:-1] or len(item) > 4_096:
            checked.problem(f"{where}[{i}]", "must be a path such as /physics, /physics/* or /physics/**")
        else:
            read.append(item)
    return read


def _read_thresholds(checked: SettingsReader, terms: Mapping[str, Any], where: str) -> Json:
    read: list[Json] = []
    for place, item in checked.items(terms.get("levels"), f"{where}.levels", _MOST_LEVELS):
        level = checked.mapping(item, place, allowed=["percent", "notify", "shares", "qos", "grp_tres_mins"])
        percent = checked.number(level.get("percent"), f"{place}.percent", 0, _MOST_PERCENT)
        if read and percent <= read[-1]["percent"]:
            checked.problem(f"{place}.percent", "must be above that of the level before")
        notify, shares = level.get("notify", True), level.get("shares")
        if not isinstance(notify, bool):
            checked.problem(f"{place}.notify", "must be true or false")
        if shares is not None:
            shares = checked.number(shares, f"{place}.shares", 0, MOST_ENTRY_SHARES)
        read.append(
            {
                "percent": percent,
                "notify": notify,
                "shares": shares,
                "qos": read_qos(checked, level.get("qos"), f"{place}.qos"),
                "grp_tres_mins": read_tres_minutes(checked, level.get("grp_tres_mins"), f"{place}.grp_tres_mins"),
            }
        )
    if not read:
        checked.problem(f"{where}.levels", "needs at least one level")
    return {"levels": read}


def read_qos(checked: SettingsReader, value: object, where: str) -> str | None:
    """Name of a QOS; "" for the usual one, None to leave it."""
    if value is None or value == "":
        return cast("str | None", value)
    name = checked.text(value, where, LONGEST_LIMIT_NAME)
    if set(name) & set(" ,=+\"'\\"):
        checked.problem(where, "must be the name of a QOS, without blanks, commas or quotes")
    return name


def read_tres_minutes(checked: SettingsReader, value: object, where: str) -> dict[str, int] | None:
    """Minutes by TRES, such as {"cpu": 0}; empty for no limit, None to leave them."""
    if value is None:
        return None
    minutes = checked.mapping(value, where)
    if len(minutes) > _MOST_TRES:
        checked.problem(where, f"has at most {_MOST_TRES} TRES")
    read = {}
    for tres, amount in list(minutes.items())[:_MOST_TRES]:
        place = f"{where}.{tres[:60]}"
        if not 1 <= len(tres) <= LONGEST_LIMIT_NAME or not tres.isprintable() or set(tres) & set(" ,=\"'\\"):
            checked.problem(place, "must be the name of a TRES, such as cpu or gres/gpu")
        read[tres] = checked.whole(amount, place, 0, _MOST_MINUTES)
    return read


def _load_thresholds(terms: Mapping[str, Any]) -> Thresholds:
    def level(data: Mapping[str, Any]) -> Level:
        minutes = data["grp_tres_mins"]
        tres = None if minutes is None else tuple(sorted(minutes.items()))
        return Level(data["percent"], data["notify"], data["shares"], data["qos"], tres)

    return Thresholds(tuple(level(each) for each in terms["levels"]))


def _read_last(checked: SettingsReader, terms: Mapping[str, Any], where: str) -> Json:
    return {
        "every": checked.choice(terms.get("every", "month"), f"{where}.every", EVERY),
        "least_shares": checked.number(terms.get("least_shares", 0), f"{where}.least_shares", 0, MOST_ENTRY_SHARES),
    }


def _read_carry_over(checked: SettingsReader, terms: Mapping[str, Any], where: str) -> Json:
    most = terms.get("most_percent")
    return {
        "percent": checked.number(terms.get("percent"), f"{where}.percent", 0, 100),
        "most_percent": None if most is None else checked.number(most, f"{where}.most_percent", 0, _MOST_PERCENT),
        "days": checked.whole(terms.get("days"), f"{where}.days", 1, _LONGEST_DAYS),
    }


def _read_portions(checked: SettingsReader, terms: Mapping[str, Any], where: str) -> Json:
    keeps = terms.get("keeps")
    return {
        "every": checked.choice(terms.get("every", "month"), f"{where}.every", EVERY),
        "keeps": None if keeps is None else checked.whole(keeps, f"{where}.keeps", 0, 120),
    }


def _read_aging(checked: SettingsReader, terms: Mapping[str, Any], where: str) -> Json:
    return {"interval_days": checked.whole(terms.get("interval_days"), f"{where}.interval_days", 1, _LONGEST_DAYS)}


def _read_pull_back(checked: SettingsReader, terms: Mapping[str, Any], where: str) -> Json:
    table: list[Json] = []
    for place, item in checked.items(terms.get("table"), f"{where}.table", _MOST_LEVELS):
        row = checked.mapping(item, place, allowed=["below_percent", "removed_percent"])
        below = checked.number(row.get("below_percent"), f"{place}.below_percent", 0, _MOST_PERCENT)
        removed = checked.number(row.get("removed_percent"), f"{place}.removed_percent", 0, 100)
        if table and below >= table[-1]["below_percent"]:
            checked.problem(f"{place}.below_percent", "must be below that of the row before")
        table.append({"below_percent": below, "removed_percent": removed})
    if not table:
        checked.problem(f"{where}.table", "needs at least one row")
    return {
        "every": checked.choice(terms.get("every", "quarter"), f"{where}.every", EVERY),
        "days_after": checked.whole(terms.get("days_after", 0), f"{where}.days_after", 0, 60),
        "plan": _read_plan(checked, terms.get("plan"), f"{where}.plan"),
        "of": checked.choice(terms.get("of", "planned"), f"{where}.of", ("planned", "unused")),
        "table": table,
    }


def _read_plan(checked: SettingsReader, value: object, where: str) -> list[float] | None:
    if value is None:
        return None
    if not isinstance(value, list) or not 1 <= len(value) <= 120:
        checked.problem(where, "must be a list of percentages, one for each period")
        return None
    plan = [checked.number(each, f"{where}[{i}]", 0, 100) for i, each in enumerate(value)]
    if abs(sum(plan) - 100) > 1e-6:
        checked.problem(where, f"must add up to 100; these are {sum(plan):g}")
    return plan


def _load_pull_back(terms: Mapping[str, Any]) -> PullBack:
    table = tuple(Reduction(**row) for row in terms["table"])
    plan = None if terms["plan"] is None else tuple(terms["plan"])
    return PullBack(terms["every"], terms["days_after"], plan, terms["of"], table)


@dataclass(frozen=True)
class Kind:
    """A kind of rule: keys of its terms, how they are validated and loaded, and what it changes."""

    keys: tuple[str, ...]
    read: Callable[[SettingsReader, Mapping[str, Any], str], Json]
    load: Callable[[Mapping[str, Any]], Terms]
    changes: str


KINDS: dict[str, Kind] = {
    "thresholds": Kind(("levels",), _read_thresholds, _load_thresholds, "shares"),
    "last_when_used_up": Kind(("every", "least_shares"), _read_last, lambda terms: LastWhenUsedUp(**terms), "shares"),
    "carry_over": Kind(
        ("percent", "most_percent", "days"), _read_carry_over, lambda terms: CarryOver(**terms), "carried"
    ),
    "portions": Kind(("every", "keeps"), _read_portions, lambda terms: Portions(**terms), "amount"),
    "aging": Kind(("interval_days",), _read_aging, lambda terms: Aging(**terms), "amount"),
    "pull_back": Kind(("every", "days_after", "plan", "of", "table"), _read_pull_back, _load_pull_back, "amount"),
}
