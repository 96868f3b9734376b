"""Prometheus' text format, read as strictly as `promtool check metrics` does."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

Labels = tuple[tuple[str, str], ...]
_NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\[\\n"])*)"(,|$)')
_SAMPLE = re.compile(rf"({_NAME})(?:\{{(.*)\}})? (\S+)")
_NUMBER = re.compile(r"[+-]?(?:\d+(?:\.\d+)?(?:e[+-]?\d+)?|Inf)|NaN")
_ENDS = {"histogram": ("_bucket", "_sum", "_count"), "counter": ("",), "gauge": ("",)}


@dataclass
class Family:
    name: str
    kind: str = ""
    words: str = ""
    samples: dict[str, list[tuple[Labels, float]]] = field(default_factory=dict)


def read_exposition(text: str) -> dict[str, Family]:
    """Families by name. Whatever Prometheus would refuse, or promtool would blame, fails here."""
    assert text.endswith("\n"), "the last line has an end, too"
    found: dict[str, Family] = {}
    current: Family | None = None
    seen: set[tuple[str, Labels]] = set()
    for line in text.split("\n")[:-1]:
        if line.startswith("# HELP "):
            name, _, words = line[7:].partition(" ")
            assert name not in found, f"{name} appears twice"
            current = found[name] = Family(name, words=words)
        elif line.startswith("# TYPE "):
            name, kind = line[7:].split(" ")
            current = found.setdefault(name, Family(name))
            assert kind in _ENDS, line
            assert not current.kind, f"{name} has two types"
            assert not current.samples, f"{name} has samples before its type"
            assert (kind == "counter") == name.endswith("_total"), f"{name}: counters, and they alone, end in _total"
            current.kind = kind
        else:
            _take(line, current, seen)
    for family in found.values():
        _check(family)
    return found


def _take(line: str, family: Family | None, seen: set[tuple[str, Labels]]) -> None:
    match = _SAMPLE.fullmatch(line)
    assert match, line
    name, given, number = match.groups()
    assert family is not None, f"{name} has no family"
    assert family.kind, f"{name} has no type"
    assert name in [family.name + end for end in _ENDS[family.kind]], f"{name} is no sample of {family.name}"
    labels = _labels(given or "")
    assert (name, labels) not in seen, f"{line}: twice"
    seen.add((name, labels))
    assert _NUMBER.fullmatch(number), line
    family.samples.setdefault(name, []).append((labels, float(number)))


def _labels(text: str) -> Labels:
    found: list[tuple[str, str]] = []
    at = 0
    while at < len(text):
        match = _LABEL.match(text, at)
        assert match, f"labels at {text[at:]!r}"
        found.append((match[1], re.sub(r"\\(.)", lambda one: "\n" if one[1] == "n" else one[1], match[2])))
        at = match.end()
    assert len({name for name, _ in found}) == len(found), text
    return tuple(sorted(found))


def _check(family: Family) -> None:
    assert family.kind, f"{family.name} has no type"
    if family.kind != "histogram":
        return
    buckets = family.samples[f"{family.name}_bucket"]
    bounds = [float(dict(labels)["le"]) for labels, _ in buckets]
    counts = [count for _, count in buckets]
    assert bounds == sorted(bounds), family.name
    assert bounds[-1] == float("inf")
    assert counts == sorted(counts), f"{family.name}: buckets hold all below"
    assert counts[-1] == family.samples[f"{family.name}_count"][0][1]
