"""Usage by kind of resource equals a sum by hand, job by job, also after corrections and undone imports."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from datetime import timedelta
from fractions import Fraction
from random import Random
from typing import Any

import pytest
from django.db.models import Sum

from apps.accounts.actor import COMMAND
from apps.policies.settings import PolicySettings
from apps.policies.tree.stored import load_tree
from apps.policies.units import Unit
from apps.priorities.delivered_usage import load_delivered
from apps.priorities.usage_factors import weighted_amounts
from apps.runs.services import work_run_now
from apps.usage.arrays import load_open_records, load_usage
from apps.usage.models import Bucket, Import, KindHour
from apps.usage.parsers.base import RecordRow
from apps.usage.quality.bucket_audit import audit_buckets, repair_buckets
from apps.usage.records.ingest import ingest_batch
from apps.usage.records.undo import undo_import
from apps.usage.services import NewImport, start_import
from tests.examples import first
from tests.priorities.test_units_by_hand import USERS
from tests.priority_site import AS_OF, PROJECTS, Site, finished

pytestmark = pytest.mark.django_db(transaction=True)  # what isn't committed is never remembered
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
N_JOBS = 200
UNITS = (
    Unit("T4-hour", "T4-h", (("gpu_s", 1.0), ("gpu:h100", 8.0))),
    Unit("H100-hour", "H100-h", (("gpu:h100", 1.0),)),
    Unit("Old GPU", "old", (("gpu_s", 1.0), ("gpu:h100", 0.0), ("gpu:a100_1g.5gb", 0.25)), minimum_charge_s=900),
    Unit(
        "Mixture",
        "mix",
        (("cpu_s", 0.5), ("gpu_s", 2.0), ("gpu:t4", 1.0), ("gres/shard", 0.125), ("license/matlab", 4.0)),
    ),
    Unit("Kilowatt-hour", "kWh", (("energy", 2.0**-10),), minimum_charge_s=3600),
)


def random_kinds(draw: Random) -> dict[str, float]:
    kinds: dict[str, float] = {}
    for name, amounts in (
        ("gpu:h100", (1, 4, 8)),
        ("gpu:t4", (1, 2)),
        ("gpu:a100_1g.5gb", (1, 7)),
        ("gres/shard", (3,)),
        ("license/matlab", (1, 12)),
        ("energy", (1, 4_096, 1_234_567)),
    ):
        if draw.random() < 0.3:
            kinds[name] = float(draw.choice(amounts))
    return kinds


def random_job(draw: Random, number: int) -> RecordRow:
    """Whole seconds and amounts of which a quantum is a divisor, so that sums by hand are exact."""
    user, group = draw.choice(USERS)
    end_at = AS_OF - timedelta(seconds=draw.randrange(1, 35 * 86_400))
    ran = timedelta(seconds=draw.choice((1, 59, 899, 900, 3_600, 90_000, draw.randrange(1, 400_000))))
    kinds = random_kinds(draw) if draw.random() < 0.7 else {}
    typed = sum(amount for name, amount in kinds.items() if name.startswith("gpu:"))
    return RecordRow(
        job=str(number),
        user=user,
        group=group,
        submit_at=end_at - ran,
        start_at=end_at - ran,
        end_at=end_at,
        cpus=draw.choice((0, 1, 48)),
        gpus=typed + draw.choice((0, 0, 2)),
        partition=draw.choice(("fat", "thin")),
        is_charge=draw.random() < 0.1,
        kinds=tuple(sorted(kinds.items())),
    )


def by_hand(jobs: list[RecordRow], unit: Unit, group: str) -> Fraction:
    """Unit-seconds of the jobs of a group, which all ran in the last 40 days."""
    total = Fraction(0)
    for job in jobs:
        if job.group != group or job.start_at is None or job.end_at is None:
            continue
        weights, kinds = dict(unit.weights), dict(job.kinds)
        ran_s = Fraction((job.end_at - job.start_at).total_seconds())
        seconds = ran_s if job.is_charge else max(ran_s, Fraction(unit.minimum_charge_s))
        rest = job.gpus - sum(kinds.get(name, 0.0) for name in weights if name.startswith("gpu:"))
        total += Fraction(weights.get("cpu_s", 0)) * Fraction(job.cpus) * seconds
        total += Fraction(weights.get("gpu_s", 0)) * Fraction(rest) * seconds
        for name, amount in kinds.items():
            total += Fraction(weights.get(name, 0)) * Fraction(amount) * (1 if name == "energy" else seconds)
    return total


def assert_equal(site: Site, jobs: list[RecordRow]) -> None:
    site.policy.refresh_from_db()
    tree = load_tree(site.policy)
    groups = {name: tree.index_of_path(f"/{name}") for name in ("physics", "biology")}
    edges = [AS_OF - 45 * DAY, AS_OF - 10 * DAY, AS_OF + HOUR]
    for unit in UNITS:
        entries = [i for i in groups.values() if i is not None]
        delivered = load_delivered(policy=site.policy, tree=tree, entries=entries, edges=edges, unit=unit)
        for name, i in groups.items():
            assert i is not None
            assert delivered.between(i, edges[0], edges[-1]) == by_hand(jobs, unit, name), (unit.symbol, name)
        assert delivered.unmapped.sum() == by_hand(jobs, unit, "knows"), unit.symbol
    comparison = audit_buckets(site.source)
    assert (comparison.n_different, comparison.n_records) == (0, len(jobs)), comparison.first


@pytest.mark.parametrize("seed", first(1, range(4)))
def test_delivered_usage_by_kind_equals_a_sum_by_hand(make_site: Callable[..., Site], seed: int) -> None:
    draw = Random(seed)
    site = make_site()
    site.publish(PROJECTS)
    site.map()
    jobs = [random_job(draw, number) for number in range(N_JOBS)]
    site.jobs(jobs)
    assert_equal(site, jobs)
    changed: dict[str, Any]
    for number in draw.sample(range(N_JOBS), 60):
        other = random_job(draw, number)
        changed = {"revision": 1, "gpus": other.gpus, "kinds": other.kinds, "partition": other.partition}
        if draw.random() < 0.3:
            changed["state"] = "withdrawn"
        jobs[number] = jobs[number]._replace(**changed)
    site.jobs([job for job in jobs if job.revision])
    assert_equal(site, [job for job in jobs if job.state != "withdrawn"])
    withdrawn = [job._replace(state="withdrawn", revision=2) for job in jobs if job.state != "withdrawn"]
    site.jobs(withdrawn)
    assert_equal(site, [])
    assert not KindHour.objects.exists()
    assert not Bucket.objects.exists()


@pytest.mark.parametrize("seed", range(2))
def test_an_undone_import_leaves_the_sums_by_kind_of_before(make_site: Callable[..., Site], seed: int) -> None:
    draw = Random(seed)
    site = make_site()
    site.publish(PROJECTS)
    site.map()
    jobs = [random_job(draw, number) for number in range(50)]
    bring(site, jobs)
    before = list(KindHour.objects.order_by("pk").values())
    assert_equal(site, jobs)
    others = [
        random_job(draw, number)._replace(
            submit_at=jobs[number].submit_at, start_at=jobs[number].start_at, end_at=AS_OF - HOUR / 7, revision=1
        )
        for number in range(25)
    ]
    second = bring(site, [*others, *(random_job(draw, number) for number in range(100, 130))])
    assert list(KindHour.objects.order_by("pk").values()) != before
    assert audit_buckets(site.source).n_different == 0
    asked = undo_import(import_id=second.pk, reason="a test", at=AS_OF, actor=COMMAND)
    assert asked.undone_run is not None
    assert work_run_now(asked.undone_run.pk).state == "succeeded"
    assert list(KindHour.objects.order_by("pk").values()) == before
    assert_equal(site, jobs)


def bring(site: Site, jobs: list[RecordRow]) -> Import:
    """Import jobs as a file in the format of REST."""
    rows = []
    for job in jobs:
        assert job.start_at is not None
        assert job.end_at is not None
        assert job.submit_at is not None
        values = {
            name: getattr(job, name) for name in ("job", "user", "group", "cpus", "gpus", "partition", "revision")
        }
        times = {"submit": job.submit_at, "start": job.start_at, "end": job.end_at}
        rows.append({**values, **{name: at.isoformat() for name, at in times.items()}, "kinds": dict(job.kinds)})
    body = "\n".join(map(json.dumps, rows)).encode() + b"\n"
    file = NewImport(file=io.BytesIO(body), source_slug=site.source.slug, format="ndjson", file_name="log.ndjson")
    made = start_import(file, at=AS_OF, actor=COMMAND)
    run = work_run_now(made.run_id)
    assert run.state == "succeeded", run.error
    for at, job in enumerate(jobs):
        jobs[at] = job._replace(is_charge=False)
    return Import.objects.get(pk=made.pk)


def test_a_t4_and_an_h100_hour_count_1_to_8_and_a_new_kind_by_the_default(make_site: Callable[..., Site]) -> None:
    site = make_site()
    kinds = (("t4", "alice"), ("h100", "bob"), ("b300", "carol"))
    rows = [finished(user, "physics", 1.0, cpus=4, gpus=1, kinds=((f"gpu:{kind}", 1.0),)) for kind, user in kinds]
    site.jobs([row._replace(job=str(number)) for number, row in enumerate(rows)])
    settings = PolicySettings.from_json({"metric": {"weights": {"gpu_s": 1, "gpu:t4": 1, "gpu:H100": 8}}})
    usage = load_usage(
        sources=[site.source.pk], from_at=None, to_at=AS_OF + DAY, resources=["gpu_s", "gpu:t4", "gpu:h100"]
    )
    amount = weighted_amounts(usage, metric=settings.metric, classes={})
    by_user: dict[str, float] = {}
    names = dict(Bucket.objects.values_list("account_id", "account__user_name"))
    for account_id, each in zip(usage.account_id.tolist(), amount.tolist(), strict=True):
        by_user[names[account_id]] = by_user.get(names[account_id], 0.0) + each
    assert by_user == {"alice": 3_600.0, "bob": 28_800.0, "carol": 3_600.0}


def test_running_jobs_count_by_their_kinds(make_site: Callable[..., Site]) -> None:
    site = make_site()
    row = finished("alice", "physics", 1.0, gpus=3, kinds=(("energy", 5.0), ("gpu:h100", 2.0)))
    ingest_batch(source=site.source, rows=[row._replace(state="running", end_at=None)], at=AS_OF)
    opened = load_open_records(sources=[site.source.pk])
    metric = PolicySettings.from_json({"metric": {"weights": {"gpu_s": 1, "gpu:h100": 8, "energy": 1}}}).metric
    assert weighted_amounts(opened, metric=metric, classes={}).tolist() == [17.0], "energy counts when a job has ended"


def test_a_wrong_sum_by_kind_is_found_and_repaired(make_site: Callable[..., Site]) -> None:
    site = make_site()
    site.jobs([finished("alice", "physics", 3.0, gpus=1, kinds=(("gpu:h100", 1.0), ("energy", 1_000.0)))])
    total = KindHour.objects.filter(kind__name="energy").aggregate(n=Sum("amount"))["n"]
    assert total == 1_000.0
    wrong = KindHour.objects.filter(kind__name="gpu:h100").order_by("hour_at").first()
    assert wrong is not None
    KindHour.objects.filter(pk=wrong.pk).update(amount=1.0)
    comparison = audit_buckets(site.source)
    assert [(each.amount, each.stored) for each in comparison.first] == [("gpu:h100", 1.0)]
    assert repair_buckets(site.source, reason="a test", at=AS_OF, actor=COMMAND).n_repaired == 1
    assert audit_buckets(site.source).n_different == 0
