"""Put the sample grid into an empty installation: people, policy with a past, usage of three months, priorities."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice
from uuid import UUID

from django.db import transaction

from apps.accounts.actor import COMMAND, Actor
from apps.accounts.models import Account, User
from apps.accounts.services import make_user
from apps.cli.sample.core_hours import promise_core_hours
from apps.cli.sample.grid import NAMESPACE, POLICY_NAME, POLICY_SLUG, SITES, Grid
from apps.cli.sample.jobs import DAYS, SampleJob, jobs
from apps.cli.stack.first_run import password_for
from apps.errors import Conflict
from apps.policies.models import Grant, Policy
from apps.policies.roles import VERBS_OF_ROLE
from apps.policies.services import change_shares, make_policy, publish_document
from apps.policies.trees import load_tree
from apps.priorities.recompute import request_recompute
from apps.priorities.rules import Rule
from apps.priorities.services import set_rules
from apps.runs.services import work_run_now
from apps.usage.collectors.base import RecordRow
from apps.usage.ingest import ingest_batch
from apps.usage.models import Source
from apps.usage.services import make_source

_CHUNK = 10_000
_NEWCOMER = "gravity-waves"
_CUT = ("lattice-qcd", 120)  # what it had before the last round of allocations
_EXPECTED_EVERY_S = 6 * 3600


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody to sign in as, and what they are there to show."""

    username: str
    first_name: str
    last_name: str
    authority_of: str = ""


PEOPLE = (
    Person("admin", "Astrid", "Lund"),
    Person("maria", "Maria", "Hedin", authority_of="/climate"),
    Person("kimberg", "Kim", "Berg"),
)


def load_sample(*, at: datetime) -> None:
    """Fill an empty installation, whole or not at all.

    Raises:
        Conflict: it holds a policy or a source already.
    """
    if Policy.objects.exists() or Source.objects.exists():
        raise Conflict("This installation holds data already; the sample grid goes into an empty one only.")
    grid = Grid()
    with transaction.atomic():
        people = {person.username: _user(person, at=at) for person in PEOPLE}
        admin = Actor(user=people["admin"], via="command")
        _publish_past(grid, at=at, admin=admin)
        _give_authority(people, at=at, admin=people["admin"])
        promise_core_hours(grid, _uid, at=at, admin=admin)
        _send_usage(jobs(grid, end_at=at), at=at)
        Account.objects.filter(namespace=NAMESPACE, user_name="kimberg").update(person=people["kimberg"])
    work_run_now(request_recompute(policy_slug=POLICY_SLUG, at=at, actor=COMMAND).pk)


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


def _publish_past(grid: Grid, *, at: datetime, admin: Actor) -> None:
    """Four revisions: empty, the first division, a cut after a round of allocations, and a newcomer."""
    begin_at = at - timedelta(days=DAYS)
    make_policy(slug=POLICY_SLUG, name=POLICY_NAME, at=begin_at, actor=admin, is_sample=True)
    whole = grid.root()
    first = [vo for vo in whole["children"] if vo["name"] != _NEWCOMER]
    cut_to = grid.vo_shares[_CUT[0]]
    earlier = [{**vo, "shares": _CUT[1]} if vo["name"] == _CUT[0] else vo for vo in first]
    publish_document(
        policy_slug=POLICY_SLUG,
        document={"policy": POLICY_SLUG, "root": {**whole, "children": earlier}},
        reason="Division agreed by the allocation committee.",
        at=begin_at + timedelta(minutes=10),
        actor=admin,
    )
    change_shares(
        policy_slug=POLICY_SLUG,
        entry_uid=_uid(f"/{_CUT[0]}"),
        shares=cut_to,
        reason="Autumn round: one project of lattice QCD has ended.",
        at=begin_at + timedelta(days=61, hours=9, minutes=12),
        actor=admin,
    )
    publish_document(
        policy_slug=POLICY_SLUG,
        document={"policy": POLICY_SLUG, "root": whole},
        reason="Gravitational waves join the grid.",
        at=begin_at + timedelta(days=82, hours=13, minutes=40),
        actor=admin,
    )
    rule = Rule(
        kind="glob",
        target_uid=_uid("/"),
        namespace=NAMESPACE,
        suffix="/{group}/{project}/{user}",
    )
    set_rules(policy_slug=POLICY_SLUG, rules=[rule], at=begin_at + timedelta(minutes=20), actor=admin)


def _give_authority(people: dict[str, User], *, at: datetime, admin: User) -> None:
    policy = Policy.objects.get(slug=POLICY_SLUG)
    for person in PEOPLE:
        if person.authority_of:
            Grant.objects.create(
                policy=policy,
                entry_uid=_uid(person.authority_of),
                user=people[person.username],
                role=Grant.Role.MANAGER,
                verbs=list(VERBS_OF_ROLE[Grant.Role.MANAGER]),
                reason="Speaks for the organisation in the allocation committee.",
                granted_by=admin,
                created_at=at,
            )


def _uid(path: str) -> UUID:
    """Of an entry of the policy as it is now."""
    tree = load_tree(Policy.objects.get(slug=POLICY_SLUG))
    index = tree.index_of_path(path)
    if index is None:
        raise LookupError(f"the sample grid has no entry {path}")
    return tree.uuid(index)


def _send_usage(sample: Iterable[SampleJob], *, at: datetime) -> None:
    """Each site's jobs through the front door of usage, as its scheduler would report them."""
    of_site: dict[str, list[RecordRow]] = {site.slug: [] for site in SITES}
    for job in sample:
        of_site[job.site].append(_record(job))
    for site in SITES:
        source = make_source(
            slug=f"{site.slug}-slurm",
            name=f"{site.name}, Slurm",
            namespace=NAMESPACE,
            site=site.slug,
            cluster=site.slug,
            expected_every_s=_EXPECTED_EVERY_S,
            is_sample=True,
            at=at,
            actor=COMMAND,
        )
        for chunk in _chunks(of_site[site.slug]):
            ingest_batch(source=source, rows=chunk, at=at)


def _record(job: SampleJob) -> RecordRow:
    return RecordRow(
        job=str(job.number),
        user=job.member.user,
        group=job.member.vo,
        project=job.member.project,
        state="finished" if job.end_at else "running",
        submit_at=job.submit_at,
        start_at=job.start_at,
        end_at=job.end_at,
        cpus=job.cpus,
        nodes=max(1, job.cpus // 32),
        mem_mb=job.cpus * 4000,
        requested_s=job.requested_s,
        queue=job.queue,
        qos="normal",
    )


def _chunks(rows: list[RecordRow]) -> Iterator[list[RecordRow]]:
    left = iter(rows)
    while chunk := list(islice(left, _CHUNK)):
        yield chunk
