"""A source that is removed and made again under its name: what is stored of both sees that its usage is another."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from apps.accounts.actor import COMMAND
from apps.federation.usage_feeds.feed_build import build_feed
from apps.federation.usage_feeds.feeds import make_feed
from apps.mapping.removal import remove_source
from apps.mapping.rules.rule import Rule
from apps.policies.tree.stored import load_tree
from apps.usage.models import Bucket, Record, SiteDay
from apps.usage.parsers.base import RecordRow
from apps.usage.records.ingest import ingest_batch
from apps.usage.services import NewSource, make_source
from tests.priority_site import AS_OF, NO_AGING, PROJECTS, Site, build_series
from tests.series.test_series import publish, read
from tests.simulation import from_nothing

pytestmark = pytest.mark.django_db(transaction=True)
DAY = timedelta(days=1)


def test_a_source_made_again_is_read_again(make_site: Callable[..., Site]) -> None:
    """The ordinary way out of a log that was imported into the wrong namespace, by a clock that stands still."""
    site = make_site(at=AS_OF - 10 * DAY)
    publish(site, PROJECTS, NO_AGING, AS_OF - 10 * DAY)
    site.map(Rule(kind="glob", suffix="/{group}/{user}", target_uid=load_tree(site.policy).uuid(0)))
    begun_at, end_at = AS_OF - 4 * DAY - timedelta(hours=10), AS_OF - 4 * DAY
    job = RecordRow("1", "alice", "physics", "finished", begun_at, begun_at, end_at, cpus=1.0)
    feed = make_feed(
        policy_slug="grid", entry="/physics", name="f", capacity_cores=8, keeps_days=25, at=AS_OF, actor=COMMAND
    )
    for namespace in ("wrong", "c1"):
        source = make_source(NewSource(slug="late", name="late", namespace=namespace), at=AS_OF, actor=COMMAND)
        ingest_batch(source=source, rows=[job], at=AS_OF)
        build_series(site)
        build_feed(feed.pk, at=AS_OF)
        if namespace == "wrong":
            for model in (Record, Bucket, SiteDay):
                model.objects.filter(source=source).delete()
            remove_source(slug="late", reason="another namespace", at=AS_OF, actor=COMMAND)
    assert read(site, "/physics").used.sum() == 36_000
    assert from_nothing.series_differences(site, AS_OF) == []
    assert from_nothing.feed_differences(feed, AS_OF) == []
