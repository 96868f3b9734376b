"""A peer that only the site's proxy reaches."""

from __future__ import annotations

from typing import Any

import pytest
from django.conf import LazySettings

from apps.federation.fetch_schedule import request_fetch
from apps.federation.models import Fetch, Mount
from apps.policies.models import Policy
from apps.runs.models import Run
from apps.runs.services import work_run_now
from tests.core.connect_proxy import PASSWORD, QUOTED
from tests.federation.fetches import look_at
from tests.federation.other_side import OtherSide
from tests.federation.worlds import add_entry, mount_side
from tests.instants import AT

pytestmark = pytest.mark.django_db


@pytest.fixture
def mount(policy: Policy, side: OtherSide, squid: Any, settings: LazySettings) -> Mount:
    settings.FAIRSHARE_ISSUER = "site.example"
    add_entry("vo-a-here")
    mount = mount_side(side)
    settings.FAIRSHARE_OUTBOUND_ALLOW = []
    mount.url = squid.lead(side.port) + side.url.partition(str(side.port))[2]
    mount.save()
    return mount


def test_a_document_is_fetched_through_the_proxy(mount: Mount, squid: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert look_at(mount, monkeypatch, AT).outcome == "applied"
    assert squid.asked == ["CONNECT slurm.example.org:443 HTTP/1.1"]


def test_a_fault_of_the_proxy_is_in_the_list_of_fetches_without_its_password(
    mount: Mount, squid: Any, settings: LazySettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.FAIRSHARE_OUTBOUND_PROXY = squid.url.replace("fairshare:", "another:")
    monkeypatch.setenv("FAIRSHARE_CLOCK", AT.isoformat())
    run = work_run_now(request_fetch(mount, at=AT).pk)
    assert run.state == Run.State.SUCCEEDED, run.error
    fetch = Fetch.objects.get()
    mount.refresh_from_db()
    assert "FAIRSHARE_OUTBOUND_PROXY" in fetch.message
    assert "407" in fetch.message
    for text in (fetch.message, mount.error, run.error):
        assert QUOTED not in text
        assert PASSWORD not in text
