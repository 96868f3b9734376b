"""The sample grid has the same content at every call."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from io import StringIO

import numpy as np
import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.test import override_settings

from apps.accounts.actor import COMMAND
from apps.cli.sample.grid import POLICY_SLUG, SITES, Grid
from apps.cli.sample.jobs import DAYS, SampleJob, jobs
from apps.cli.sample.loading import load_sample
from apps.core.errors import Conflict
from apps.policies.models import Policy, Revision
from apps.priorities.models import Snapshot
from apps.priorities.selectors.tree import get_tree_page
from apps.priorities.serving import store
from apps.priorities.tried_settings import TriedVector, check_tree
from apps.usage.models import Record, Source
from apps.usage.timeliness import Timeliness, timeliness
from tests.instants import AT
from tests.oracles import analysis as oracles_analysis

END_AT = datetime(2026, 11, 20, 12, 34, tzinfo=UTC)


@pytest.fixture(scope="module")
def sample() -> list[SampleJob]:
    return list(jobs(Grid(), end_at=END_AT))


def test_the_sample_is_deterministic(sample: list[SampleJob]) -> None:
    assert list(jobs(Grid(), end_at=END_AT)) == sample


def test_sample_jobs_start_in_the_window_and_end_after_their_start(sample: list[SampleJob]) -> None:
    assert {job.end_at is None for job in sample} == {True, False}
    for job in sample:
        assert END_AT - timedelta(days=DAYS) <= job.submit_at <= job.start_at < END_AT
        assert job.end_at is None or job.start_at <= job.end_at <= END_AT


def test_the_grid_has_28_organisations_with_unique_users_in_each_project() -> None:
    grid = Grid()
    assert len(grid.vo_shares) == 28
    seats = [(member.vo, member.project, member.user) for member in grid.members]
    assert len(set(seats)) == len(seats)
    assert max(Counter(member.user for member in grid.members).values()) == 2


@pytest.mark.django_db
def test_the_sample_has_one_over_one_idle_one_new_group_and_one_late_source(sample_grid: None) -> None:
    store.poll()
    assert Revision.objects.filter(policy__slug=POLICY_SLUG).count() == 11
    newest = Snapshot.objects.filter(policy__slug=POLICY_SLUG).latest("pk")
    assert newest.n_ranked == len(Grid().members) + 1, "and a guest by rule"
    page = get_tree_page(policy_slug=POLICY_SLUG, actor=COMMAND)
    states = {row.name: row.state for row in page.rows if row.level == 2}
    assert states["lattice-qcd"] == "over"
    assert states["radio-sky"] == "idle"
    assert states["gravity-waves"] == "under"
    late = [site.slug for site in SITES if site.silent_h]
    last = {source.site: source.last_record_end_at for source in Source.objects.all()}
    assert min(last, key=lambda site: last[site] or AT) == late[0]
    assert [one.site for one in Source.objects.all() if timeliness(one, AT) is Timeliness.LATE] == late
    assert Record.objects.filter(state="running").exists()
    _check_resolution_in_exact_fractions()


def _check_resolution_in_exact_fractions() -> None:
    """The sample's own tree: what a resolution does to it is what a recount in fractions finds."""
    snapshot = store.newest(POLICY_SLUG)
    tree = snapshot.tree
    shares, usage = ([Fraction(x) for x in values.tolist()] for values in (tree.shares, snapshot.values.usage))
    leaves = np.flatnonzero(tree.engine_tree().is_ranked).tolist()
    for operator in ("relative", "absolute"):
        vectors = oracles_analysis.exact_vectors(tree.parent.tolist(), shares, usage, operator)
        for resolution in (256, 10_000):
            found = check_tree(policy_slug=POLICY_SLUG, tried=TriedVector(operator, resolution), actor=COMMAND)
            recounted = oracles_analysis.rounding_losses([vectors[leaf] for leaf in leaves], resolution)
            assert {name: getattr(found, name) for name in recounted} == recounted, (operator, resolution)


@pytest.mark.django_db
def test_the_sample_needs_an_empty_installation() -> None:
    Policy.objects.create(slug="mine", name="Mine", created_at=END_AT)
    with pytest.raises(Conflict):
        load_sample(at=END_AT)
    assert Source.objects.count() == 0


@pytest.mark.django_db
def test_production_refuses_sample_data() -> None:
    with override_settings(PRODUCTION=True), pytest.raises(CommandError, match="production"):
        call_command("load_sample", stdout=StringIO())
