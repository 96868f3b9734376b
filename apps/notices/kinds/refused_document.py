"""A rejected document of another site: the last valid one is used until the cause is fixed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from apps.federation.fetch_requests import NOT_FETCHED
from apps.federation.models import Fetch
from apps.notices.kinds.base import Finding, Kind, PolicyPlace, Sentence, facts_of, is_for, key_of, watched, what

_PASSES = "older_version"  # from an outdated cache: the next fetch gets the newer one
_MOST_MESSAGE = 600


def find(place: PolicyPlace) -> Iterable[Finding]:
    """Present while the newest fetch was rejected; `blocked_peer` is for peers that are no longer fetched."""
    for remote, _terms in watched(place):
        if remote.error_code in ("", _PASSES) or remote.state in NOT_FETCHED:
            continue
        newest = remote.fetches.order_by("-id").values_list("outcome", flat=True).first()
        if newest == Fetch.Outcome.REFUSED:
            facts = {**facts_of(remote), "code": remote.error_code, "error": remote.error[:_MOST_MESSAGE]}
            yield Finding(key_of(remote), "warn", facts, remote.entry_uid)


def describe(facts: Mapping[str, Any]) -> Sentence:
    given = {"what": what(facts), "error": facts["error"]}
    text = _("The newest document of %(what)s was rejected; the last valid one stays. %(error)s") % given
    return Sentence("refused_document", facts, text)


KIND = Kind(
    name="refused_document",
    title=gettext_lazy("Rejected peer documents"),
    watches="policy",
    find=find,
    is_for=is_for,
    describe=describe,
    leads_to="remote",
)
