"""Failing recomputes of a policy, so that its priorities aren't updated."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from apps.engine.errors import PackageFailed
from apps.notices.kinds.base import Finding, Kind, PolicyPlace, Sentence
from apps.policies.recompute_runs import failed_recompute

if TYPE_CHECKING:
    from apps.notices.models import Notice
    from apps.notices.visibility import Reader


def find(place: PolicyPlace) -> Iterable[Finding]:
    """Present while the newest finished recompute failed; failures of a package have a kind of their own."""
    run = failed_recompute(place.policy)
    if run is not None and run.error_code != PackageFailed.code and place.terms_at(0) is not None:
        yield Finding(place.policy.slug, "bad", {"policy": place.policy.name, "error": run.error[:300]})


def is_for(reader: Reader, _notice: Notice) -> bool:
    """Administrators, because these are errors of the service."""
    return reader.is_admin


def describe(facts: Mapping[str, Any]) -> Sentence:
    text = _("The priorities of %(policy)s are no longer computed; the last ones stay. %(error)s") % dict(facts)
    return Sentence("recompute_failed", facts, text)


KIND = Kind(
    name="recompute_failed",
    title=gettext_lazy("Failed recomputes"),
    watches="policy",
    find=find,
    is_for=is_for,
    describe=describe,
    leads_to="algorithm",
)
