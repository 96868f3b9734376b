"""After a restore: published numbers continue above those that were published since the backup was made."""

from __future__ import annotations

from datetime import datetime
from uuid import uuid4

from django.db import transaction
from django.db.models import Max

from apps.accounts.actor import Actor
from apps.accounts.audit_log import record
from apps.federation.models import FeedMark, Publication, UsageFeed

#: More than a site publishes between a backup and its restore.
GAP = 1_000_000


@transaction.atomic
def skip_published_numbers() -> None:
    """Let the next version of each publication, and the next number of each feed, be one that no peer has seen.

    A peer that has versions from after the backup would take the next ones for old, or for a fork. Versions in between
    count as missed. A reader of a feed that knows a number from after the backup reads it from 0.
    """
    for publication in Publication.all_objects.annotate(newest=Max("documents__version")):
        publication.least_version = max(publication.newest or 0, publication.least_version) + GAP
        publication.save(update_fields=["least_version"])
    for feed in UsageFeed.all_objects.all():
        feed.number += GAP
        feed.save(update_fields=["number"])
        FeedMark.objects.create(feed=feed, number=feed.number, mark=uuid4())


@transaction.atomic
def continue_restored(*, reason: str, at: datetime, actor: Actor) -> None:
    """The operator's part after a restore of the database by other means than `manage.py restore`."""
    skip_published_numbers()
    record(actor=actor, verb="federation.numbers_skipped", at=at, reason=reason)
