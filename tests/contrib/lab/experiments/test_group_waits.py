"""Waits by group under a variant, beside how far the replay of the published policy was off."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from random import Random
from statistics import median
from typing import Any
from uuid import UUID, uuid5

import pytest
from django.test import Client
from django.urls import reverse

from apps.accounts.actor import SYSTEM
from apps.accounts.models import User
from apps.contrib.lab.experiments.group_waits import LEAST_GROUP_JOBS, group_waits, summary_of
from apps.contrib.lab.experiments.records import EntryNumbers, VariantReport
from apps.contrib.lab.experiments.selectors import get_history_report, get_variant_report, list_group_waits
from apps.contrib.lab.experiments.spec import read_spec
from apps.contrib.lab.models import Experiment
from apps.core import clock
from apps.usage.models import Record
from tests.contrib.lab.advisor.conftest import _few_replays  # noqa: F401 - fixture
from tests.contrib.lab.advisor.known_answers import overloaded
from tests.contrib.lab.asked_site import TO_AT, experiment, stored_site, variants_of
from tests.pages.page import read, text_of
from tests.priority_site import Site, _clock, make_site  # noqa: F401 - fixtures
from tests.sign_in import sign_in

_NO_NUMBERS: dict[str, Any] = {each.name: None for each in fields(EntryNumbers)}


def _entry(name: str, n_jobs: int, wait_s: float | None, was_s: float | None, core_h: float) -> EntryNumbers:
    values = {
        **_NO_NUMBERS, "entry": uuid5(UUID(int=0), name), "path": f"/{name}", "name": name, "depth": 1,
        "n_jobs": n_jobs, "wait_median_s": wait_s, "wait_median_was_s": was_s, "core_h": core_h,
    }  # fmt: skip
    return EntryNumbers(**values)


def _report(entries: list[EntryNumbers]) -> VariantReport:
    values: dict[str, Any] = {each.name: None for each in fields(VariantReport)}
    return VariantReport(**{**values, "entries": tuple(entries)})


@pytest.mark.parametrize("seed", range(40))
def test_each_row_equals_the_differences_by_hand(seed: int) -> None:
    rng = Random(seed)
    names = [f"g{n}" for n in range(rng.randrange(1, 7))]
    n_jobs = {name: rng.choice((0, 2, 5, 40)) for name in names}
    real, base, drafted = ({name: float(rng.randrange(0, 9_000, 60)) for name in names} for _ in range(3))
    core_h = {name: float(rng.randrange(9)) for name in names}
    missing = {name for name in names if rng.random() < 0.2}
    history = _report([_entry(name, n_jobs[name], base[name], real[name], core_h[name]) for name in names])
    history = replace(history, entries=(*history.entries, replace(history.entries[0], depth=2, path="/g0/below")))
    variant = [_entry(name, n_jobs[name], drafted[name], base[name], 1.0) for name in names if name not in missing]
    rows = group_waits(history, _report(variant), is_published=True)
    with_jobs = [name for name in names if n_jobs[name]]
    assert [row.path for row in rows] == [f"/{name}" for name in sorted(with_jobs, key=lambda n: (-core_h[n], n))]
    n_less = n_longer = n_within = 0
    for row in rows:
        name = row.path[1:]
        if n_jobs[name] < LEAST_GROUP_JOBS:
            assert row[2:] == (None,) * 7
            continue
        assert (row.n_jobs, row.happened_s, row.replayed_s) == (n_jobs[name], real[name], base[name])
        assert row.off_s == base[name] - real[name]
        if name in missing:
            assert (row.variant_s, row.change_s, row.exceeds_error) == (None, None, None)
            continue
        change = drafted[name] - base[name]
        is_clear = abs(change) > abs(base[name] - real[name])
        assert (row.variant_s, row.change_s, row.exceeds_error) == (drafted[name], change, is_clear)
        n_less += is_clear and change < 0
        n_longer += is_clear and change > 0
        n_within += not is_clear
    assert summary_of(rows) == (n_less, n_longer, n_within)


def test_the_error_is_unknown_where_the_base_changes_the_policy() -> None:
    """What its replay is off by is also what it changes: 4,000 s − 1,000 s is no error of the model."""
    history = _report([_entry("g", 40, 4_000.0, 1_000.0, 1.0)])
    (row,) = group_waits(history, _report([_entry("g", 40, 4_500.0, 4_000.0, 1.0)]), is_published=False)
    assert (row.happened_s, row.replayed_s, row.variant_s, row.change_s) == (1_000.0, 4_000.0, 4_500.0, 500.0)
    assert (row.off_s, row.exceeds_error) == (None, None)
    assert summary_of([row]) == (0, 0, 0)


@pytest.mark.parametrize(
    ("base", "changes_nothing"),
    [
        ({}, True),
        ({"name": "as it is"}, True),
        ({"jobs_times": 2}, False),
        ({"settings": {"window": {"half_life_s": 3_600}}}, False),
        ({"entries": [{"entry": "/a", "shares_times": 2}]}, False),
        ({"backfill": True}, False),
        ({"noise": {"loss": 0.5}}, False),
    ],
)
def test_a_base_is_the_policy_unless_it_changes_something(base: dict[str, Any], changes_nothing: bool) -> None:
    spec = read_spec({"workload": {"kind": "replay", "days": 7}, "base": base})
    assert spec.base.changes_nothing is changes_nothing


@pytest.mark.deep
@pytest.mark.django_db
def test_a_replay_shows_real_waits_the_error_and_the_change(
    make_site: Callable[..., Site],  # noqa: F811
    client: Client,
) -> None:
    """Real waits are those of the stored records, where a job that still waits counts until the last midnight. The base
    is that of the report of history, and the variant that of its own report.
    """
    known = overloaded(1.8)
    site = stored_site(make_site, known)
    detail = experiment(site, variants_of(known)[:1])
    names: dict[str, Any] = {
        "policy_slug": site.slug,
        "experiment_id": detail.row.id,
        "at": clock.now(),
        "actor": SYSTEM,
    }
    rows = list_group_waits(**names, index=1)
    history = {each.path: each for each in get_history_report(**names).entries}
    variant = {each.path: each for each in get_variant_report(**names, index=1).entries}
    assert rows
    for row in rows:
        assert row.happened_s == history[row.path].wait_median_was_s
        assert row.replayed_s == history[row.path].wait_median_s == variant[row.path].wait_median_was_s
        assert row.variant_s == variant[row.path].wait_median_s
        records = Record.objects.filter(account__user_name=row.path[1:])
        waits = [((each.start_at or TO_AT) - each.submit_at).total_seconds() for each in records]
        assert row.n_jobs == len(waits) > records.filter(start_at__isnull=False).count()
        assert row.happened_s == pytest.approx(median(waits), abs=1e-3)
    sign_in(client, User.objects.create_superuser("eva", "eva@example.org", "a long pass phrase"))
    url = reverse("pages:experiment", kwargs={"policy": site.slug, "experiment": detail.row.id})
    page = read(client.get(url))
    shown = [[text_of(cell) for cell in each.css("th, td")] for each in page.items("group-wait")]
    assert [cells[0] for cells in shown] == [row.path for row in rows]
    assert [each.attributes["data-exceeds"] for each in page.items("group-wait")] == [
        {True: "yes", False: "no", None: "unknown"}[row.exceeds_error] for row in rows
    ]
    assert page.has("[data-testid=group-waits]")
    base = read(client.get(f"{url}?variant=0"))
    assert not base.has("[data-testid=group-wait]"), "the base has no draft"
    answer = client.get(f"/api/v1/policies/{site.slug}/experiments/{detail.row.id}/variants/1/waits")
    assert [each["change_s"] for each in answer.json()["results"]] == [row.change_s for row in rows]
    stored = Experiment.objects.get(pk=detail.row.id)
    stored.spec = {**stored.spec, "base": {"jobs_times": 2}}
    stored.save()
    changed = list_group_waits(**names, index=1)
    assert [(row.off_s, row.exceeds_error) for row in changed] == [(None, None)] * len(rows)
    assert [row.change_s for row in changed] == [row.change_s for row in rows]
    sentence = text_of(read(client.get(url)).one("p[data-testid=group-waits]"))
    assert sentence == "The base changes the policy, so how far the replay is off isn’t known."
