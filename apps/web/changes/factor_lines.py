"""Factors of job classes and sites, and weights of kinds, as lines that people type: names and a number, separated by
commas.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from django.utils.translation import gettext as _

from apps.core.errors import FieldProblem, problem_sentence
from apps.core.resource_kinds import BadKind, kind_name
from apps.policies.settings import RESOURCES

KIND_WEIGHTS = "weight_kinds"  # the field of weights by kind
_CLASS = ("queue", "partition", "qos")
QUOTE = '"'
_SPECIAL = set(',;"\t')


def class_factor_lines(factors: Sequence[Mapping[str, Any]]) -> str:
    """One line for each factor of a job class: queue, partition, QOS, factor."""
    return "\n".join(_line([str(each[name]) for name in _CLASS], each["factor"]) for each in factors)


def site_factor_lines(factors: Sequence[Mapping[str, Any]]) -> str:
    """One line for each factor of a site: its name, factor."""
    return "\n".join(_line([each["site"]], each["factor"]) for each in factors)


def kind_weight_lines(weights: Mapping[str, float]) -> str:
    """One line for each kind that has a weight: its name, weight."""
    return "\n".join(_line([name], weight) for name, weight in sorted(weights.items()) if name not in RESOURCES)


def read_kind_weights(text: str, problems: list[FieldProblem]) -> dict[str, float]:
    """Read one weight per line: kind, weight. `weight_kinds` is the field of a problem."""
    message = _("Line %(n)s: write a kind and its weight, such as gpu:h100, 8.")
    weights: dict[str, float] = {}
    for cells, weight in _lines(text, 2, KIND_WEIGHTS, message, problems):
        try:
            name = kind_name(cells[0])
        except BadKind as bad:
            problems.append(FieldProblem(KIND_WEIGHTS, problem_sentence(str(bad))))
            continue
        if name in weights:
            problems.append(FieldProblem(KIND_WEIGHTS, _("%(kind)s is written twice.") % {"kind": name}))
        weights[name] = weight
    return weights


def read_class_factors(text: str, problems: list[FieldProblem]) -> list[dict[str, Any]]:
    """Read one factor per line: queue, partition, QOS, factor; an empty name matches any."""
    message = _("Line %(n)s: write queue, partition, QOS and a factor, comma-separated.")
    read = _lines(text, 4, "class_factors", message, problems)
    return [{**dict(zip(_CLASS, cells, strict=True)), "factor": factor} for cells, factor in read]


def read_site_factors(text: str, problems: list[FieldProblem]) -> list[dict[str, Any]]:
    """Read one factor per line: site, factor."""
    message = _("Line %(n)s: write a site and its factor, comma-separated.")
    read = _lines(text, 2, "site_factors", message, problems)
    return [{"site": cells[0], "factor": factor} for cells, factor in read]


def _lines(
    text: str, n_cells: int, field: str, message: str, problems: list[FieldProblem]
) -> Iterator[tuple[list[str], float]]:
    """Names and factor of each line that is not empty; adds wrong lines to `problems`."""
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            # Cells of a line that are separated by commas, semicolons or tabs; only by commas if it contains quotes.
            plain = line if QUOTE in line else line.replace("\t", ",").replace(";", ",")
            cells = [cell.strip() for cell in next(csv.reader([plain], skipinitialspace=True, strict=True))]
            if len(cells) != n_cells:
                raise ValueError
            yield cells[:-1], float(cells[-1])
        except (ValueError, csv.Error):
            problems.append(FieldProblem(field, message % {"n": number}))


def _line(names: list[str], factor: float) -> str:
    """One line of factors; names that contain separators are quoted."""
    quoted = [f'"{name.replace(QUOTE, QUOTE * 2)}"' if _SPECIAL & set(name) else name for name in names]
    return ", ".join([*quoted, f"{factor:.10g}"])
