"""The log in a real browser: read, narrowed, opened row by row; with the keyboard, and without script."""

from __future__ import annotations

from datetime import timedelta

import pytest
from playwright.sync_api import expect

from apps import clock
from apps.accounts import audit
from apps.accounts.actor import SYSTEM, Actor
from apps.accounts.audit_check import check_chain
from apps.accounts.models import User
from apps.policies.delegation import give_grant
from apps.policies.models import Grant, Policy
from apps.policies.roles import VERBS_OF_ROLE
from tests.browser.conftest import THEMES, WIDTHS, Open
from tests.dashboard.grid import SLUG, Grid
from tests.dashboard.test_time_travel import publish

PAGE = "/audit/"


@pytest.fixture
def log(grid: Grid) -> Grid:
    """What was published, given and refused; the last of it by one request, and all of it checked."""
    now, eva = clock.now(), Actor(user=grid.admin, via="page", request_id="0f3a", address="192.0.2.7")
    shares = {"op": "set_shares", "entry": "/atlas", "shares": 77}
    publish(grid, shares, {"op": "set_policy", "settings": {"fallback_factor": 0.25}}, reason="Atlas bought nodes.")
    Grant.objects.create(
        policy=Policy.objects.get(slug=SLUG), entry_uid=grid.uid("/cms"), user=User.objects.create_user("maria"),
        role="manager", verbs=list(VERBS_OF_ROLE["manager"]), created_at=now,
    )  # fmt: skip
    give_grant(
        policy_slug=SLUG, entry_uid=grid.uid("/atlas"), username="alice", role="lead", reason="leads atlas", at=now,
        expires_at=now + timedelta(days=90), actor=eva,
    )  # fmt: skip
    audit.record(
        actor=SYSTEM, verb="usage.imported", at=now, subject="cluster-a", details={"n_new": 4, "n_rejected": 1}
    )
    audit.record(
        actor=Actor(user=grid.alice, via="api"), verb="policy.published", at=now, policy_slug=SLUG, outcome="refused",
        subject="change set 9", entry_uid=grid.uid("/biomed"), reason="You may not divide biomed.",
    )  # fmt: skip
    publish(grid, {"op": "set_shares", "entry": "/cms/dave", "shares": 3}, reason="Dave needs more.\nUntil May.")
    check_chain(at=now)
    return grid
