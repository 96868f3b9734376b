"""Parts of a kind of notice: what is checked, what is found, for whom it is, and its sentence."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import TYPE_CHECKING, Any, Literal
from uuid import UUID

from django.utils.functional import Promise

from apps.policies.models import Policy
from apps.policies.tree.columns import TreeColumns
from apps.usage.models import Source

if TYPE_CHECKING:
    from apps.contrib.notices.models import Notice
    from apps.contrib.notices.visibility import Reader

Words = str | Promise
Terms = Mapping[str, float]
Level = Literal["info", "warn", "bad"]


@dataclass(frozen=True, slots=True)
class Term:
    """One limit of a rule; a whole number by default."""

    name: str
    label: Words
    unit: Words
    default: float
    lowest: float
    highest: float
    is_whole: bool = True

    @property
    def title(self) -> str:
        """Label and unit, for a number in a form or a list: "Grace time (hours)"."""
        return f"{self.label} ({self.unit})"


@dataclass(frozen=True, slots=True)
class Sentence:
    """Text of a notice: message key, its values, and the text in the reader's language."""

    key: str
    values: Mapping[str, Any]
    text: str


@dataclass(frozen=True, slots=True)
class Finding:
    """A condition to notify about. key: its subject, unique within the kind. facts: JSON with the sentence's values.

    person_id: whom it is about; nobody's conditions take the place of another's.
    """

    key: str
    level: Level
    facts: Mapping[str, Any]
    entry_uid: UUID | None = None
    person_id: int | None = None


@dataclass(frozen=True, eq=False)
class PolicyPlace:
    """A policy to check, with its current tree and the terms of its rule."""

    policy: Policy
    tree: TreeColumns
    terms: Terms
    at: datetime
    today: date


@dataclass(frozen=True, eq=False)
class SourcePlace:
    """A usage source to check, with its terms."""

    source: Source
    terms: Terms
    at: datetime
    today: date


@dataclass(frozen=True, eq=False)
class SitePlace:
    """The site as a whole, with its terms."""

    terms: Terms
    at: datetime
    today: date


@dataclass(frozen=True)
class Kind:
    """A kind of notice.

    find: all present conditions at a place; notices that are no longer found are closed. is_for: whether a reader gets
    the notice; it must hide what pages hide from the reader. leads_to: the page to link to. about: explains the title.
    """

    name: str
    title: Words
    about: Words
    watches: Literal["policy", "source", "site"]
    find: Callable[[Any], Iterable[Finding]]
    is_for: Callable[[Reader, Notice], bool]
    describe: Callable[[Mapping[str, Any]], Sentence]
    leads_to: str
    terms: tuple[Term, ...] = field(default_factory=tuple)

    def defaults(self) -> dict[str, float]:
        return {term.name: term.default for term in self.terms}
