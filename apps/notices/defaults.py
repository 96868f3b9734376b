"""Every kind has a default rule of the site, so that it works without any settings."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from apps.core import clock
from apps.notices.kinds import kinds
from apps.notices.models import Rule


def ensure_site_rules(*, at: datetime) -> None:
    """Safe to run twice and at once."""
    known = set(Rule.objects.filter(policy=None, source=None).values_list("kind", flat=True))
    missing = [Rule(kind=name, is_on=kind.is_on, changed_at=at) for name, kind in kinds().items() if name not in known]
    if missing:
        Rule.objects.bulk_create(missing, ignore_conflicts=True)


def make_site_rules(**_signal: Any) -> None:
    """After the tables are made."""
    ensure_site_rules(at=clock.now())
