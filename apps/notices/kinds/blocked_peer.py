"""Another authority that isn't followed any more, because its key or its line changed: somebody has to look."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from apps.federation.models import Remote
from apps.notices.kinds.base import Finding, Kind, PolicyPlace, Sentence
from apps.notices.kinds.remotes import facts_of, is_for, key_of, watched, what


def find(place: PolicyPlace) -> Iterable[Finding]:
    for remote, _terms in watched(place):
        if remote.state == Remote.State.BLOCKED:
            facts = {**facts_of(remote), "code": remote.error_code}
            yield Finding(key_of(remote), "bad", facts, remote.entry_uid)


def tell(facts: Mapping[str, Any]) -> Sentence:
    given = {"what": what(facts)}
    if facts["code"] == "forked":
        text = _("%(what)s told two different things as one: it isn’t followed until somebody looks.") % given
    elif facts["code"] == "unknown_key":
        text = _("%(what)s signs with a key that nobody here trusts: it isn’t followed until somebody looks.") % given
    else:
        text = _("%(what)s isn’t followed until somebody looks.") % given
    return Sentence("blocked_peer", facts, text)


KIND = Kind(
    name="blocked_peer",
    title=gettext_lazy("Peers that somebody must look at"),
    about=gettext_lazy("Another authority’s key changed without being handed over, or its line was forked."),
    watches="policy",
    find=find,
    is_for=is_for,
    tell=tell,
    leads_to="remote",
)
