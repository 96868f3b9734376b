"""Projects and allocations of ColdFront, from the answers of its REST interface (plug-in `api`, since 1.1.7).

/api/projects/?project_users=true&allocations=true names members and allocations of each project,
/api/allocations/?allocation_attributes=true&allocation_users=true the attributes. An allocation has no days there: they
are those of the terms. A group is the allocation's `slurm_account_name`, without one the project's title.
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

ACCOUNT = "slurm_account_name"
PROJECTS, ALLOCATIONS = "projects", "allocations"
# Of allocations whose accounts ColdFront's own Slurm plug-in writes.
ACTIVE = frozenset({"Active", "Renewal Requested"})
_OPEN_PROJECTS = frozenset({"Active", "New"})


def read(answers: Mapping[str, Any], terms: PortalTerms) -> PortalState:
    """Read {projects: […], allocations: […]}, both as ColdFront answers."""
    state = PortalState()
    projects = objects_of(answers.get(PROJECTS), PROJECTS, state.problems)
    allocations = objects_of(answers.get(ALLOCATIONS), ALLOCATIONS, state.problems)
    project_of = {
        allocation.get("id"): project
        for project in projects
        for allocation in objects_of(project.get("allocations"), f"{_place(project)}, allocations", state.problems)
    }
    by_title = {text_in(project, "title"): project for project in projects}
    with_allocations = set()
    left_out: Counter[str] = Counter()
    for allocation in allocations:
        status = text_in(allocation, "status")
        project = project_of.get(allocation.get("id")) or by_title.get(text_in(allocation, "project"))
        if status not in ACTIVE or (project is not None and text_in(project, "status") not in _OPEN_PROJECTS):
            left_out[status or "without status"] += 1
            continue
        if _read_allocation(state, allocation, project, terms):
            with_allocations.add(id(project))
    for project in projects:
        if id(project) not in with_allocations and text_in(project, "status") in _OPEN_PROJECTS:
            _add_group(state, _place(project), text_in(project, "title"), _users(project, "project_users", state))
    state.left_out += [f"{counted(n, 'allocation')} {status}" for status, n in sorted(left_out.items())]
    return state


def _place(project: Mapping[str, Any]) -> str:
    return f"project {project.get('id')}"


def _read_allocation(
    state: PortalState, allocation: Mapping[str, Any], project: Mapping[str, Any] | None, terms: PortalTerms
) -> bool:
    """Read one allocation; returns whether it has an account or an amount. Others are of storage and the like."""
    place = f"allocation {allocation.get('id')}"
    listed = objects_of(allocation.get("allocation_attributes"), f"{place}, allocation_attributes", state.problems)
    attributes = [(text_in(each, "allocation_attribute_type"), each.get("value")) for each in listed]
    account = next((str(value).strip() for name, value in attributes if name == ACCOUNT and value), "")
    if not account and not any(name in terms.units for name, _ in attributes):
        return False
    group = account or text_in(allocation, "project")
    members = _users(allocation, "allocation_users", state) or _users(project or {}, "project_users", state)
    if not _add_group(state, place, group, members):
        return True
    for name, value in attributes:
        if (rule := terms.units.get(name)) is not None:
            starts_on = allocation.get("start_date") or terms.starts_on
            ends_on = allocation.get("end_date") or terms.ends_on
            amount = scaled(value, rule)
            of = str(allocation.get("id"))
            where = f"{place}, {name}"
            amount_of_portal = PortalAmount(where, of, name, group, rule.symbol, amount, starts_on, ends_on)
            state.amounts.append(amount_of_portal)
    return True


def _users(owner: Mapping[str, Any], name: str, state: PortalState) -> tuple[str, ...]:
    """User names of those whose status is Active."""
    listed = objects_of(owner.get(name), f"{owner.get('id')}, {name}", state.problems)
    return tuple(user for each in listed if text_in(each, "status") == "Active" and (user := text_in(each, "user")))


def _add_group(state: PortalState, place: str, name: str, members: tuple[str, ...]) -> bool:
    if not name:
        state.left_out.append(f"{place}: it has no title")
        return False
    state.add_group(PortalGroup(place, name, members))
    return True


def usage_answer(answers: Mapping[str, Any], used: Mapping[tuple[str, str], float]) -> list[dict[str, Any]]:
    """The allocations with `usage` of each attribute, as ColdFront shows it. used: by (id of allocation, attribute)."""
    shown = []
    for allocation in objects_of(answers.get(ALLOCATIONS), ALLOCATIONS, []):
        of = str(allocation.get("id"))
        attributes = [
            {**each, "usage": used[of, name]}
            for each in objects_of(allocation.get("allocation_attributes"), of, [])
            if (of, name := text_in(each, "allocation_attribute_type")) in used
        ]
        if attributes:
            names = ("id", "project", "resource", "status")
            shown.append({**{n: allocation.get(n) for n in names}, "allocation_attributes": attributes})
    return shown
