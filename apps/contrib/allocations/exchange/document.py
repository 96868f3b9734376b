"""Allocations as the list `allocations` of a policy document in YAML or JSON; other keys of it are read elsewhere."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from apps.contrib.allocations.exchange.lines import (
    FIELDS,
    MOST_ALLOCATION_LINES,
    AllocationFile,
    LineReader,
    number_of,
    stated_amount,
)
from apps.core.errors import FieldProblem, Invalid, TooLarge
from apps.policies.files.document import plain_number
from apps.policies.formats import json_document, yaml_document
from apps.policies.models import Allocation

KEY = "allocations"


def read_json(text: str) -> AllocationFile:
    return _read_document(json_document.parse(text))


def read_yaml(text: str) -> AllocationFile:
    return _read_document(yaml_document.parse(text))


def read_values(values: object) -> AllocationFile:
    """Read a list of allocations, objects with FIELDS; raises Invalid if it is no list."""
    if not isinstance(values, list):
        raise _no_list()
    if len(values) > MOST_ALLOCATION_LINES:
        raise TooLarge(f"A document has at most {MOST_ALLOCATION_LINES:,} allocations: split it.")
    reader = LineReader(number_of)
    for n, each in enumerate(values):
        place = f"{KEY}[{n}]"
        if not isinstance(each, Mapping):
            reader.problems.append(FieldProblem(place, f"must be an object with {', '.join(FIELDS)}"))
            continue
        unknown = sorted(str(name) for name in each if name not in FIELDS)
        if unknown:
            reader.problem(place, unknown[0][:60], f"is unknown; known are {', '.join(FIELDS)}")
            continue
        reader.add(place, each)
    return reader.finish()


def values_of(row: Allocation, path: str) -> dict[str, Any]:
    """An allocation as `read_values` reads it."""
    values = {
        "entry": path,
        "unit": row.unit,
        "amount": plain_number(stated_amount(row)),
        "starts_on": str(row.starts_on),
        "ends_on": str(row.ends_on),
        "reason": row.reason,
        "uid": str(row.uid),
    }
    return {name: value for name, value in values.items() if value != ""}


def write_json(rows: Iterable[tuple[Allocation, str]]) -> Iterator[str]:
    yield f'{{"{KEY}": ['
    for n, (row, path) in enumerate(rows):
        yield (",\n" if n else "\n") + json.dumps(values_of(row, path), ensure_ascii=False, allow_nan=False)
    yield "\n]}\n"


def write_yaml(rows: Iterable[tuple[Allocation, str]]) -> Iterator[str]:
    """Yield lines of YAML, each allocation in its flow style."""
    lines = [yaml_document.flow_line(values_of(row, path)) for row, path in rows]
    yield f"{KEY}:\n" if lines else f"{KEY}: []\n"
    for line in lines:
        yield f"- {line}\n"


def _read_document(document: object) -> AllocationFile:
    if not isinstance(document, Mapping) or KEY not in document:
        raise _no_list()
    return read_values(document[KEY])


def _no_list() -> Invalid:
    problem = FieldProblem(KEY, "must be a list of allocations")
    return Invalid(f"{problem.where} {problem.message}.", code="bad_document", fields=[problem])
