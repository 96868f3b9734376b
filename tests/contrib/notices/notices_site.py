"""A site in which two people have notices: a late source and core-hours that end."""

from __future__ import annotations

from datetime import date, timedelta

from apps.accounts.actor import SYSTEM
from apps.accounts.models import User
from apps.contrib.allocations.services import AllocationTerms, create_allocation
from apps.contrib.notices.evaluation import evaluate
from apps.runs.models import Run
from apps.usage.models import Source
from tests.instants import AT
from tests.small_site import Site, build_site

TODAY = AT.date()


def make_notified() -> Site:
    """A late source for the administrator; core-hours of pia's group that end. All have addresses."""
    made = build_site(AT)
    made.recompute()
    forget_queued_runs()
    for user in (made.admin, made.pia, made.ben):
        User.objects.filter(pk=user.pk).update(email=f"{user.username}@example.org")
    Source.objects.update(expected_every_s=3600, last_received_at=AT - timedelta(hours=9))
    give_core_hours(made, ends_on=(AT + timedelta(days=20)).date())
    evaluate(at=AT)
    return made


def give_core_hours(
    site: Site, *, ends_on: date, starts_on: date = TODAY, core_h: float = 1500, path: str = "/physics"
) -> None:
    """Core-hours from today on, to pia's group."""
    terms = AllocationTerms(starts_on=starts_on, ends_on=ends_on, amount=core_h, reason="r")
    create_allocation(policy_slug="grid", entry_uid=site.uid(path), terms=terms, at=AT, actor=SYSTEM)


def forget_queued_runs() -> None:
    """What publishing asked for waits in these worlds without workers, which is a notice after a minute."""
    Run.objects.filter(state=Run.State.QUEUED).delete()
