"""What `make papers` measured last, in docsite/papers/records.json: values of tests, curves, and the sweep."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TypedDict

from apps.core.code_paths import REPOSITORY

PATH = REPOSITORY / "docsite/papers/records.json"


class Value(TypedDict):
    """One number of a test. published: the paper's, None where it prints none."""

    claim: str
    name: str
    ours: float
    published: float | None
    unit: str


class Report(TypedDict):
    """What the marked tests of one run gave: the tests that passed, without parameters, and values by test."""

    passed: list[str]
    values: dict[str, list[Value]]


class SweepRow(TypedDict):
    """One simulated setting. rms_points: over all groups; to_target_h: None if not all shares got there."""

    shape: str
    noise: str
    resolution: str
    operator: str
    rms_points: float
    to_target_h: float | None


class Records(TypedDict):
    """curves: percent of the parent at each half hour, by scenario and path. rms: by scenario and group."""

    tests: Report
    curves: dict[str, dict[str, list[float | None]]]
    rms: dict[str, dict[str, float | None]]
    sweep: list[SweepRow]


def load(path: Path = PATH) -> Records:
    stored: Records = json.loads(path.read_text(encoding="utf-8"))
    return stored


def text_of(records: Records) -> str:
    """Of the file: one line a value, a curve and a setting, so that a difference can be read."""
    lines = [
        '{"tests": {"passed": [',
        ",\n".join(f" {_line(test)}" for test in sorted(records["tests"]["passed"])),
        '], "values": {',
        ",\n".join(f" {_line(test)}: {_line(values)}" for test, values in sorted(records["tests"]["values"].items())),
        '}}, "curves": {',
        ",\n".join(f" {_line(name)}: {{\n{_curves(by_path)}}}" for name, by_path in sorted(records["curves"].items())),
        '}, "rms": {',
        ",\n".join(f" {_line(name)}: {_line(by_group)}" for name, by_group in sorted(records["rms"].items())),
        '}, "sweep": [',
        ",\n".join(f" {_line(row)}" for row in records["sweep"]),
        "]}",
    ]
    return "\n".join(lines) + "\n"


def _curves(by_path: dict[str, list[float | None]]) -> str:
    return ",\n".join(f"  {_line(path)}: {_line(curve)}" for path, curve in by_path.items())


def _line(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
