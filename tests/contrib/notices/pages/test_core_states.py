"""Notices of states of the core: late sources, blocked peers, archived policies, and open pages that follow them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client

from apps.accounts.actor import Actor
from apps.contrib.notices.evaluation import evaluate
from apps.contrib.notices.models import Notice
from apps.contrib.notices.selectors import list_open_notices
from apps.federation.models import Mount, Remote
from apps.mapping import removal
from apps.pages.overview import cards
from apps.usage.models import Source
from tests.instants import AT
from tests.mapping.test_archiving import WHY
from tests.pages.federation.mounted import signed_in
from tests.pages.federation.test_mounts import admin, mount, path_of, place, side  # noqa: F401
from tests.pages.grid import Grid
from tests.pages.overview.test_local_only import ATTENTION, HTMX, attention_keys
from tests.pages.page import read, text_of
from tests.pages.tree.live.test_pages import LIVE, changed, parts
from tests.sign_in import sign_in
from tests.small_site import Site
from tests.worlds import fresh_process  # noqa: F401 - fixture

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("is_late", [False, True])
def test_a_source_is_late_by_its_last_contact_not_by_its_newest_record(computed: Site, is_late: bool) -> None:
    day_ago = AT - timedelta(days=1)
    Source.objects.update(
        kind="command",
        expected_every_s=300,
        collect_every_s=300,
        last_received_at=day_ago,
        last_record_end_at=day_ago,
        collected_at=day_ago if is_late else AT,
    )
    evaluate(at=AT)
    assert Notice.objects.filter(kind="late_source", closed_at=None).exists() == is_late


def test_notices_of_an_archived_policy_are_closed_and_not_listed(site: Site) -> None:
    facts: dict[str, Any] = {"policy": "Grid", "error": "no such column"}
    when = {"opened_at": AT, "news_at": AT, "changed_at": AT}
    Notice.objects.create(kind="recompute_failed", key="grid", level="bad", policy=site.policy, facts=facts, **when)
    reader = Actor(user=site.admin, via="page")
    assert len(list_open_notices(reader, AT)) == 1
    removal.archive_policy(slug="grid", **WHY)
    assert list_open_notices(reader, AT) == []
    evaluate(at=AT)
    assert not Notice.objects.filter(policy=site.policy, closed_at=None).exists()


def test_rules_are_evaluated_after_the_clock_was_set_back(computed: Site) -> None:
    evaluate(at=AT)
    before = AT - timedelta(hours=1)
    Source.objects.update(expected_every_s=60, last_received_at=before - timedelta(days=1))
    evaluate(at=before)
    assert Notice.objects.filter(kind="late_source", closed_at=None).exists()


def test_an_open_page_follows_new_notices(open_grid: Grid, client: Client) -> None:
    sign_in(client, open_grid.admin)
    assert "data-live" in read(client.get("/notices/")).one("#fresh").attributes
    before = parts(client)
    source = Source.objects.get()
    Notice.objects.create(
        kind="late_source", key="x", level="warn", opened_at=AT, news_at=AT, changed_at=AT, source=source
    )
    assert changed(before, parts(client)) == {"todo"}
    assert "tab-notices" in {each["key"] for each in client.get(LIVE).json()["counts"]}


def test_a_blocked_peer_is_listed_for_users_who_decide(mount: Mount, place: Site) -> None:  # noqa: F811
    cards.last_good.clear()
    Mount.objects.filter(pk=mount.pk).update(state=Remote.State.BLOCKED, error_code="forked")
    evaluate(at=AT)
    page = read(signed_in(place.admin).get(ATTENTION, headers=HTMX))
    item = page.one('[data-testid=attention-item][data-key="notice.stale_peer"]')
    assert text_of(item).count("vo-a.example, vo-a") == 2, "and as the name of its button"
    assert path_of(mount) in page.values("href", '[data-key="notice.stale_peer"]')
    assert "notice.stale_peer" not in attention_keys(signed_in(place.pia).get(ATTENTION, headers=HTMX))
