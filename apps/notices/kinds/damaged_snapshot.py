"""A policy whose newest snapshot can't be read: an older one is served until the next recompute."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from apps.notices.kinds.base import Finding, Kind, PolicyPlace, Sentence
from apps.priorities.models import Snapshot
from apps.priorities.snapshots import is_damaged

if TYPE_CHECKING:
    from apps.notices.models import Notice
    from apps.notices.visibility import Reader


def find(place: PolicyPlace) -> Iterable[Finding]:
    """Checks the newest snapshot only: older ones are served only while it is damaged."""
    newest = Snapshot.objects.filter(policy=place.policy, is_live=True).order_by("-pk").values_list("pk", flat=True)
    snapshot_id = newest.first()
    if snapshot_id is not None and is_damaged(snapshot_id):
        facts = {"policy": place.policy.name, "slug": place.policy.slug, "snapshot": snapshot_id}
        yield Finding(place.policy.slug, "bad", facts)


def is_for(reader: Reader, _notice: Notice) -> bool:
    """Administrators, because it concerns the site's disk."""
    return reader.is_admin


def describe(facts: Mapping[str, Any]) -> Sentence:
    text = _("Snapshot %(snapshot)s of %(policy)s is damaged. An older one is served until the next recompute.")
    return Sentence("damaged_snapshot", facts, text % facts)


KIND = Kind(
    name="damaged_snapshot",
    title=gettext_lazy("Damaged snapshots"),
    watches="policy",
    find=find,
    is_for=is_for,
    describe=describe,
    leads_to="policy",
)
