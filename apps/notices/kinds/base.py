"""Parts of a kind of notice, and functions shared by kinds about peers. A kind is a module with a `KIND`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import TYPE_CHECKING, Any, Literal
from uuid import UUID

from django.utils import formats
from django.utils.functional import Promise

from apps.federation.models import Mount, Subscription
from apps.federation.mounts.services import may_mount_at
from apps.policies.models import Policy
from apps.policies.tree.columns import TreeColumns
from apps.usage.models import Source

if TYPE_CHECKING:
    from apps.notices.models import Notice
    from apps.notices.visibility import Reader

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
    """A policy to check: its current tree, and the terms at each entry; None if the rule is off there."""

    policy: Policy
    tree: TreeColumns
    terms_at: Callable[[int], Terms | None]
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
    """The site to check, for conditions of no policy and no source."""

    terms: Terms
    at: datetime
    today: date


@dataclass(frozen=True)
class Kind:
    """A kind of notice.

    find: all present conditions at a place; notices that are no longer found are closed. is_for: whether a reader gets
    the notice; it must hide what pages hide from the reader. leads_to: the page to link to.
    """

    name: str
    title: Words
    watches: Literal["policy", "source", "site"]
    find: Callable[[Any], Iterable[Finding]]
    is_for: Callable[[Reader, Notice], bool]
    describe: Callable[[Mapping[str, Any]], Sentence]
    leads_to: str
    terms: tuple[Term, ...] = field(default_factory=tuple)
    about: Words = ""  # explains the title
    is_on: bool = True  # default

    def defaults(self) -> dict[str, float]:
        return {term.name: term.default for term in self.terms}


def day_text(text: str) -> str:
    """A day in facts as text: 31 Dec 2026."""
    return str(formats.date_format(date.fromisoformat(text[:10]), "j M Y"))


def days_until(day: date, today: date) -> int:
    return (day - today).days


# --- Other authorities ------------------------------------------------------------------------------------------------
Other = Mount | Subscription


def watched(place: PolicyPlace) -> Iterator[tuple[Other, Terms]]:
    """Peers at whose entry the rule is on; if the entry is gone, the rule of the whole policy applies."""
    for table in (Mount, Subscription):
        for remote in table._default_manager.filter(policy=place.policy).select_related("policy").order_by("pk"):
            terms = place.terms_at(place.tree.index_of_uid(remote.entry_uid) or 0)
            if terms is not None:
                yield remote, terms


def key_of(remote: Other) -> str:
    return f"{'mount' if isinstance(remote, Mount) else 'usage'}:{remote.pk}"


def facts_of(remote: Other) -> dict[str, Any]:
    """Facts that identify a peer's page and its name."""
    place = "mount" if isinstance(remote, Mount) else "subscription"
    return {"what": str(remote), place: remote.pk, "is_usage": place == "subscription"}


def is_for(reader: Reader, notice: Notice) -> bool:
    """Managers who decide about the peer: addresses and problems of peers are hidden from others."""
    uid = notice.entry_uid
    return notice.policy is not None and uid is not None and may_mount_at(notice.policy, uid, reader.actor, reader.at)


def what(facts: Mapping[str, Any]) -> str:
    return str(facts["what"])
