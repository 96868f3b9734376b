"""Workers that stopped: nothing is imported, recomputed, collected or sent."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from apps.notices.kinds.base import Finding, Kind, Sentence, SitePlace
from apps.runs.workers import silent_workers

if TYPE_CHECKING:
    from apps.notices.models import Notice
    from apps.notices.visibility import Reader


def find(place: SitePlace) -> Iterable[Finding]:
    """Beat checks this kind too (fairshare_web/beat.py), because stopped workers evaluate nothing."""
    found = silent_workers(place.at)
    if found is not None:
        contact_at = found.last_contact_at.isoformat() if found.last_contact_at else ""
        numbers = {"n_waiting": found.n_waiting, "n_lost": found.n_lost, "n_stalled": found.n_stalled}
        facts = {"last_at": contact_at, **numbers}
        yield Finding("workers", "bad", facts)


def is_for(reader: Reader, _notice: Notice) -> bool:
    return reader.is_admin


def describe(facts: Mapping[str, Any]) -> Sentence:
    text = _(
        "Workers are silent: %(n_waiting)s runs wait, %(n_lost)s have lost their worker, "
        "%(n_stalled)s make no progress."
    ) % {"n_stalled": 0, **facts}
    return Sentence("workers_silent", facts, text)


KIND = Kind(
    name="workers_silent",
    title=gettext_lazy("Silent workers"),
    about=gettext_lazy("Workers have not reported, or background work has waited, for longer than a lease."),
    watches="site",
    find=find,
    is_for=is_for,
    describe=describe,
    leads_to="site",
)
