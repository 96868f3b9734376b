"""The grid view of a policy of 100,000 entries that nine sites share, with a year of their usage by the hour.

Hours are written by COPY as feeds and imports would have left them. A site's people run mostly there, some at several.
Measured with the federation's others: `python -m bench --large federation`. Ratios are seconds over the goal's.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

import numpy as np

from bench.report import BenchLine

if TYPE_CHECKING:
    from django.test import Client

    from apps.accounts.actor import Actor
    from apps.accounts.models import User
    from apps.policies.models import Policy

SLUG = "bench-grid"
N_ENTRIES, N_BUCKETS, N_SITES, N_DAYS = 100_000, 6_000_000, 9, 365
VIEWS = 20
FIRST_S, VIEW_S, CHANGED_S = 5.0, 0.5, 0.5
LEFT_OUT_DAYS, LEFT_OUT_S = 100, 10.0
_MONTH_H = 730  # hours written at a time
_HOUR_US = 3_600_000_000


def measure_at(at: datetime) -> Iterator[BenchLine]:
    """The clock is stopped at that instant."""
    from django.core.management import call_command

    from apps.federation.grid.without_sources import MOST_GRID_BUCKETS

    policy, n_buckets = build(N_ENTRIES, N_BUCKETS, at)
    call_command("collectstatic", interactive=False, verbosity=0)
    admin = _signed_in(_admin())
    sizes = f"{N_ENTRIES:,} entries, {n_buckets:,} hours of {N_SITES} sites"
    _view(admin, "/federation/")  # what any first page reads: templates, routes
    _forget_all()
    yield _line("first grid view of a process", [_timed(lambda: _view(admin, _PAGE))], FIRST_S, sizes)
    views = [_timed(lambda: _view(admin, _PAGE)) for _ in range(VIEWS)]
    yield _line("grid view again", views, VIEW_S)
    yield _line("the same by REST", [_timed(lambda: _view(admin, _REST)) for _ in range(VIEWS)], VIEW_S)
    yield _line("grid view after other usage of the last days", list(_after_changes(admin, at)), CHANGED_S)
    _days_before(policy, at)
    reader = _signed_in(reader_of_sums(policy, at))
    _view(reader, _PAGE)
    views = [_timed(lambda: _view(reader, _PAGE)) for _ in range(VIEWS)]
    yield _line("grid view again for who sees sums only", views, VIEW_S)
    n_counted = _count_last_days(at)
    if n_counted > MOST_GRID_BUCKETS:
        raise RuntimeError(f"{n_counted:,} hours are more than are gone through.")
    left_out = _left_out_page(policy)
    sizes = f"{n_counted:,} hours count in {LEFT_OUT_DAYS} days"
    yield _line(
        "first look at what is otherwise without a peer", [_timed(lambda: _view(admin, left_out))], LEFT_OUT_S, sizes
    )
    yield _line("the same again", [_timed(lambda: _view(admin, left_out)) for _ in range(VIEWS)], VIEW_S)


_PAGE = f"/federation/grid/?policy={SLUG}&entry=/vo"
_REST = f"/api/v1/federation/grid?policy={SLUG}&entry=/vo&levels=2"


def _line(name: str, took: list[tuple[float, float]], goal_s: float, more: str = "") -> BenchLine:
    """The 95th percentile, with what of it this process computed."""
    slow = sorted(took)[int(0.95 * (len(took) - 1))][0]
    own = sorted(own_s for _s, own_s in took)[len(took) // 2]
    text = f"{slow:.2f} s" if len(took) == 1 else f"{slow:.2f} s at the 95th percentile of {len(took)}"
    detail = "; ".join(filter(None, [f"{text}, {own:.2f} s of it computing here", more]))
    unit = f"{goal_s:g} s" if goal_s >= 1 else f"{goal_s * 1e3:.0f} ms"
    return BenchLine(f"{name} / {unit}", slow / goal_s, 1.0, detail)


def _timed(work: Callable[[], None]) -> tuple[float, float]:
    own_s, began = time.process_time(), time.perf_counter()
    work()
    return time.perf_counter() - began, time.process_time() - own_s


def _view(client: Client, address: str) -> None:
    answer = client.get(address)
    if answer.status_code != 200 or (address == _PAGE and "s8.example" not in answer.content.decode()):
        raise RuntimeError(f"{address} answered {answer.status_code}: {answer.content[:500]!r}")


def _forget_all() -> None:
    """As a process that has just started, but for its code."""
    from apps.accounts import account_index
    from apps.mapping.rules import account_places, placement
    from apps.policies.tree import stored as trees
    from apps.priorities import delivered_usage as delivered_by_site
    from apps.priorities.serving import store
    from apps.usage import account_sums

    account_sums.cached_sums = account_sums.AccountSums()
    delivered_by_site._cache = delivered_by_site._Cache()
    placement._placements, account_places._last = placement._PlacementCache(), account_places._LastPlaces()
    account_index.forget()
    trees.tree_cache.clear()
    store.forget()
    store.poll()


def _after_changes(client: Client, at: datetime) -> Iterator[tuple[float, float]]:
    """Jobs that ended in the last days arrive before every view."""
    for number in range(VIEWS):
        more_usage(at, 1 + number * 5)
        yield _timed(lambda: _view(client, _PAGE))


def _days_before(policy: Policy, at: datetime) -> None:
    """Snapshots of the days before: readers of sums get finished days, and nothing in between."""
    from apps.priorities.models import Snapshot

    newest = Snapshot.objects.filter(policy=policy).order_by("-id")[0]
    for days in (4, 3, 2, 1):
        newest.pk, newest._state.adding = None, True
        newest.fingerprint = str(days) * 64
        newest.as_of = newest.computed_at = at - timedelta(days=days)
        newest.save()


def _count_last_days(at: datetime) -> int:
    """Publishes a shorter window and recomputes; returns how many hours count then."""
    from django.db import connection

    from apps.policies.services import change_settings

    settings = {"window": {"length_s": LEFT_OUT_DAYS * 86_400, "aging": "none"}}
    change_settings(policy_slug=SLUG, settings=settings, reason="bench", at=at, actor=_command())
    _recompute(at)
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM usage_bucket WHERE hour_at >= %s AND hour_at < %s",
            [at - timedelta(days=LEFT_OUT_DAYS), at],
        )
        return int(cursor.fetchone()[0])


def _left_out_page(policy: Policy) -> str:
    from apps.federation.models import Subscription

    subscription = Subscription.objects.filter(policy=policy).order_by("pk")[0]
    return f"/federation/usage/{subscription.pk}/without/"


def _admin() -> User:
    from apps.accounts.models import User

    return User.objects.get_or_create(username="bench-grid", is_superuser=True)[0]


def _signed_in(user: User) -> Client:
    from django.test import Client

    client = Client(headers={"host": "localhost"})
    client.force_login(user, backend="django.contrib.auth.backends.ModelBackend")
    return client


def build(n_entries: int, n_buckets: int, at: datetime) -> tuple[Policy, int]:
    """/vo with groups of 99 users, an account for each, and what they used; computed once. How many buckets."""
    from apps.accounts.actor import COMMAND
    from apps.mapping.rules.rule import Rule
    from apps.mapping.services import set_rules
    from apps.policies.models import Policy
    from apps.policies.services import make_policy, publish_document
    from apps.policies.tree.stored import load_tree

    before = at - timedelta(days=1)
    make_policy(slug=SLUG, name=SLUG, at=before, actor=COMMAND)
    n_groups = max(n_entries // 100 - n_entries // 10_000, 1)
    groups = [_group(number) for number in range(n_groups)]
    divisions = [{"name": f"d{k}", "children": groups[k : k + 100]} for k in range(0, n_groups, 100)]
    vo = {"name": "vo", "kind": "vo", "scope": "global", "children": divisions}
    document = {
        "policy": SLUG,
        "root": {"name": SLUG, "children": [vo]},
        "settings": {"window": {"length_s": N_DAYS * 86_400, "aging": "none"}},
    }
    publish_document(policy_slug=SLUG, document=document, reason="bench", at=before, actor=COMMAND)
    policy = Policy.objects.get(slug=SLUG)
    tree = load_tree(policy)
    top = tree.uuid(tree.index_of_path("/vo") or 0)
    set_rules(policy_slug=SLUG, rules=[Rule("glob", top, suffix="/{project}/{group}/{user}")], at=before, actor=COMMAND)
    sources = _sites(policy, top, at)
    n_written = _write(sources, n_groups, n_buckets, at)
    _recompute(at)
    return policy, n_written


def _recompute(at: datetime) -> None:
    from apps.priorities.recompute.staleness import request_recompute
    from apps.priorities.serving import store
    from apps.runs.services import work_run_now

    run = work_run_now(request_recompute(policy_slug=SLUG, at=at, actor=_command()).pk)
    if run.state != "succeeded":
        raise RuntimeError(run.error)
    store.poll()


def _command() -> Actor:
    from apps.accounts.actor import COMMAND

    return COMMAND


def more_usage(at: datetime, hours_ago: int) -> None:
    """What one job adds that ended so long ago, through the front door."""
    from apps.usage.models import Source
    from apps.usage.parsers.base import RecordRow
    from apps.usage.records.ingest import ingest_batch

    end_at = at - timedelta(hours=hours_ago)
    row = RecordRow(
        job=f"late-{hours_ago}-{at.timestamp()}",
        user="u0-0",
        group="g0",
        project="d0",
        state="finished",
        submit_at=end_at - timedelta(hours=1),
        start_at=end_at - timedelta(hours=1),
        end_at=end_at,
        cpus=4.0,
    )
    ingest_batch(source=Source.objects.get(slug=f"{SLUG}-0"), rows=[row], at=at)


def reader_of_sums(policy: Policy, at: datetime) -> User:
    """A reader of everything below /vo by its sums only."""
    from apps.accounts.models import User
    from apps.policies.access.authority import VERBS_OF_ROLE
    from apps.policies.models import Grant
    from apps.policies.models import Policy as PolicyRow
    from apps.policies.tree.stored import load_tree

    user = User.objects.get_or_create(username="bench-vera")[0]
    tree = load_tree(policy)
    PolicyRow.objects.filter(pk=policy.pk).update(visibility="path")
    Grant.objects.create(
        policy=policy,
        entry_uid=tree.uuid(tree.index_of_path("/vo") or 0),
        user=user,
        role="viewer",
        reason="bench",
        verbs=list(VERBS_OF_ROLE["viewer"]),
        created_at=at - timedelta(days=9),
    )
    return user


def _group(number: int) -> dict[str, Any]:
    people = [{"name": f"u{number}-{k}", "kind": "user", "shares": 1 + k % 7} for k in range(99)]
    return {"name": f"g{number}", "shares": 1 + number % 5, "children": people}


def _sites(policy: Policy, entry: UUID, at: datetime) -> list[int]:
    """This site's source first; half of the others are subscribed to."""
    from apps.accounts.actor import COMMAND
    from apps.federation.models import Publication, Subscription
    from apps.usage.services import NewSource, make_source

    made = []
    for number in range(N_SITES):
        source = make_source(
            NewSource(
                slug=f"{SLUG}-{number}",
                name=f"site {number}",
                namespace=SLUG,
                site=f"s{number}",
                origin=f"s{number}.example" if number else "",
            ),
            at=at,
            actor=COMMAND,
        )
        made.append(source.pk)
        if number % 2:
            Subscription.objects.create(
                policy=policy,
                entry_uid=entry,
                url=f"https://s{number}.example/f",
                issuer=source.origin,
                feed="vo",
                fingerprint="0" * 64,
                source=source,
                capacity_cores=1e5,
                good_at=at,
                max_age_s=3_600,
                made_at=at,
            )
    Publication.objects.create(policy=policy, entry_uid=entry, name="bench-grid", made_at=at)
    return made


def _write(sources: list[int], n_groups: int, n_buckets: int, at: datetime) -> int:
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute(_ACCOUNTS, {"n": n_groups, "at": at - timedelta(days=N_DAYS), "name": SLUG})
        cursor.execute("INSERT INTO usage_jobclass (queue, partition, qos) VALUES (%s, '', '') RETURNING id", [SLUG])
        job_class = int(cursor.fetchone()[0])
        cursor.execute("SELECT array_agg(id ORDER BY id) FROM accounts_account WHERE namespace = %s", [SLUG])
        accounts = np.array(cursor.fetchone()[0], np.int64)
    rng = np.random.default_rng(11)
    habits = np.cumsum(rng.pareto(1.2, len(accounts)) + 0.05)
    home = rng.integers(0, len(sources), len(accounts))
    until_h, n_written = int(at.timestamp()) // 3600, 0
    with _without_indexes():
        for first_h in range(until_h - N_DAYS * 24, until_h, _MONTH_H):
            n_hours = min(_MONTH_H, until_h - first_h)
            n = n_buckets * n_hours // (N_DAYS * 24)
            who = np.searchsorted(habits, rng.random(n) * habits[-1])
            where = np.where(rng.random(n) < 0.8, home[who], rng.integers(0, len(sources), n))
            key = np.unique(((first_h + rng.integers(0, n_hours, n)) * len(accounts) + who) * len(sources) + where)
            hour_account, site = np.divmod(key, len(sources))
            hour, account = np.divmod(hour_account, len(accounts))
            _copy(np.array(sources)[site], accounts[account], job_class, hour, rng.integers(1, 36_864, len(key)) / 1024)
            n_written += len(key)
    with connection.cursor() as cursor:
        cursor.execute("UPDATE usage_source SET watermark = 1 WHERE id = ANY(%s)", [sources])
        cursor.execute("ANALYZE usage_bucket")
        cursor.execute("ANALYZE accounts_account")
    return n_written


_ACCOUNTS = """
INSERT INTO accounts_account (namespace, user_name, group_name, dn, fqan, project, first_seen_at)
SELECT %(name)s, 'u' || g || '-' || k, 'g' || g, '', '', 'd' || g / 100 * 100, %(at)s
FROM generate_series(0, %(n)s - 1) AS g, generate_series(0, 98) AS k
"""


class _without_indexes:
    """A year's rows, and no others, are written in a third of the time when indexes are made afterwards."""

    def __enter__(self) -> None:
        from django.db import connection

        with connection.cursor() as cursor:
            cursor.execute("TRUNCATE usage_bucket")
            cursor.execute("ALTER TABLE usage_bucket DROP CONSTRAINT usage_bucket_pkey")

    def __exit__(self, *_failure: object) -> None:
        from django.db import connection

        with connection.cursor() as cursor:
            cursor.execute("SET maintenance_work_mem = '512MB'")
            cursor.execute(
                "ALTER TABLE usage_bucket ADD PRIMARY KEY (hour_at, source_id, account_id, job_class_id, site)"
            )


def _copy(source: Any, account: Any, job_class: int, hour: Any, cpu_s: Any) -> None:
    from apps.usage import pgbinary
    from bench.series import _BUCKETS

    n = len(hour)
    nothing = pgbinary.float8(np.zeros(n))
    pgbinary.copy_in(
        _BUCKETS,
        [
            pgbinary.int4(source),
            pgbinary.int4(account),
            pgbinary.text(np.full(n, b"", np.bytes_)),
            pgbinary.constant_int4(job_class, n),
            pgbinary.timestamptz(hour * _HOUR_US),
            pgbinary.float8(cpu_s),
            nothing,
            nothing,
            nothing,
            nothing,
            nothing,
        ],
    )
