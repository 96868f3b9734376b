"""What an experiment is about, as JSON: the workload, the base, and up to four variants that change something of it.

`read_spec` checks a request and returns frozen records; `to_json` of these is the canonical form that is stored. Every
problem of a request is reported at its field, all at once.

    {"workload": {"kind": "synthetic", "hours": 72, "sites": [{"name": "R1", "cpus": 100}],
                  "streams": [{"entry": "/physics/alice", "load": 0.6, "run_h": [0.5, 1.5]}]},
     "base": {},
     "variants": [{"name": "Two weeks", "settings": {"window": {"half_life_s": 1209600}}}, {"change_set": 12}],
     "seed": 1}

Other workloads: {"kind": "replay", "days": 90} and {"kind": "trace", "trace": 3, "sites": […], "map": […]}. `scenario`
names a shipped scenario whose tree and settings are the base, in place of the policy's; its jobs are drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import date
from math import inf
from typing import Any

from django.utils.translation import gettext as _

from apps.contrib.lab.scenario_files import is_shipped
from apps.core.errors import FieldProblem, Invalid
from apps.policies.tree.names import LONGEST_TYPED_PATH

SYNTHETIC, TRACE, REPLAY = "synthetic", "trace", "replay"
KINDS = (SYNTHETIC, TRACE, REPLAY)
MOST_VARIANTS = 4  # besides the base
MOST_WORKLOAD_SITES = 1_000
MOST_WORKLOAD_STREAMS = 2_000
MOST_MAP_RULES = 1_000
MOST_ENTRY_CHANGES = 100
MOST_WORKLOAD_DAYS = 365
MOST_WORKLOAD_HOURS = 366 * 24
SCOPES = ("policy", "local", "global")
LONGEST_EXPERIMENT_NAME = 200
_MOST_JOBS_TIMES = 100.0
_MOST_CPUS = 10_000_000
Json = dict[str, Any]


@dataclass(frozen=True)
class Site:
    """A cluster with its own queue."""

    name: str
    cpus: int


@dataclass(frozen=True)
class Stream:
    """Jobs of one entry: one each `every_s`, or at random with this mean, or by `load`: the part of the processors of
    its sites that they need. sites: of the experiment; all where empty. entry: path, or uid. priority: the group of
    jobs that are before all others in a SAM queue.
    """

    entry: str
    every_s: float | None = None
    poisson_s: float | None = None
    load: float | None = None
    run_h: tuple[float, float] = (0.5, 1.5)
    requested_factor: tuple[float, float] = (1.0, 1.0)
    cpus: int = 1
    sites: tuple[str, ...] = ()
    from_h: float = 0.0
    until_h: float | None = None
    priority: float | None = None


@dataclass(frozen=True)
class AllUsers:
    """One stream of random jobs for each ranked leaf, in proportion to its share of the whole: `load` of all
    processors together.
    """

    load: float = 1.1
    run_h: tuple[float, float] = (0.5, 1.5)
    requested_factor: tuple[float, float] = (1.0, 1.5)
    cpus: int = 1


@dataclass(frozen=True)
class SyntheticWorkload:
    """Drawn jobs. all_users: instead of `streams`."""

    hours: float
    sites: tuple[Site, ...]
    streams: tuple[Stream, ...] = ()
    all_users: AllUsers | None = None
    kind: str = SYNTHETIC


@dataclass(frozen=True)
class TraceRule:
    """Jobs of this user and group (None: of any) belong to the entry at this path, in which {user} and {group} are
    replaced.
    """

    entry: str
    user: str | None = None
    group: str | None = None


@dataclass(frozen=True)
class TraceWorkload:
    """Jobs of an uploaded log. hours: None for all of it."""

    trace: int
    sites: tuple[Site, ...]
    map: tuple[TraceRule, ...]
    hours: float | None = None
    kind: str = TRACE


@dataclass(frozen=True)
class ReplayWorkload:
    """The site's own jobs of some days, the last of which is `until_on` (None: yesterday, set when it is made).

    cpus: processors by site; without one, on each day the most that ran there at once.
    """

    days: int
    until_on: date | None = None
    cpus: Mapping[str, int] = field(default_factory=dict)
    kind: str = REPLAY


Workload = SyntheticWorkload | TraceWorkload | ReplayWorkload


@dataclass(frozen=True)
class EntryChange:
    """Shares of an entry, and jobs at and below it, times these factors. entry: path, or uid.

    jobs_times 0: an idle entry, which keeps its shares.
    """

    entry: str
    shares_times: float = 1.0
    jobs_times: float = 1.0


@dataclass(frozen=True)
class Noise:
    """Defects of usage data: its delay, the part of jobs that it never has, and the steps in which shares are known
    (0: exactly).
    """

    usage_delay_s: float = 0.0
    loss: float = 0.0
    resolution: int = 0


@dataclass(frozen=True)
class Changes:
    """What the base changes of the policy as published, or a variant of the base. None: as it is there.

    settings: parts of the policy's settings, as in a change set: algorithm, window and approach. change_set: the tree
    and the settings of this draft. refresh_s: how old usage of all sites may be. priority_refresh_s: how often
    priorities are recomputed. scope: by whose usage siblings are compared: as entries say (`policy`), everywhere the
    site's own (`local`) or that of all sites (`global`). imbalance: part of each stream's jobs that are sent to one
    site, its own. jobs_times: all jobs times this factor.
    """

    name: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)
    change_set: int | None = None
    entries: tuple[EntryChange, ...] = ()
    refresh_s: float | None = None
    priority_refresh_s: float | None = None
    scope: str | None = None
    noise: Noise | None = None
    imbalance: float | None = None
    jobs_times: float | None = None
    backfill: bool | None = None

    @property
    def changes_nothing(self) -> bool:
        """Whether only its name differs from none."""
        return replace(self, name="") == Changes()

    def over(self, base: Changes) -> Changes:
        """These changes, and of the base those that they leave as they are. Settings are merged part by part."""
        merged = {
            each.name: getattr(self, each.name) if getattr(self, each.name) is not None else getattr(base, each.name)
            for each in fields(self)
            if each.name not in ("name", "settings", "entries", "change_set")
        }
        parts = {part: {**base.settings.get(part, {}), **self.settings.get(part, {})} for part in SETTINGS}
        for part in ("algorithm",):  # parameters of another algorithm don't fit
            if "name" in self.settings.get(part, {}):
                parts[part] = dict(self.settings[part])
        return Changes(
            name=self.name,
            settings={part: values for part, values in parts.items() if values},
            change_set=self.change_set,
            entries=(*base.entries, *self.entries),
            **merged,
        )


SETTINGS = ("algorithm", "window", "approach")


@dataclass(frozen=True)
class ExperimentSpec:
    """A complete experiment. Index 0 is the base, 1 … the variants. scenario: empty where the policy is the base."""

    workload: Workload
    base: Changes = field(default_factory=Changes)
    variants: tuple[Changes, ...] = ()
    seed: int = 1
    scenario: str = ""

    @property
    def n_runs(self) -> int:
        return 1 + len(self.variants)

    def setup(self, index: int) -> Changes:
        """All changes of this variant to the policy as published."""
        return self.base if index == 0 else self.variants[index - 1].over(self.base)

    def to_json(self) -> Json:
        """The canonical form."""
        scenario = {"scenario": self.scenario} if self.scenario else {}
        return scenario | {
            "workload": _plain(self.workload),
            "base": _plain(self.base),
            "variants": [_plain(variant) for variant in self.variants],
            "seed": self.seed,
        }


def _plain(value: Any) -> Any:
    """JSON of a record, without what is not given."""
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    if isinstance(value, date):
        return value.isoformat()
    if hasattr(value, "__dataclass_fields__"):
        columns = {each.name: getattr(value, each.name) for each in fields(value)}
        return {name: _plain(each) for name, each in columns.items() if each is not None and each not in ("", (), {})}
    return dict(value) if isinstance(value, Mapping) else value


def read_spec(data: object) -> ExperimentSpec:
    """Check the JSON of an experiment. Raises Invalid (`bad_experiment`) with all wrong fields."""
    reader = _Reader()
    spec = reader.table(data, "", ("workload", "base", "variants", "seed", "scenario"))
    variants = reader.rows(spec.get("variants", []), "variants", MOST_VARIANTS)
    read = ExperimentSpec(
        workload=reader.workload(spec.get("workload")),
        base=reader.changes(spec.get("base", {}), "base", is_base=True),
        variants=tuple(reader.changes(each, f"variants[{i}]") for i, each in enumerate(variants)),
        seed=int(reader.number(spec, "seed", "", default=1, least=0, most=2**63 - 1, is_whole=True)),
        scenario=reader.scenario(spec),
    )
    reader.refuse_unlike_scenario(read)
    reader.refuse()
    return read


class _Reader:
    """Collects problems, so that one error reports them together."""

    def __init__(self) -> None:
        self.problems: list[FieldProblem] = []

    def refuse(self) -> None:
        if self.problems:
            first = self.problems[0]
            message = f"{first.where} {first.message}."
            raise Invalid(message, code="bad_experiment", fields=self.problems[:50])

    def problem(self, where: str, message: str) -> None:
        self.problems.append(FieldProblem(where or "experiment", message))

    def scenario(self, values: Mapping[str, Any]) -> str:
        name = self.text(values, "scenario", "", most=LONGEST_EXPERIMENT_NAME)
        if name and not is_shipped(name):
            self.problem("scenario", _("names no shipped scenario"))
            return ""
        return name

    def refuse_unlike_scenario(self, spec: ExperimentSpec) -> None:
        """A scenario has a tree of its own: the site's jobs, and drafts of the policy, belong to another one."""
        if not spec.scenario:
            return
        if not isinstance(spec.workload, SyntheticWorkload):
            self.problem("workload.kind", _("must be synthetic: a shipped scenario has a tree of its own"))
        for i, variant in enumerate(spec.variants):
            if variant.change_set is not None:
                self.problem(f"variants[{i}].change_set", _("is of the policy, not of the scenario"))

    def table(self, value: object, where: str, allowed: Sequence[str]) -> Mapping[str, Any]:
        if not isinstance(value, Mapping):
            self.problem(where, _("must be an object"))
            return {}
        for name in value:
            if name not in allowed:
                known = ", ".join(allowed)
                self.problem(_join(where, str(name)[:60]), _("is not known here; known: %(names)s") % {"names": known})
        return value

    def rows(self, value: object, where: str, most: int) -> list[Any]:
        if not isinstance(value, list):
            self.problem(where, _("must be a list"))
            return []
        if len(value) > most:
            self.problem(where, _("has %(n)s; at most %(most)s are allowed") % {"n": len(value), "most": most})
            return []
        return value

    def text(self, values: Mapping[str, Any], name: str, where: str, *, most: int, is_required: bool = False) -> str:
        value = values.get(name, "")
        is_text = isinstance(value, str) and len(value) <= most and value.isprintable() and value == value.strip()
        if not is_text or (is_required and not value):
            least = 1 if is_required else 0
            message = _("must be a text of %(least)s to %(most)s characters") % {"least": least, "most": most}
            self.problem(_join(where, name), message)
            return ""
        return str(value)

    def number(
        self,
        values: Mapping[str, Any],
        name: str,
        where: str,
        *,
        default: float | None,
        least: float,
        most: float,
        is_whole: bool = False,
    ) -> float:
        """The number, or its default; without a default it is required."""
        value = values.get(name, default)
        is_number = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < inf
        if not is_number or not least <= value <= most or (is_whole and int(value) != value):
            message = _("must be a whole number from %(least)s to %(most)s") if is_whole else ""
            message = message or _("must be a number from %(least)s to %(most)s")
            self.problem(_join(where, name), message % {"least": f"{least:g}", "most": f"{most:g}"})
            return least
        return value  # type: ignore[no-any-return]

    def optional(self, values: Mapping[str, Any], name: str, where: str, *, least: float, most: float) -> float | None:
        if values.get(name) is None:
            return None
        return float(self.number(values, name, where, default=None, least=least, most=most))

    def span(
        self, values: Mapping[str, Any], name: str, where: str, *, default: tuple[float, float], least: float
    ) -> tuple[float, float]:
        value = values.get(name, list(default))
        ends = value if isinstance(value, list) else [value, value]
        if len(ends) == 2 and all(isinstance(end, int | float) and not isinstance(end, bool) for end in ends):
            low, high = ends
            if least <= low <= high <= 1e6:  # before they become doubles, for which a whole number may be too large
                return float(low), float(high)
        message = _("must be a number, or two with the smaller one first, of at least %(least)s")
        self.problem(_join(where, name), message % {"least": f"{least:g}"})
        return default

    def workload(self, value: object) -> Workload:
        kind = value.get("kind") if isinstance(value, Mapping) else None
        if not isinstance(kind, str) or kind not in KINDS:
            self.problem("workload.kind", _("must be one of %(names)s") % {"names": ", ".join(KINDS)})
            return ReplayWorkload(1)
        readers: dict[str, Callable[[Any], Workload]] = {
            SYNTHETIC: self._synthetic, TRACE: self._trace, REPLAY: self._replay,
        }  # fmt: skip
        return readers[kind](value)

    def _synthetic(self, value: object) -> SyntheticWorkload:
        values = self.table(value, "workload", ("kind", "hours", "sites", "streams", "all_users"))
        sites = self._sites(values)
        names = [site.name for site in sites]
        rows = self.rows(values.get("streams", []), "workload.streams", MOST_WORKLOAD_STREAMS)
        all_users = None
        if (values.get("all_users") is None) == (not rows):
            self.problem("workload.streams", _("needs streams, or all_users: one of the two"))
        elif values.get("all_users") is not None:
            all_users = self._all_users(values["all_users"])
        return SyntheticWorkload(
            hours=float(self.number(values, "hours", "workload", default=None, least=1, most=MOST_WORKLOAD_HOURS)),
            sites=sites,
            streams=tuple(self._stream(each, f"workload.streams[{i}]", names) for i, each in enumerate(rows)),
            all_users=all_users,
        )

    def _sites(self, values: Mapping[str, Any]) -> tuple[Site, ...]:
        rows = self.rows(values.get("sites", []), "workload.sites", MOST_WORKLOAD_SITES)
        if not rows:
            self.problem("workload.sites", _("must list at least one site"))
        sites: dict[str, Site] = {}
        for i, each in enumerate(rows):
            where = f"workload.sites[{i}]"
            row = self.table(each, where, ("name", "cpus"))
            name = self.text(row, "name", where, most=128, is_required=True)
            if name in sites:
                self.problem(f"{where}.name", _("is given twice"))
            cpus = int(self.number(row, "cpus", where, default=None, least=1, most=_MOST_CPUS, is_whole=True))
            sites[name] = Site(name, cpus)
        return tuple(sites.values())

    def _all_users(self, value: object) -> AllUsers:
        where = "workload.all_users"
        values = self.table(value, where, [each.name for each in fields(AllUsers)])
        return AllUsers(
            load=float(self.number(values, "load", where, default=1.1, least=0.001, most=100)),
            run_h=self.span(values, "run_h", where, default=(0.5, 1.5), least=0.001),
            requested_factor=self.span(values, "requested_factor", where, default=(1.0, 1.5), least=0.001),
            cpus=int(self.number(values, "cpus", where, default=1, least=1, most=_MOST_CPUS, is_whole=True)),
        )

    def _stream(self, value: object, where: str, sites: Sequence[str]) -> Stream:
        values = self.table(value, where, [each.name for each in fields(Stream)])
        rates = [name for name in ("every_s", "poisson_s", "load") if values.get(name) is not None]
        if len(rates) != 1:
            self.problem(where, _("needs one of every_s, poisson_s and load"))
        chosen = self.rows(values.get("sites", []), f"{where}.sites", MOST_WORKLOAD_SITES)
        for name in chosen:
            if name not in sites:
                self.problem(f"{where}.sites", _("names “%(site)s”, which is no site here") % {"site": str(name)[:60]})
        from_h = float(self.number(values, "from_h", where, default=0.0, least=0, most=MOST_WORKLOAD_HOURS))
        until_h = self.optional(values, "until_h", where, least=0, most=MOST_WORKLOAD_HOURS)
        if until_h is not None and until_h < from_h:
            self.problem(f"{where}.until_h", _("must not be before from_h"))
        return Stream(
            entry=self.text(values, "entry", where, most=LONGEST_TYPED_PATH, is_required=True),
            every_s=self.optional(values, "every_s", where, least=0.001, most=1e9),
            poisson_s=self.optional(values, "poisson_s", where, least=0.001, most=1e9),
            load=self.optional(values, "load", where, least=0, most=100),
            run_h=self.span(values, "run_h", where, default=(0.5, 1.5), least=0.001),
            requested_factor=self.span(values, "requested_factor", where, default=(1.0, 1.0), least=0.001),
            cpus=int(self.number(values, "cpus", where, default=1, least=1, most=_MOST_CPUS, is_whole=True)),
            sites=tuple(map(str, chosen)),
            from_h=from_h,
            until_h=until_h,
            priority=self.optional(values, "priority", where, least=0, most=1e9),
        )

    def _trace(self, value: object) -> TraceWorkload:
        values = self.table(value, "workload", ("kind", "trace", "sites", "map", "hours"))
        rows = self.rows(values.get("map", []), "workload.map", MOST_MAP_RULES)
        if not rows:
            self.problem("workload.map", _('must list at least one rule, such as {"entry": "/{group}/{user}"}'))
        rules = []
        for i, each in enumerate(rows):
            where = f"workload.map[{i}]"
            row = self.table(each, where, ("entry", "user", "group"))
            entry = self.text(row, "entry", where, most=LONGEST_TYPED_PATH, is_required=True)
            if entry and not entry.startswith("/"):
                self.problem(f"{where}.entry", _("must be a path, such as /physics/{user}"))
            rules.append(TraceRule(entry, *(self._number_of_log(row, name, where) for name in ("user", "group"))))
        return TraceWorkload(
            trace=int(self.number(values, "trace", "workload", default=None, least=1, most=2**63 - 1, is_whole=True)),
            sites=self._sites(values),
            map=tuple(rules),
            hours=self.optional(values, "hours", "workload", least=1, most=MOST_WORKLOAD_HOURS),
        )

    def _number_of_log(self, row: Mapping[str, Any], name: str, where: str) -> str | None:
        value = row.get(name)
        if value is None:
            return None
        if isinstance(value, bool) or not str(value).lstrip("-").isdigit():
            self.problem(f"{where}.{name}", _("must be a number of the log"))
        return str(value)

    def _replay(self, value: object) -> ReplayWorkload:
        values = self.table(value, "workload", ("kind", "days", "until_on", "cpus"))
        until_on = values.get("until_on")
        if until_on is not None and not isinstance(until_on, date):
            try:
                until_on = date.fromisoformat(str(until_on))
            except ValueError:
                self.problem("workload.until_on", _("must be a date such as 2026-01-31"))
                until_on = None
        cpus_of = values.get("cpus", {})
        capacity = self.table(cpus_of, "workload.cpus", list(cpus_of) if isinstance(cpus_of, Mapping) else ())
        cpus = {
            name: int(
                self.number(capacity, name, "workload.cpus", default=None, least=1, most=_MOST_CPUS, is_whole=True)
            )
            for name in list(capacity)[:MOST_WORKLOAD_SITES]
        }
        days = int(
            self.number(values, "days", "workload", default=None, least=1, most=MOST_WORKLOAD_DAYS, is_whole=True)
        )
        return ReplayWorkload(days, until_on, cpus)

    def changes(self, value: object, where: str, *, is_base: bool = False) -> Changes:
        values = self.table(value, where, [each.name for each in fields(Changes)])
        if is_base and values.get("change_set") is not None:
            self.problem("base.change_set", _("is for variants: the base is the policy as published"))
        scope, backfill = values.get("scope"), values.get("backfill")
        if scope is not None and scope not in SCOPES:
            self.problem(_join(where, "scope"), _("must be one of %(names)s") % {"names": ", ".join(SCOPES)})
        if backfill is not None and not isinstance(backfill, bool):
            self.problem(_join(where, "backfill"), _("must be true or false"))
        settings = self.table(values.get("settings", {}), _join(where, "settings"), SETTINGS)
        for part, each in settings.items():
            self.table(each, _join(where, f"settings.{part}"), list(each) if isinstance(each, Mapping) else ())
        rows = self.rows(values.get("entries", []), _join(where, "entries"), MOST_ENTRY_CHANGES)
        draft = values.get("change_set")
        if draft is not None:
            draft = int(self.number(values, "change_set", where, default=None, least=1, most=2**63 - 1, is_whole=True))
        return Changes(
            name=self.text(values, "name", where, most=LONGEST_EXPERIMENT_NAME),
            settings={part: dict(each) for part, each in settings.items() if isinstance(each, Mapping)},
            change_set=draft,
            entries=tuple(self._entry_change(each, f"{where}.entries[{i}]") for i, each in enumerate(rows)),
            refresh_s=self.optional(values, "refresh_s", where, least=1, most=1e7),
            priority_refresh_s=self.optional(values, "priority_refresh_s", where, least=0, most=1e7),
            scope=scope if scope in SCOPES else None,
            noise=None if values.get("noise") is None else self._noise(values["noise"], _join(where, "noise")),
            imbalance=self.optional(values, "imbalance", where, least=0, most=1),
            jobs_times=self.optional(values, "jobs_times", where, least=0.01, most=_MOST_JOBS_TIMES),
            backfill=backfill if isinstance(backfill, bool) else None,
        )

    def _noise(self, value: object, where: str) -> Noise:
        values = self.table(value, where, [each.name for each in fields(Noise)])
        resolution = int(self.number(values, "resolution", where, default=0, least=0, most=2**31, is_whole=True))
        if resolution == 1:
            self.problem(f"{where}.resolution", _("must be 0, for exactly, or at least 2"))
        return Noise(
            usage_delay_s=float(self.number(values, "usage_delay_s", where, default=0.0, least=0, most=1e7)),
            loss=float(self.number(values, "loss", where, default=0.0, least=0, most=1)),
            resolution=resolution,
        )

    def _entry_change(self, value: object, where: str) -> EntryChange:
        values = self.table(value, where, ("entry", "shares_times", "jobs_times"))
        times = [
            float(self.number(values, name, where, default=1.0, least=0.0, most=_MOST_JOBS_TIMES))
            for name in ("shares_times", "jobs_times")
        ]
        return EntryChange(self.text(values, "entry", where, most=LONGEST_TYPED_PATH, is_required=True), *times)


def _join(where: str, name: str) -> str:
    return f"{where}.{name}" if where else name
