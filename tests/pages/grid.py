"""A small grid for tests of pages: three VOs, seven people, one group over its share and one idle."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from apps.accounts.actor import COMMAND, Actor
from apps.accounts.models import Account, User
from apps.core import clock
from apps.mapping.rules.rule import Rule
from apps.mapping.services import set_rules
from apps.policies.changesets.change_sets import settings_of
from apps.policies.files.document import read_document
from apps.policies.models import ChangeSet, Policy
from apps.policies.publishing.direct import publish_tree
from apps.policies.records import NewTree, PolicyDetails
from apps.policies.services import make_policy
from apps.policies.tree.document_merge import merge_document
from apps.policies.tree.stored import TreeColumns, load_tree
from apps.priorities.recompute.staleness import request_recompute
from apps.runs.services import work_run_now
from apps.usage.models import Source
from apps.usage.parsers.base import RecordRow
from apps.usage.records.ingest import ingest_batch

SLUG = "grid"
PASSWORD = "correct horse battery"  # of people who live as long as a test
# From before names with < and > were refused: entries keep theirs, and it stays text wherever it is shown.
TRICKY = "<img src=x onerror=alert(1)>o'neil&amp;"
# VO → (shares, {user: (shares, cores for one day)})
VOS: dict[str, tuple[float, dict[str, tuple[float, float]]]] = {
    "atlas": (60, {"alice": (1, 300), "bob": (1, 100)}),
    "biomed": (30, {"carol": (1, 500), TRICKY: (1, 20)}),
    "cms": (10, {"dave": (1, 0), "erin": (1, 0)}),
}
_MIXED = (("atlas", "alice", 20), ("atlas", "bob", 25), ("biomed", "carol", 60), ("cms", "dave", 20))


@dataclass(frozen=True)
class Grid:
    """Who and what was made."""

    admin: User
    alice: User
    at: datetime

    @property
    def tree(self) -> TreeColumns:
        return load_tree(Policy.objects.get(slug=SLUG))

    def uid(self, path: str) -> UUID:
        tree = self.tree
        found = tree.index_of_path(path)
        if found is None:
            raise LookupError(path)
        return tree.uuid(found)

    def recompute(self) -> None:
        work_run_now(request_recompute(policy_slug=SLUG, at=clock.now(), actor=COMMAND).pk)


def make_grid(at: datetime, *, visibility: str = "tree", with_usage: bool = True, extra_users: int = 0) -> Grid:
    """The whole grid with priorities computed; `with_usage` False leaves it without any numbers."""
    admin = User.objects.create_superuser("admin", "", PASSWORD, first_name="Eva", last_name="Kling")
    alice = User.objects.create_user("alice", "", PASSWORD, first_name="Alice", last_name="Berg")
    actor = Actor(user=admin, via="command")
    make_policy(
        slug=SLUG, name="SweGrid", details=PolicyDetails(visibility=visibility), at=at - timedelta(days=2), actor=actor
    )
    _publish_document({"policy": SLUG, "root": _root(extra_users)}, at - timedelta(days=1), actor)
    grid = Grid(admin, alice, at)
    set_rules(
        policy_slug=SLUG,
        rules=[Rule(kind="glob", target_uid=grid.tree.uuid(0), suffix="/{group}/{user}")],
        at=at,
        actor=actor,
    )
    if with_usage:
        send_usage(at)
        Account.objects.filter(user_name="alice").update(person=alice)
        grid.recompute()
    return grid


def _publish_document(document: dict[str, Any], at: datetime, actor: Actor) -> None:
    """As the tree that it is: the name of old would be refused in a document."""
    policy = Policy.objects.get(slug=SLUG)
    publish_tree(
        policy_slug=SLUG,
        new=NewTree(
            tree=merge_document(read_document(document), load_tree(policy)),
            settings=settings_of(policy, 1),
            base_revision=1,
            reason="First division.",
            origin=ChangeSet.Origin.HAND,
        ),
        at=at,
        actor=actor,
    )


def send_usage(at: datetime) -> None:
    """One job a person, one day long, over an hour ago."""
    source, _ = Source.objects.get_or_create(
        slug="cluster-a", defaults={"name": "Cluster A", "namespace": "cluster-a", "created_at": at}
    )
    rows = [
        RecordRow(
            job=f"{vo}-{user}",
            user=user,
            group=vo,
            start_at=at - timedelta(hours=26),
            end_at=at - timedelta(hours=2),
            cpus=cores,
        )
        for vo, (_shares, users) in VOS.items()
        for user, (_own, cores) in users.items()
        if cores
    ]
    ingest_batch(source=source, rows=rows, at=at)


def send_mixed_days(grid: Grid, days: int = 20) -> None:
    """So many days before the grid's own, each with another mix of its people."""
    rows = [
        RecordRow(
            job=f"{user}-{day}",
            user=user,
            group=vo,
            submit_at=grid.at - timedelta(days=day + 2),
            start_at=grid.at - timedelta(days=day + 2),
            end_at=grid.at - timedelta(days=day + 1),
            cpus=cpus * (1 + (day * 7 % 5) / 4),
        )
        for vo, user, cpus in _MIXED
        for day in range(days)
    ]
    ingest_batch(source=Source.objects.get(slug="cluster-a"), rows=rows, at=grid.at)
    grid.recompute()


def send_mixed_hours(grid: Grid) -> None:
    """The two hours before the grid's own."""
    begin = grid.at - timedelta(hours=2)
    rows = [
        RecordRow(job=user, user=user, group=vo, submit_at=begin, start_at=begin, end_at=grid.at, cpus=cpus)
        for vo, user, cpus in _MIXED
    ]
    ingest_batch(source=Source.objects.get(slug="cluster-a"), rows=rows, at=grid.at)
    grid.recompute()


def _root(extra_users: int) -> dict[str, Any]:
    vos = []
    for vo, (shares, users) in VOS.items():
        people = [{"name": name, "kind": "user", "shares": own} for name, (own, _) in users.items()]
        prefix = {"cms": "member", "biomed": "helper"}.get(vo)
        if prefix:
            people += [{"name": f"{prefix}{n:04}", "kind": "user", "shares": 1} for n in range(extra_users)]
        vos.append({"name": vo, "kind": "vo", "shares": shares, "children": people})
    return {"name": "SweGrid", "kind": "root", "children": vos}
