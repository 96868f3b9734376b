"""A site in which two people have notices: a late source and a role that ends."""

from __future__ import annotations

from datetime import timedelta

from apps.accounts.models import User
from apps.notices.evaluation import evaluate
from apps.policies.models import Grant
from apps.runs.models import Run
from apps.usage.models import Source
from tests.api.small_site import Site, build_site
from tests.instants import AT


def make_notified() -> Site:
    """A late source for the administrator; a role of pia that ends. Both have addresses, ben has no notices."""
    made = build_site(AT)
    made.recompute()
    forget_queued_runs()
    for user in (made.admin, made.pia, made.ben):
        User.objects.filter(pk=user.pk).update(email=f"{user.username}@example.org")
    Source.objects.update(expected_every_s=3600, last_received_at=AT - timedelta(hours=9))
    Grant.objects.filter(user=made.pia).update(expires_at=AT + timedelta(days=20))
    evaluate(at=AT)
    return made


def forget_queued_runs() -> None:
    """What publishing asked for waits in these worlds without workers, which is a notice after a minute."""
    Run.objects.filter(state=Run.State.QUEUED).delete()
