"""Watched entries: notices while they are off target, and a summary at the end of the watch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from apps.accounts.actor import Actor
from apps.core.errors import DomainError
from apps.notices.kinds.base import Finding, Kind, PolicyPlace, Sentence, day_text
from apps.notices.models import Notice, Watch
from apps.priorities.selectors.rows import EntryRow, open_view
from apps.priorities.sentences.numbers import percent

if TYPE_CHECKING:
    from apps.notices.visibility import Reader

SUMMARY_FOR = timedelta(days=3)  # how long a summary stays open


def find(place: PolicyPlace) -> Iterable[Finding]:
    """By the permissions of each watch's user."""
    if place.terms_at(0) is None:
        return
    watches = Watch.objects.filter(policy=place.policy, user__is_active=True, ends_at__gt=place.at - SUMMARY_FOR)
    for watch in watches.select_related("user").order_by("pk"):
        row = row_of(watch)
        if row is None or row.actual is None or row.target is None:
            continue
        facts = {
            "user": watch.user_id,
            "name": row.name,
            "path": row.path,
            "actual": round(row.actual, 4),
            "target": round(row.target, 4),
            "before": watch.actual_before,
            "state": row.state,
            "until": timezone.localdate(watch.ends_at).isoformat(),
        }
        if watch.ends_at <= place.at:
            yield Finding(f"{watch.pk}:end", "info", facts, watch.entry_uid)
        elif row.state in ("over", "under"):
            yield Finding(f"{watch.pk}:{row.state}", "warn", facts, watch.entry_uid)


def row_of(watch: Watch) -> EntryRow | None:
    """The entry as the watch's user sees it now; None if they don't."""
    try:
        view = open_view(policy_slug=watch.policy.slug, actor=Actor(user=watch.user, via="worker"), is_live=True)
        return view.row(view.require(watch.entry_uid))
    except DomainError:
        return None


def is_for(reader: Reader, notice: Notice) -> bool:
    if reader.user_id is None or reader.user_id != notice.facts["user"]:
        return False
    sight = reader.of(notice.policy)
    return sight is not None and sight.sees_exact_numbers(notice.entry_uid)


def describe(facts: Mapping[str, Any]) -> Sentence:
    balance = {"over": _("over"), "under": _("under")}.get(facts["state"], _("on target"))
    given = {"actual": percent(facts["actual"]), "target": percent(facts["target"]), "balance": balance}
    numbers = _("used %(actual)s, target %(target)s, %(balance)s") % given
    until = _("Watched until %(day)s.") % {"day": day_text(facts["until"])}
    found = f"{facts['path']}: {numbers}. {until}"
    if facts["before"] is not None:
        found = f"{found} {_('It had used %(before)s when this began.') % {'before': percent(facts['before'])}}"
    return Sentence(f"watched.{facts['state']}", facts, found)


KIND = Kind(
    name="watched",
    title=gettext_lazy("Watched entries"),
    about=gettext_lazy("An entry that you watch is off target. You receive a summary on the last day."),
    watches="policy",
    find=find,
    is_for=is_for,
    describe=describe,
    leads_to="entry",
)
