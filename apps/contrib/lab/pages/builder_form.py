"""The form of an experiment: what was typed as JSON of an experiment, and problems of the JSON at their fields."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.utils.translation import gettext as _

from apps.contrib.lab.experiments.spec import MOST_VARIANTS, REPLAY, SYNTHETIC, TRACE
from apps.contrib.lab.experiments.variant_trees import entry_named
from apps.core.errors import DomainError
from apps.core.typed_numbers import read_number, read_whole
from apps.policies.tree.columns import TreeColumns

Json = dict[str, Any]
KEPT = "kept"  # the jobs of the experiment that the form began with
WORKLOAD_FIELDS = (
    *(
        "days",
        "until_on",
        "cpus",
        "trace",
        "map",
        "trace_hours",
        "trace_sites",
        "hours",
        "sites",
        "load",
        "run_from_h",
        "run_to_h",
    ),
    *("requested_from", "requested_to", "job_cpus", "streams"),
)
VARIANT_FIELDS = (
    *("name", "change_set", "algorithm", "operator", "resolution", "half_life_d", "approach_local", "approach_global"),
    *("more", "entries", "jobs_times", "scope", "refresh_min", "priority_refresh_min", "imbalance", "backfill"),
    *("delay_min", "loss", "steps"),
)
_LONGEST_FIELD_TEXT = 20_000
_ENTRY_LINE = re.compile(
    r"(?P<entry>/.*?)(?:(?<=\S)\s++shares\s++(?P<shares>\S++))?(?:(?<=\S)\s++jobs\s++(?P<jobs>\S++))?"
)
_NUMBER = r"[-+]?\d[\d.,]*+"
_GAP = r"\s{1,8}"  # bounded: a line of blanks costs as much as any other
_SPAN = rf"{_GAP}(?:run|requested|cpus|from|until|priority){_GAP}{_NUMBER}(?:{_GAP}to{_GAP}{_NUMBER})?"
_STREAM_LINE = re.compile(
    rf"(?P<entry>/.*?){_GAP}(?:(?P<rate>load|every|poisson){_GAP})?(?P<value>{_NUMBER})"
    rf"(?P<clauses>(?:{_SPAN})*)(?:{_GAP}at{_GAP}(?P<sites>.+))?"
)
_CLAUSE = re.compile(rf"(?<![a-z])(?P<word>[a-z]++)\s++(?P<low>{_NUMBER})(?:\s++to\s++(?P<high>{_NUMBER}))?")
_RATES = {"load": "load", "every": "every_s", "poisson": "poisson_s"}
_CLAUSES = {
    "run": "run_h", "requested": "requested_factor", "cpus": "cpus", "from": "from_h", "until": "until_h",
    "priority": "priority",
}  # fmt: skip
_SPANS = ("run_h", "requested_factor")
_REQUESTED = ("requested_from", "requested_to")
_LONGEST_LINE = 9_000
# Fields of the form for fields of the JSON: within the workload, and within a variant. The longest one wins.
_OF_WORKLOAD = {
    "kind": "kind", "days": "days", "until_on": "until_on", "cpus": "cpus", "trace": "trace", "map": "map",
    "sites": "sites", "streams": "streams", "all_users.load": "load", "all_users.run_h": "run_to_h",
    "all_users.requested_factor": "requested_to",
    "all_users.cpus": "job_cpus", "all_users": "load",
}  # fmt: skip
_OF_VARIANT = {
    "name": "name", "change_set": "change_set", "settings.algorithm.name": "algorithm",
    "settings.algorithm.operator": "operator", "settings.algorithm.resolution": "resolution",
    "settings.window.half_life_s": "half_life_d", "settings.approach.local": "approach_local",
    "settings.approach.global": "approach_global", "settings": "more", "entries": "entries",
    "jobs_times": "jobs_times", "scope": "scope", "refresh_s": "refresh_min",
    "priority_refresh_s": "priority_refresh_min", "imbalance": "imbalance", "backfill": "backfill",
    "noise.usage_delay_s": "delay_min", "noise.loss": "loss", "noise.resolution": "steps", "noise": "loss",
}  # fmt: skip
_IN_SECONDS = ("half_life_d", "refresh_min", "priority_refresh_min", "delay_min")
_POSITIVE = ("half_life_d", "refresh_min", "resolution", "jobs_times", "days", "hours", "trace_hours", "load")
_AS_PARTS = ("loss", "imbalance")


@dataclass
class BuilderForm:
    """values: as typed, by name of the field; those of variants begin with their prefix. problems: by field."""

    values: dict[str, str]
    n_variants: int = 1
    problems: dict[str, str] = field(default_factory=dict)
    general: str = ""

    @property
    def prefixes(self) -> list[str]:
        """Of the base, and of its variants."""
        return ["base-", *(f"v{number}-" for number in range(1, self.n_variants + 1))]

    def value(self, name: str) -> str:
        return self.values.get(name, "")

    def problem(self, name: str, message: str) -> None:
        self.problems.setdefault(name, message)

    # --- what was typed, as JSON

    def spec(self, kept: Mapping[str, Any] | None) -> Json:
        """Complete JSON. Texts that are no numbers become problems, and are left out. kept: the workload of KEPT."""
        spec: Json = {
            "workload": self._workload(kept),
            "base": self._variant("base-"),
            "variants": [self._variant(prefix) for prefix in self.prefixes[1:]],
        }
        if self.value("scenario"):
            spec["scenario"] = self.value("scenario")
        seed = read_whole(self.value("seed"), 18)
        if self.value("seed") and seed is None:
            self.problem("seed", _("must be a whole number"))
        elif seed is not None:
            spec["seed"] = seed
        return spec

    def _workload(self, kept: Mapping[str, Any] | None) -> Json:
        kind = self.value("kind")
        if kind == KEPT and kept is not None:
            return dict(kept)
        readers = {REPLAY: self._replay, TRACE: self._trace, SYNTHETIC: self._drawn}
        return {"kind": kind, **(readers[kind]() if kind in readers else {})}

    def _replay(self) -> Json:
        values: Json = {"days": self._number("days", is_whole=True)}
        if self.value("until_on"):
            values["until_on"] = self.value("until_on")
        cpus = dict(self._sites("cpus"))
        return values | ({"cpus": cpus} if cpus else {})

    def _trace(self) -> Json:
        hours = self._number("trace_hours")
        rules = []
        for line in self._lines("map"):
            entry, _arrow, who = line.partition("=")
            rule: Json = {"entry": entry.strip()}
            for word in who.split():
                name, _colon, number = word.partition(":")
                rule[name] = number
            rules.append(rule)
        values = {"trace": read_whole(self.value("trace"), 18), "sites": self._site_rows("trace_sites"), "map": rules}
        return values | ({} if hours is None else {"hours": hours})

    def _drawn(self) -> Json:
        values: Json = {"hours": self._number("hours"), "sites": self._site_rows("sites")}
        job: Json = {}
        for key, names in (("run_h", ("run_from_h", "run_to_h")), ("requested_factor", _REQUESTED)):
            span = [self._number(name) for name in names]
            if None not in span:
                job[key] = span
        if (cpus := self._number("job_cpus", is_whole=True)) is not None:
            job["cpus"] = cpus
        if lines := self._lines("streams"):
            return values | {"streams": [row for line in lines if (row := self._stream(line, job))]}
        load_of_all = self._number("load")
        return values | {"all_users": {**({} if load_of_all is None else {"load": load_of_all}), **job}}

    def _stream(self, line: str, job: Json) -> Json | None:
        """A line such as “/physics 0.6” or “/physics every 15 run 0.6 to 1.4 at R1, R2”. job: what it leaves out."""
        match = _STREAM_LINE.fullmatch(line) if len(line) <= _LONGEST_LINE else None
        if match is None:
            self.problem(
                "streams", _("needs lines such as /physics 0.6, or /physics every 15 run 0.5 to 1.5 at R1, R2")
            )
            return None
        row: Json = {"entry": match["entry"], _RATES[match["rate"] or "load"]: self._read("streams", match["value"])}
        row |= job
        for clause in _CLAUSE.finditer(match["clauses"]):
            key = _CLAUSES[clause["word"]]
            low, high = (self._read("streams", clause[end] or clause["low"], is_whole=True) for end in ("low", "high"))
            row[key] = [low, high] if key in _SPANS else low
        if match["sites"]:
            row["sites"] = [site.strip() for site in match["sites"].split(",") if site.strip()]
        return row

    def _site_rows(self, name: str) -> list[Json]:
        return [{"name": site, "cpus": cpus} for site, cpus in self._sites(name)]

    def _sites(self, name: str) -> Iterator[tuple[str, float | None]]:
        """Lines such as “cluster 128”."""
        for line in self._lines(name):
            site, _space, cpus = line.rpartition(" ")
            if not site:
                self.problem(name, _("needs a name and a number of processors in each line, such as cluster 128"))
                continue
            yield site.strip(), self._read(name, cpus, is_whole=True)

    def _variant(self, prefix: str) -> Json:
        spec: Json = {}
        if name := self.value(f"{prefix}name").strip():
            spec["name"] = name
        if draft := self.value(f"{prefix}change_set"):
            spec["change_set"] = read_whole(draft, 18) or draft
        settings = self._settings(prefix)
        if settings:
            spec["settings"] = settings
        if entries := self._entries(prefix):
            spec["entries"] = entries
        times = {"refresh_s": ("refresh_min", 60.0), "priority_refresh_s": ("priority_refresh_min", 60.0)}
        parts = {"imbalance": ("imbalance", 0.01), "jobs_times": ("jobs_times", 1.0)}
        for key, (name, unit) in (times | parts).items():
            if (number := self._number(f"{prefix}{name}")) is not None:
                spec[key] = number * unit if unit >= 1 else number / 100
        if scope := self.value(f"{prefix}scope"):
            spec["scope"] = scope
        if backfill := self.value(f"{prefix}backfill"):
            spec["backfill"] = {"yes": True, "no": False}.get(backfill, backfill)
        noise: Json = {}
        for key, name, unit in (
            ("usage_delay_s", "delay_min", 60.0),
            ("loss", "loss", 0.01),
            ("resolution", "steps", 1),
        ):
            number = self._number(f"{prefix}{name}", is_whole=key == "resolution")
            if number is not None:
                noise[key] = number / 100 if unit == 0.01 else number * unit
        return spec | ({"noise": noise} if noise else {})

    def _settings(self, prefix: str) -> Json:
        settings: dict[str, Json] = {}
        for part, key, name in (
            ("algorithm", "name", "algorithm"),
            ("algorithm", "operator", "operator"),
            ("approach", "local", "approach_local"),
            ("approach", "global", "approach_global"),
        ):
            if text := self.value(f"{prefix}{name}"):
                settings.setdefault(part, {})[key] = text
        if (resolution := self._number(f"{prefix}resolution", is_whole=True)) is not None:
            settings.setdefault("algorithm", {})["resolution"] = resolution
        if (days := self._number(f"{prefix}half_life_d")) is not None:
            settings.setdefault("window", {})["half_life_s"] = _whole(round(days * 86_400, 6))
        for line in self._lines(f"{prefix}more"):
            place, _equals, text = line.partition("=")
            part, _dot, key = place.strip().partition(".")
            if not key or not text.strip():
                self.problem(f"{prefix}more", _("needs lines such as algorithm.k = 0.5"))
                continue
            settings.setdefault(part, {})[key] = _read_json(text.strip())
        return settings

    def _entries(self, prefix: str) -> list[Json]:
        name, rows = f"{prefix}entries", []
        for line in self._lines(name):
            match = _ENTRY_LINE.fullmatch(line)
            if match is None or not (match["shares"] or match["jobs"]):
                self.problem(name, _("needs lines such as /physics shares 2 jobs 2"))
                continue
            row: Json = {"entry": match["entry"]}
            for key in ("shares", "jobs"):
                if match[key] and (number := self._read(name, match[key])) is not None:
                    row[f"{key}_times"] = number
            rows.append(row)
        return rows

    def _lines(self, name: str) -> list[str]:
        return [line.strip() for line in self.value(name)[:_LONGEST_FIELD_TEXT].splitlines() if line.strip()]

    def _number(self, name: str, *, is_whole: bool = False) -> float | None:
        text = self.value(name).strip()
        number = self._read(name, text, is_whole=is_whole) if text else None
        if number is not None and number <= 0 and name.rpartition("-")[2] in _POSITIVE:
            self.problem(name, _("must be more than 0"))
            return None
        return number

    def _read(self, name: str, text: str, *, is_whole: bool = False) -> float | None:
        try:
            number = read_number(text)
        except ValueError as error:
            self.problem(name, str(error))
            return None
        return int(number) if is_whole and number == int(number) else number

    # --- problems of the JSON

    def add_refusal(self, error: DomainError) -> None:
        """Each problem at its field; what has none is shown above the form."""
        placed = False
        for each in error.fields:
            if name := self.field_of(each.where):
                base = name.rpartition("-")[2]
                if base in _IN_SECONDS:
                    message = _("%(message)s, in seconds") % {"message": each.message}
                elif base in _AS_PARTS:
                    message = _("%(message)s, where 1 is 100 %%") % {"message": each.message}
                else:
                    message = each.message
                self.problem(name, message)
                placed = True
        if not placed:
            self.general = error.message

    def field_of(self, where: str) -> str:
        """Name of the field of the form for a field of the JSON; empty if there is none."""
        part, _dot, rest = where.partition(".")
        if part in ("name", "seed"):
            return part
        if part == "workload":
            if self.value("kind") == KEPT or not rest:
                return "kind"
            if rest.startswith("hours"):
                return "trace_hours" if self.value("kind") == TRACE else "hours"
            name = _longest(_OF_WORKLOAD, rest) or "kind"
            return "trace_sites" if name == "sites" and self.value("kind") == TRACE else name
        prefix = "base-"
        if match := re.fullmatch(r"variants\[(\d+)\]", part):
            prefix = f"v{int(match[1]) + 1}-"
        elif part != "base":
            return ""
        return f"{prefix}{_longest(_OF_VARIANT, rest) or 'name'}"


def _longest(fields: Mapping[str, str], rest: str) -> str:
    matching = [name for name in fields if rest == name or rest.startswith((f"{name}.", f"{name}["))]
    return fields[max(matching, key=len)] if matching else ""


def _whole(number: float) -> float:
    return int(number) if number == int(number) else number


def _read_json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def read_posted(data: Mapping[str, str]) -> BuilderForm:
    """The form as it was sent."""
    n_variants = min(max(read_whole(data.get("n_variants", ""), 2) or 0, 0), MOST_VARIANTS)
    form = BuilderForm({}, n_variants)
    names = ["name", "kind", "seed", "kept_from", "scenario", "entry", "entry_for", *WORKLOAD_FIELDS]
    names += [f"{prefix}{name}" for prefix in form.prefixes for name in VARIANT_FIELDS]
    form.values = {name: data.get(name, "")[:_LONGEST_FIELD_TEXT] for name in names}
    return form


def form_of_spec(spec: Mapping[str, Any], tree: TreeColumns) -> BuilderForm:
    """The form with the base and variants of an experiment; its jobs are kept as they are.

    Drawn jobs are in their fields, too, so that they can be changed. tree: of its base.
    """
    variants: Sequence[Mapping[str, Any]] = spec.get("variants", [])
    form = BuilderForm({"seed": str(spec.get("seed", 1)), "kind": KEPT}, len(variants))
    for prefix, each in zip(form.prefixes, [spec.get("base", {}), *variants], strict=True):
        form.values |= {f"{prefix}{name}": text for name, text in variant_values(each, tree).items()}
    if spec.get("scenario"):
        form.values["scenario"] = str(spec["scenario"])
    if spec["workload"]["kind"] == SYNTHETIC:
        form.values |= _drawn_values(spec["workload"], tree)
    return form


def _drawn_values(workload: Mapping[str, Any], tree: TreeColumns) -> dict[str, str]:
    """Texts of the fields of drawn jobs. What the first stream has is in the fields of all jobs."""
    streams: Sequence[Mapping[str, Any]] = workload.get("streams", [])
    usual = workload.get("all_users") or streams[0]
    values = {
        "hours": _typed(workload["hours"]),
        "sites": "\n".join(f"{site['name']} {site['cpus']}" for site in workload["sites"]),
        "job_cpus": str(usual.get("cpus", 1)),
        "load": _typed(usual["load"]) if workload.get("all_users") and "load" in usual else "",
        "streams": "\n".join(_stream_line(stream, usual, tree) for stream in streams),
    }
    for key, names in (("run_h", ("run_from_h", "run_to_h")), ("requested_factor", _REQUESTED)):
        values |= dict(zip(names, map(_typed, usual.get(key, ())), strict=False))
    return values


def _stream_line(stream: Mapping[str, Any], usual: Mapping[str, Any], tree: TreeColumns) -> str:
    """/physics every 15 run 0.6 to 1.4 at R1, R2, as it is typed. usual: what the line needs not repeat."""
    word, key = next((word, key) for word, key in _RATES.items() if key in stream)
    number = _typed(stream[key])
    parts = [path_of(str(stream["entry"]), tree), number if word == "load" else f"{word} {number}"]
    for word, key in _CLAUSES.items():
        if key not in stream or (key in (*_SPANS, "cpus") and stream[key] == usual.get(key)):
            continue
        value = stream[key]
        parts.append(f"{word} {_typed(value[0])} to {_typed(value[1])}" if key in _SPANS else f"{word} {_typed(value)}")
    if stream.get("sites"):
        parts.append(f"at {', '.join(stream['sites'])}")
    return " ".join(parts)


def variant_values(spec: Mapping[str, Any], tree: TreeColumns) -> dict[str, str]:
    """Texts of the fields of the base or of a variant."""
    values = {name: str(spec[name]) for name in ("name", "change_set", "scope") if name in spec}
    settings = {part: dict(each) for part, each in spec.get("settings", {}).items()}
    for part, key, name in (
        ("algorithm", "name", "algorithm"),
        ("algorithm", "operator", "operator"),
        ("algorithm", "resolution", "resolution"),
        ("approach", "local", "approach_local"),
        ("approach", "global", "approach_global"),
    ):
        if key in settings.get(part, {}):
            values[name] = str(settings[part].pop(key))
    half_life_s = settings.get("window", {}).pop("half_life_s", None)
    if half_life_s is not None:
        values["half_life_d"] = _typed(half_life_s / 86_400)
    values["more"] = "\n".join(
        f"{part}.{key} = {json.dumps(value)}" for part, each in settings.items() for key, value in each.items()
    )
    values["entries"] = "\n".join(_entry_line(each, tree) for each in spec.get("entries", []))
    for key, name, unit in (
        ("refresh_s", "refresh_min", 60.0),
        ("priority_refresh_s", "priority_refresh_min", 60.0),
        ("jobs_times", "jobs_times", 1.0),
        ("imbalance", "imbalance", 0.01),
    ):
        if key in spec:
            values[name] = _typed(spec[key] / unit)
    if "backfill" in spec:
        values["backfill"] = "yes" if spec["backfill"] else "no"
    noise = spec.get("noise", {})
    for key, name, unit in (("usage_delay_s", "delay_min", 60.0), ("loss", "loss", 0.01), ("resolution", "steps", 1.0)):
        if noise.get(key):
            values[name] = _typed(noise[key] / unit)
    return {name: text for name, text in values.items() if text}


def _typed(number: float) -> str:
    return f"{number:.12g}"


def _entry_line(change: Mapping[str, Any], tree: TreeColumns) -> str:
    return entry_line(
        path_of(str(change["entry"]), tree), change.get("shares_times", 1.0), change.get("jobs_times", 1.0)
    )


def entry_line(path: str, shares_times: float, jobs_times: float) -> str:
    """/physics shares 2 jobs 2, as it is typed."""
    parts = [path]
    if shares_times != 1.0:
        parts.append(f"shares {_typed(shares_times)}")
    if jobs_times != 1.0:
        parts.append(f"jobs {_typed(jobs_times)}")
    return " ".join(parts)


def path_of(entry: str, tree: TreeColumns) -> str:
    """The path of an entry that is named by its uid or path; as it is, if the tree hasn't got it."""
    i = entry_named(tree, entry)
    return entry if i is None else tree.path(i)
