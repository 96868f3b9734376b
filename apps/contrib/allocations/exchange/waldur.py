"""Resources of Waldur with their limits and teams, from the answers of its marketplace.

/api/marketplace-resources/ names the limits by component, …/{uuid}/team/ the members of the resource's project. A group
is the resource's `backend_id`, the account in the scheduler, without one its slug or name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from apps.contrib.allocations.exchange.portals import (
    PortalAmount,
    PortalGroup,
    PortalState,
    PortalTerms,
    objects_of,
    scaled,
    text_in,
)
from apps.core.counts import counted

RESOURCES, TEAMS = "resources", "teams"
ACTIVE = frozenset({"OK", "Updating"})


def read(answers: Mapping[str, Any], terms: PortalTerms) -> PortalState:
    """Read {resources: […], teams: {uuid of a resource: […]}}, both as Waldur answers."""
    state = PortalState()
    teams = answers.get(TEAMS)
    teams = teams if isinstance(teams, Mapping) else {}
    left_out: Counter[str] = Counter()
    unknown: Counter[str] = Counter()
    for resource in objects_of(answers.get(RESOURCES), RESOURCES, state.problems):
        status = text_in(resource, "state")
        if status not in ACTIVE:
            left_out[status or "without state"] += 1
            continue
        unknown.update(_read_resource(state, resource, teams, terms))
    state.left_out += [f"{counted(n, 'resource')} {status}" for status, n in sorted(left_out.items())]
    state.left_out += [f"{counted(n, 'limit')} of {name}: no unit is named" for name, n in sorted(unknown.items())]
    return state


def _read_resource(
    state: PortalState, resource: Mapping[str, Any], teams: Mapping[str, Any], terms: PortalTerms
) -> list[str]:
    """Read one resource; returns the components that no rule of units names."""
    uuid = text_in(resource, "uuid")
    place, group = f"resource {uuid}", text_in(resource, "backend_id", "slug", "name")
    if not group:
        state.left_out.append(f"{place}: it has no backend_id, slug or name")
        return []
    team = objects_of(teams.get(uuid), f"{place}, team", state.problems)
    members = (text_in(each, "offering_user_username", "username") for each in team)
    state.add_group(PortalGroup(place, group, tuple(name for name in members if name)))
    limits = resource.get("limits") or {}
    starts_on = text_in(resource, "start_date")[:10] or terms.starts_on or text_in(resource, "created")[:10]
    ends_on = text_in(resource, "end_date", "project_end_date")[:10] or terms.ends_on
    unknown = []
    for name, value in limits.items() if isinstance(limits, Mapping) else ():
        rule = terms.units.get(name)
        if rule is None:
            unknown.append(str(name))
        elif value:
            amount = scaled(value, rule)
            where = f"{place}, {name}"
            amount_of_portal = PortalAmount(where, uuid, name, group, rule.symbol, amount, starts_on, ends_on)
            state.amounts.append(amount_of_portal)
    return unknown


def usage_answer(used: Mapping[tuple[str, str], float]) -> list[dict[str, Any]]:
    """Bodies of POST /api/marketplace-component-usages/set_usage/, one a resource, with the amounts of its components.

    used: by (uuid of the resource, component), in the component's measure. Amounts have two decimals, as Waldur stores.
    """
    by_resource: dict[str, list[dict[str, Any]]] = {}
    for (uuid, component), amount in used.items():
        by_resource.setdefault(uuid, []).append({"type": component, "amount": f"{amount:.2f}"})
    return [{"resource": uuid, "usages": usages} for uuid, usages in by_resource.items()]
