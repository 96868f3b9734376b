"""Read the UsageFactor of each quality of service (QOS) from Slurm's outputs. Pure functions.

Slurm multiplies the usage of a job with the UsageFactor of its QOS; 0 charges nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from agent import site_commands

COMMAND = site_commands.text_of(site_commands.QOS)
DUMPED = re.compile(r"QOS - '")  # since 25.05 a dump begins with these
_DUMPED_NAME = re.compile(r"QOS - '([^']*)'")
_DUMPED_FACTOR = re.compile(r":UsageFactor='?([^:']+)", re.IGNORECASE)
_NAME, _FACTOR = "name", "usagefactor"


def is_qos_header(line: str) -> bool:
    """Whether a line names the columns of `sacctmgr show qos`, with | or blanks between them."""
    cells = _cells(line)
    return _NAME in cells and _FACTOR in cells


def read_usage_factors(text: str) -> dict[str, float] | None:
    """UsageFactor by QOS, from a table of `sacctmgr show qos` or lines of a dump; None if the text has neither.

    A QOS without a number is left out. Negative factors don't count in Slurm.
    """
    lines = text.splitlines()
    factors: dict[str, float] | None = None
    for number, line in enumerate(lines):
        if is_qos_header(line):
            factors = {**(factors or {}), **_table(_cells(line), lines[number:])}
        elif DUMPED.match(line):
            name, factor = _DUMPED_NAME.match(line), _DUMPED_FACTOR.search(line)
            factors = factors or {}
            if name is not None and factor is not None:
                _add(factors, name[1], factor[1])
    return factors


def is_cut_off(name: str) -> bool:
    """Whether a table without | cut the name off."""
    return name.endswith("+")


def class_factors(factors: Mapping[str, float]) -> list[dict[str, str | float]]:
    """Rules of a metric: the factor of each QOS, where it isn't 1. Names that are cut off are left out."""
    return [
        {"queue": "", "partition": "", "qos": name, "factor": factor}
        for name, factor in sorted(factors.items())
        if factor != 1.0 and not is_cut_off(name)
    ]


def _cells(line: str) -> list[str]:
    return [cell.strip().lower() for cell in (line.split("|") if "|" in line else line.split())]


def _table(header: Sequence[str], lines: Sequence[str]) -> dict[str, float]:
    """Rows below a header, until one has other columns."""
    factors: dict[str, float] = {}
    name_at, factor_at = header.index(_NAME), header.index(_FACTOR)
    if "|" in lines[0]:
        rows = [line.split("|") for line in lines[1:]]
    else:
        spans = [(match.start(), match.end()) for match in re.finditer(r"-+", lines[1] if len(lines) > 1 else "")]
        if len(spans) != len(header):
            return {}
        rows = [[line[start:end].strip() for start, end in spans] if line.strip() else [] for line in lines[2:]]
    for row in rows:
        if len(row) != len(header):
            break
        _add(factors, row[name_at].strip(), row[factor_at])
    return factors


def _add(factors: dict[str, float], name: str, text: str) -> None:
    try:
        factor = float(text)
    except ValueError:
        return
    if name and factor >= 0:
        factors[name] = factor
