"""The waiting jobs of an entry and below, as one figure of the home, from the queues that agents list."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

import numpy as np
from django.urls import reverse
from django.utils.translation import gettext as _

from apps.accounts.actor import Actor
from apps.contrib.schedulers.models import Scheduler
from apps.contrib.schedulers.selectors import VisibleQueue, open_queue, views_of
from apps.core.errors import NotFound
from apps.pages.overview.verdict import LevelFigure
from apps.policies.models import Policy
from apps.priorities.sentences import numbers
from apps.web.shell import presentation


def waiting_figure(policy: Policy, uid: UUID, *, at: datetime, actor: Actor) -> LevelFigure | None:
    """The number of waiting jobs that the reader may see, and where; None without a scheduler.

    A queue that isn't listed now is named instead of counted: an old number would pass for the present one.
    """
    n, listed, unread = 0, [], []
    for view in views_of(Scheduler.objects.select_related("policy").filter(policy=policy).order_by("name"), at):
        if not view.has_begun:
            continue
        try:
            queue = open_queue(view.scheduler, at=at, actor=actor)
        except NotFound:
            continue
        if queue is None or not view.lists_queue:
            unread.append(_unread_text(view.scheduler, queue, at))
        else:
            listed.append(view.scheduler.name)
            n += _count_below(queue, uid)
    if not listed and not unread:
        return None
    where = [_("in %(names)s") % {"names": ", ".join(listed)}] if listed else []
    return LevelFigure(
        key="waiting-jobs",
        label=_("Waiting jobs"),
        value=(numbers.count(n) if n else _("none")) if listed else _("unknown"),
        note="; ".join([*where, *unread]),
        url=reverse("pages:job-why", kwargs={"policy": policy.slug}) if n else "",
    )


def _unread_text(scheduler: Scheduler, queue: VisibleQueue | None, at: datetime) -> str:
    taken_at = None if queue is None else queue.table.taken_at
    if taken_at is None:
        return _("%(name)s not read yet") % {"name": scheduler.name}
    return _("%(name)s not read since %(at)s") % {
        "name": scheduler.name,
        "at": presentation.clock_time(taken_at, at),
    }


def _count_below(queue: VisibleQueue, uid: UUID) -> int:
    """Visible jobs of accounts at the entry and below it."""
    if queue.snapshot is None or queue.snapshot.tree.index_of_uid(uid) is None:
        return 0
    is_below = np.append(queue.snapshot.subtree_mask(uid), False)  # the last one: unmapped accounts, whose entry is -1
    return int((queue.seen & is_below[queue.entry[queue.table.account]]).sum())
