"""A peer that is no longer fetched because its key or lineage changed: a manager has to check it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from apps.federation.models import Remote
from apps.notices.kinds.base import Finding, Kind, PolicyPlace, Sentence, facts_of, is_for, key_of, watched, what


def find(place: PolicyPlace) -> Iterable[Finding]:
    for remote, _terms in watched(place):
        if remote.state == Remote.State.BLOCKED:
            facts = {**facts_of(remote), "code": remote.error_code}
            yield Finding(key_of(remote), "bad", facts, remote.entry_uid)


def describe(facts: Mapping[str, Any]) -> Sentence:
    given = {"what": what(facts)}
    if facts["code"] == "forked":
        text = (
            _(
                "%(what)s published two different documents with one version number: it isn’t fetched until an "
                "administrator decides."
            )
            % given
        )
    elif facts["code"] == "unknown_key":
        text = _("%(what)s signs with an untrusted key: it isn’t fetched until an administrator decides.") % given
    else:
        text = _("%(what)s isn’t fetched until an administrator decides.") % given
    return Sentence("blocked_peer", facts, text)


KIND = Kind(
    name="blocked_peer",
    title=gettext_lazy("Blocked peers"),
    about=gettext_lazy("A peer’s key changed without a handover, or its document history was forked."),
    watches="policy",
    find=find,
    is_for=is_for,
    describe=describe,
    leads_to="remote",
)
