"""Loading of the sample grid into an empty installation: users, a policy with history, usage and open decisions."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice
from typing import Any
from uuid import UUID

from django.db import transaction

from apps.accounts.actor import COMMAND, Actor
from apps.accounts.models import Account, User
from apps.accounts.services import make_user
from apps.cli.sample import peers
from apps.cli.sample.decisions import create_decisions, make_tokens, on, refund
from apps.cli.sample.grid import (
    NAMESPACE,
    POLICY_NAME,
    POLICY_SLUG,
    SITES,
    Grid,
    attach_robots,
    import_backlog,
    work_at,
)
from apps.cli.sample.jobs import DAYS, SampleJob, jobs
from apps.cli.sample.living import Progress, record_of, source_slug
from apps.cli.sample.site import SampleSite
from apps.cli.stack.paths import password_for
from apps.core.errors import Conflict
from apps.core.plugins import plugins
from apps.federation.models import Mount
from apps.mapping.rules.rule import Rule
from apps.mapping.services import set_rules
from apps.policies.access.authority import GrantTerms
from apps.policies.access.delegation import create_grant
from apps.policies.files.import_export import FileImport, import_policy
from apps.policies.models import Grant, Policy
from apps.policies.records import PolicyDetails
from apps.policies.services import change_shares, make_policy, publish_document
from apps.policies.tree.stored import load_tree
from apps.priorities.recompute.pipeline import compute, load_inputs, store_result
from apps.priorities.recompute.staleness import request_recompute
from apps.series.runs import enqueue_series_build
from apps.usage.models import Source
from apps.usage.parsers.base import RecordRow
from apps.usage.records.ingest import ingest_batch
from apps.usage.services import NewSource, make_source

_SNAPSHOT_DAYS = 30
_CHUNK = 10_000
_NEW_VO = "gravity-waves"
_CUT = ("lattice-qcd", 120)  # its shares before they were cut
_EXPECTED_EVERY_S = 6 * 3600

# Usage of single persons varies, so theirs is wider than the default; no half of a target more counts as on it.
_SETTINGS = {"tolerance": {"leaves": {"relative": 0.25, "points": 3}}}


@dataclass(frozen=True, slots=True)
class Person:
    """A user of the sample who can sign in, and the role that the user demonstrates."""

    username: str
    first_name: str
    last_name: str
    role: str = ""
    entry: str = ""


PEOPLE = (
    Person("admin", "Astrid", "Lund"),
    Person("maria", "Maria", "Hedin", Grant.Role.MANAGER, "/climate"),
    Person("ingrid", "Ingrid", "Sand", Grant.Role.LEAD, "/climate/seasonal"),
    Person("kimberg", "Kim", "Berg"),
)


def load_sample(*, at: datetime) -> None:
    """Fill an empty installation, in one transaction.

    Raises:
        Conflict: there is a policy or a usage source already.
    """
    if Policy.all_objects.exists() or Source.all_objects.exists():
        raise Conflict("This installation holds data already; the sample grid goes into an empty one only.")
    grid = Grid()
    with transaction.atomic():
        people = {person.username: _user(person, at=at) for person in PEOPLE}
        admin, manager = (Actor(user=people[name], via="command") for name in ("admin", "maria"))
        mount = _publish_first(grid, at=at, admin=admin)
        _give_roles(at=at, admin=admin)
        _publish_since(grid, mount, at=at, admin=admin, manager=manager)
        site = SampleSite(grid, people, _uid, at)
        _add_parts("policy", site)
        _send_usage(jobs(grid, end_at=at), at=at)
        Account.objects.filter(namespace=NAMESPACE, user_name="kimberg").update(person=people["kimberg"])
        import_backlog(at=at, admin=admin)
        attach_robots(_uid, at=at, admin=admin, manager=manager)
        peers.subscribe_to_site(at=at, begins=peers.begins_at(at), admin=admin)
        create_decisions(people, _uid, at=at)
        make_tokens(people, at=at)
        _add_parts("decisions", site)
        peers.publish_own(at=at, admin=people["admin"])
        _snapshots_of_past_days(at)
    work_at(request_recompute(policy_slug=POLICY_SLUG, at=at, actor=COMMAND).pk, at)
    enqueue_series_build(Policy.all_objects.get(slug=POLICY_SLUG), at=at)  # takes seconds: the workers' first task
    _add_parts("priorities", site)


def _add_parts(step: str, site: SampleSite) -> None:
    """What plug-ins add to the sample after a step."""
    for plugin in plugins():
        if add := plugin.sample_parts().get(step):
            add(site)


def _snapshots_of_past_days(at: datetime) -> None:
    """Compute a snapshot for each past day, so that ranks over time have data."""
    policy = Policy.all_objects.get(slug=POLICY_SLUG)
    for day in range(_SNAPSHOT_DAYS, 0, -1):
        then = at - timedelta(days=day)
        inputs = load_inputs(policy, as_of=then, is_past=True)
        store_result(inputs, compute(inputs), is_live=True, started_at=then, computed_at=then, run=None)


def _user(person: Person, *, at: datetime) -> User:
    user = User.objects.filter(username=person.username).first()
    if user is None:
        password = password_for(person.username)
        user, _ = make_user(
            username=person.username,
            email="",
            password=password,
            is_admin=person.username == "admin",
            at=at,
            actor=COMMAND,
        )
    User.objects.filter(pk=user.pk, first_name="").update(first_name=person.first_name, last_name=person.last_name)
    user.refresh_from_db()
    return user


def _publish_first(grid: Grid, *, at: datetime, admin: Actor) -> Mount:
    """Publish an empty policy, the first shares, a mount, and a cut of shares."""
    begin_at = at - timedelta(days=DAYS)
    make_policy(slug=POLICY_SLUG, name=POLICY_NAME, at=begin_at, actor=admin, details=PolicyDetails(is_sample=True))
    whole = grid.root()
    first = [vo for vo in whole["children"] if vo["name"] != _NEW_VO]
    cut_to = grid.vo_shares[_CUT[0]]
    earlier = [{**vo, "shares": _CUT[1]} if vo["name"] == _CUT[0] else vo for vo in first]
    publish_document(
        policy_slug=POLICY_SLUG,
        document={"policy": POLICY_SLUG, "settings": _SETTINGS, "root": {**whole, "children": earlier}},
        reason="Division agreed by the allocation committee.",
        at=begin_at + timedelta(minutes=10),
        actor=admin,
    )
    begins = peers.begins_at(at)
    mount = peers.mount_vo(at=begin_at + timedelta(minutes=15), begins=begins, admin=admin)
    change_shares(
        policy_slug=POLICY_SLUG,
        entry_uid=_uid(f"/{_CUT[0]}"),
        shares=cut_to,
        reason="Autumn round: one project of lattice QCD has ended.",
        at=begin_at + timedelta(days=61, hours=9, minutes=12),
        actor=admin,
    )
    rule = Rule(
        kind="glob",
        target_uid=_uid("/"),
        namespace=NAMESPACE,
        suffix="/{group}/{project}/{user}",
    )
    set_rules(policy_slug=POLICY_SLUG, rules=[rule], at=begin_at + timedelta(minutes=20), actor=admin)
    return mount


def _publish_since(grid: Grid, mount: Mount, *, at: datetime, admin: Actor, manager: Actor) -> None:
    """Publish two refunds, a new version of the mount between them, and a new organisation."""
    refund(
        _uid("/genomics/assembly"),
        1_200,
        at=on(at, 21, 11, 15),
        reason="Refund after the failure at Linköping.",
        note="The file system failed: 38 jobs are run again",
        actor=admin,
    )
    peers.ingest_document(mount, at=peers.begins_at(at) + timedelta(days=74))
    refund(
        _uid("/climate/seasonal"),
        300,
        at=on(at, 13, 9, 40),
        reason="Refund for a forecast with wrong input data.",
        note="The forecast is run again",
        actor=manager,
    )
    _admit(grid.root(), at=on(at, 10, 13, 40), admin=admin)
    peers.ingest_document(mount, at=at)


def _admit(whole: dict[str, Any], *, at: datetime, admin: Actor) -> None:
    """Import the new organisation from a file that lacks all others."""
    new = [vo for vo in whole["children"] if vo["name"] == _NEW_VO]
    import_policy(
        file=FileImport(
            policy_slug=POLICY_SLUG,
            format="json",
            content=json.dumps({"root": {**whole, "children": new}}).encode(),
            keep_missing=True,
        ),
        publish=True,
        reason="Gravitational waves join the grid.",
        at=at,
        actor=admin,
    )


def _give_roles(*, at: datetime, admin: Actor) -> None:
    for person in PEOPLE:
        if person.role:
            create_grant(
                policy_slug=POLICY_SLUG,
                entry_uid=_uid(person.entry),
                terms=GrantTerms(
                    username=person.username,
                    role=person.role,
                    reason="Speaks for it in the allocation committee.",
                    expires_at=None,
                ),
                at=at - timedelta(days=60),
                actor=admin,
            )


def _uid(path: str) -> UUID:
    """uid of a current entry of the policy by its path."""
    tree = load_tree(Policy.all_objects.get(slug=POLICY_SLUG))
    index = tree.index_of_path(path)
    if index is None:
        raise LookupError(f"the sample grid has no entry {path}")
    return tree.uuid(index)


def _send_usage(sample: Iterable[SampleJob], *, at: datetime) -> None:
    """Import the jobs of each site through the service that pushes of records use."""
    of_site: dict[str, list[RecordRow]] = {site.slug: [] for site in SITES}
    for job in sample:
        of_site[job.site].append(record_of(job))
    for site in SITES:
        source = make_source(
            NewSource(
                slug=source_slug(site),
                name=f"{site.name}, Slurm",
                namespace=NAMESPACE,
                site=site.slug,
                cluster=site.slug,
                expected_every_s=_EXPECTED_EVERY_S,
                is_sample=True,
            ),
            at=at,
            actor=COMMAND,
        )
        for chunk in _chunks(of_site[site.slug]):
            ingest_batch(source=source, rows=chunk, at=at)
        if site.silent_h:
            Source.objects.filter(pk=source.pk).update(last_received_at=at - timedelta(hours=site.silent_h))
        else:
            Source.objects.filter(pk=source.pk).update(cursor=Progress(loaded_at=at, through_at=at).cursor)


def _chunks(rows: list[RecordRow]) -> Iterator[list[RecordRow]]:
    left = iter(rows)
    while chunk := list(islice(left, _CHUNK)):
        yield chunk
