"""A policy with two VOs, and a site that has a name."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from django.conf import LazySettings

from apps.accounts.actor import COMMAND
from apps.policies import services
from apps.policies.models import Policy

AT = datetime(2026, 11, 20, 12, tzinfo=UTC)
VO = {
    "root": {
        "name": "grid",
        "children": [
            {
                "name": "VO-A",
                "kind": "vo",
                "shares": 30,
                "scope": "global",
                "children": [
                    {"name": "P-A1", "kind": "project", "shares": 50, "children": [{"name": "anna", "kind": "user"}]},
                    {"name": "P-A2", "kind": "project", "shares": 30, "children": []},
                    {"name": "rest", "kind": "reserve", "shares": 20},
                ],
            },
            {"name": "VO-B", "kind": "vo", "shares": 70, "children": []},
        ],
    }
}


@pytest.fixture
def policy(db: None, settings: LazySettings) -> Policy:
    settings.FAIRSHARE_ISSUER = "vo-a.example"
    services.make_policy(slug="grid", name="Grid", at=AT, actor=COMMAND)
    services.publish_document(policy_slug="grid", document=VO, reason="The start.", at=AT, actor=COMMAND)
    return Policy.objects.get(slug="grid")
