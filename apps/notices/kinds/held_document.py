"""A mounted policy that changed by more than is accepted automatically: its document waits for a decision."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from apps.federation.models import Mount
from apps.federation.staleness import STILL_OPEN
from apps.notices.kinds.base import Finding, Kind, PolicyPlace, Sentence, facts_of, is_for, watched, what


def find(place: PolicyPlace) -> Iterable[Finding]:
    for remote, _terms in watched(place):
        held = remote.held if isinstance(remote, Mount) else None
        if isinstance(remote, Mount) and held is not None and held.state in STILL_OPEN:
            facts = {**facts_of(remote), "version": remote.version, "change_set": held.pk}
            yield Finding(f"{remote.pk}:{held.pk}", "warn", facts, remote.entry_uid)


def describe(facts: Mapping[str, Any]) -> Sentence:
    given = {"what": what(facts), "version": facts["version"]}
    text = _("Version %(version)s of %(what)s exceeds the limits and waits for a decision.") % given
    return Sentence("held_document", facts, text)


KIND = Kind(
    name="held_document",
    title=gettext_lazy("Mounted policies to review"),
    about=gettext_lazy("A change of a mounted policy exceeds its limits and waits for a decision."),
    watches="policy",
    find=find,
    is_for=is_for,
    describe=describe,
    leads_to="change_set",
)
