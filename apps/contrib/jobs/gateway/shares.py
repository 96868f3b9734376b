"""Groups of a ledger in the newest snapshot: their shares, received benefit, and the group of a job."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any
from uuid import UUID

from apps.contrib.jobs.algorithms import solve_job_case
from apps.contrib.jobs.algorithms.benefits import BENEFITS, read_benefit
from apps.contrib.jobs.models import Ledger, Received
from apps.contrib.jobs.sam_cases import groups_below
from apps.core.errors import FieldProblem, Invalid
from apps.engine.errors import EngineError
from apps.priorities.serving import store
from apps.priorities.serving.lookup import AccountQuery
from apps.priorities.serving.served_snapshot import ServedSnapshot


@dataclass(frozen=True)
class Groups:
    """Competing groups of a ledger in a snapshot. names: by index of the entry."""

    ledger: Ledger
    snapshot: ServedSnapshot
    names: dict[int, str]

    @cached_property
    def uids(self) -> dict[str, UUID]:
        return {name: self.snapshot.tree.uuid(i) for i, name in self.names.items()}

    @property
    def shares(self) -> dict[str, float]:
        """Targets in the snapshot; the engine excludes priority groups and normalises the rest to 1."""
        return {name: float(self.snapshot.values.target[i]) for i, name in self.names.items()}

    def received(self) -> dict[str, float]:
        """B[g] of the groups in the current tree."""
        rows = Received.objects.filter(ledger=self.ledger).values_list("entry_uid", "amount")
        amounts = dict(rows)
        return {name: amounts.get(uid, 0.0) for name, uid in self.uids.items()}

    def of_name(self, name: str) -> str:
        """The group with this name or path.

        Raises:
            Invalid: neither a group of the ledger nor a priority group.
        """
        if name in self.ledger.priority_groups:
            return name
        above = self.path.rstrip("/")
        short = name.removeprefix(f"{above}/") if name.startswith("/") else name
        if short not in self.uids:
            raise _wrong("group", f"{name[:200]!r} is not a group of this ledger")
        return short

    def of_account(self, query: AccountQuery) -> str:
        """The group that contains the account's best entry.

        Raises:
            Invalid: the account is unknown, ambiguous, or in none of the groups.
        """
        match = self.snapshot.index.find(query)
        if self.snapshot.index.choices(query):
            raise _wrong("account", "is ambiguous between namespaces: send the namespace")
        for entry in match.entries:
            for i in (*self.snapshot.tree.ancestors(entry), entry):
                if i in self.names:
                    return self.names[i]
        raise _wrong("account", "is in none of the ledger's groups")

    @property
    def path(self) -> str:
        """Path of the entry whose children are the groups."""
        return self.snapshot.index.path(self.snapshot.tree.index_of_uid(self.ledger.parent_uid) or 0)


def load_groups(ledger: Ledger, policy_slug: str) -> Groups:
    """Load the groups of a ledger from the newest snapshot.

    Raises:
        Unavailable: there is no snapshot yet.
        Invalid: the entry isn't in the newest snapshot, or has no competing children.
    """
    snapshot = store.newest(policy_slug)
    parent = snapshot.tree.index_of_uid(ledger.parent_uid)
    names = {} if parent is None else groups_below(snapshot, parent)
    if not names:
        raise _wrong("entry", "has no competing children in the newest snapshot")
    return Groups(ledger, snapshot, names)


def solve(groups: Groups, received: dict[str, float], jobs: list[dict[str, Any]]) -> dict[str, Any]:
    """Solve a `sam` case whose jobs are not booked.

    Raises:
        Invalid: an invalid field of the request.
    """
    received_field = "running" if is_held(groups.ledger) else "benefit"
    return _solve(groups, groups.ledger.benefit, {received_field: received}, jobs)


def books(groups: Groups) -> dict[str, Any]:
    """What each group has received and is owed; in no unit if the benefit function of the rules is unknown."""
    if unknown_benefits(groups.ledger):
        solution = _solve(groups, None, {"benefit": groups.received()}, [])
    else:
        solution = solve(groups, groups.received(), [])
    statement: dict[str, Any] = solution["ledger"]
    return statement


def _solve(
    groups: Groups, benefit: object, received: dict[str, dict[str, float]], jobs: list[dict[str, Any]]
) -> dict[str, Any]:
    ledger = groups.ledger
    case: dict[str, Any] = {
        "algorithm": {"name": "sam", **({} if benefit is None else {"benefit": benefit})},
        "shares": groups.shares,
        **received,
        "priority_groups": ledger.priority_groups,
        "p_front": ledger.p_front,
        "p_back": ledger.p_back,
        "booked": "later",
        "jobs": jobs,
    }
    try:
        solution: dict[str, Any] = solve_job_case(case)
    except EngineError as error:
        where = (error.place or "case").removeprefix("jobs[0].").removeprefix("algorithm.")
        raise Invalid(
            f"{where} {error.message}.", code=error.code, fields=[FieldProblem(where, error.message)]
        ) from error
    return solution


def unknown_benefits(ledger: Ledger) -> list[str]:
    """Functions of the stored rules that aren't built in: a package brought them to an earlier version."""
    names = [ledger.benefit] if isinstance(ledger.benefit, str) else list(ledger.benefit or {})
    return [name for name in names if name not in BENEFITS]


def is_held(ledger: Ledger) -> bool:
    """Whether the benefit counts while jobs run."""
    try:
        return ledger.benefit is not None and read_benefit(ledger.benefit).is_held
    except EngineError as error:
        raise _wrong((error.place or "benefit").removeprefix("algorithm."), error.message) from error


def _wrong(where: str, message: str) -> Invalid:
    return Invalid(f"{where} {message}.", fields=[FieldProblem(where, message)])
