"""The portals that can be read, by name: how their answers are fetched, read, and given usage back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from apps.accounts.actor import Actor
from apps.contrib.allocations.exchange import coldfront, portal_fetch, waldur
from apps.contrib.allocations.exchange.portal_usage import portal_usage
from apps.contrib.allocations.exchange.portals import PortalState, PortalTerms
from apps.contrib.allocations.periods import day_of
from apps.contrib.allocations.terms import VisibilityOf
from apps.core.errors import Invalid
from apps.policies.access.scope import visible_entries


@dataclass(frozen=True)
class PortalKind:
    """fetch: the answers of a portal at an address, with a token. usage: used amounts as the portal takes them.

    by_month: usage is that of the calendar month, not of the days of the allocation.
    """

    label: str
    fetch: Callable[[str, str], dict[str, Any]]
    read: Callable[[Mapping[str, Any], PortalTerms], PortalState]
    usage: Callable[[Mapping[str, Any], Mapping[tuple[str, str], float]], list[dict[str, Any]]]
    by_month: bool = False


PORTALS: Mapping[str, PortalKind] = {
    "coldfront": PortalKind("ColdFront", portal_fetch.fetch_coldfront, coldfront.read, coldfront.usage_answer),
    "waldur": PortalKind(
        "Waldur",
        portal_fetch.fetch_waldur,
        waldur.read,
        lambda answers, used: waldur.usage_answer(used),
        by_month=True,
    ),
}


def usage_in_terms(
    kind: str,
    answers: Mapping[str, Any],
    terms: PortalTerms,
    *,
    policy_slug: str,
    below: str,
    zone: ZoneInfo,
    at: datetime,
    actor: Actor,
    visibility: VisibilityOf = visible_entries,
) -> list[dict[str, Any]]:
    """What a portal of this kind takes as its state of use; see `portal_usage`. Refuses answers of another shape."""
    portal = PORTALS[kind]
    state = portal.read(answers, terms)
    if state.problems:
        first = state.problems[0]
        raise Invalid(f"{first.where} {first.message}.", code="bad_portal", fields=state.problems)
    used = portal_usage(
        policy_slug=policy_slug,
        state=state,
        rules=terms.units,
        below=below,
        since=day_of(at, zone).replace(day=1) if portal.by_month else None,
        zone=zone,
        at=at,
        actor=actor,
        visibility=visibility,
    )
    return portal.usage(answers, used)
