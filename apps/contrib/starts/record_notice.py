"""The notice of promises that hold too rarely, for managers. Loaded by the plug-in of notices alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from apps.contrib.notices.kind import Finding, Kind, PolicyPlace, Sentence
from apps.contrib.schedulers.models import Scheduler
from apps.contrib.starts.start_record import low_records
from apps.policies.access.managers import manages
from apps.priorities.sentences import numbers


def low_start_records(place: PolicyPlace) -> Iterable[Finding]:
    """Schedulers whose latest 300 promises of 80 %, of one kind, held in less than 65 % of cases."""
    for scheduler in Scheduler.objects.filter(policy=place.policy).order_by("name"):
        shares = [share for _kind, share in low_records(scheduler)]
        if shares:
            yield Finding(scheduler.name, "warn", {"scheduler": scheduler.name, "share": min(shares)})


def starts_rarely_held(facts: Mapping[str, Any]) -> Sentence:
    text = _("%(scheduler)s: of the latest promises that a job starts with 80 %%, only %(share)s held.")
    values = {"scheduler": facts["scheduler"], "share": numbers.percent(facts["share"])}
    return Sentence("starts_rarely_held", facts, text % values)


KIND = Kind(
    name="starts_rarely_held",
    title=gettext_lazy("Starts that hold too rarely"),
    about=gettext_lazy("Of the latest 300 promises that a job starts with 80 %, fewer than 65 % held."),
    watches="policy",
    find=low_start_records,
    is_for=lambda reader, notice: notice.policy is not None and manages(notice.policy, reader.actor, reader.at),
    describe=starts_rarely_held,
    leads_to="scheduler-starts",
)
