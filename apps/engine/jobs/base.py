"""What every job algorithm declares: the fields its case has, the variants it knows, and one pure function."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class CaseField:
    """One field of a case as pages and messages show it; `default` is None where it must be given."""

    name: str
    label: str
    allowed: str
    default: Any = None
    unit: str = ""


@dataclass(frozen=True)
class Term:
    """One summand of a job's priority: its field in the result, and that of the value it is the weight of."""

    name: str
    label: str
    weight: str = ""  # the case's field that it is multiplied by


@dataclass(frozen=True)
class Variant:
    """A variant of a case: `setting` is the value of the case's variant field that selects it."""

    setting: str
    label: str
    changes: str


@dataclass(frozen=True)
class JobAlgorithm:
    """A way from jobs to their order. `solve` is pure: parsed JSON in, JSON-ready out, EngineError with the place.

    formula and reference are for people; fields, terms and variants are what pages draw from. condition: what must hold
    at the site for the order to have its effect, as a sentence.
    """

    name: str
    label: str
    formula: str
    reference: str
    fields: tuple[CaseField, ...]
    terms: tuple[Term, ...]
    solve: Callable[[Mapping[str, Any]], dict[str, Any]]
    variants: tuple[Variant, ...] = ()
    condition: str = ""
