"""Usage of unmapped accounts above a fraction of all usage."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from django.utils.translation import gettext_lazy, ngettext

from apps.core.errors import Unavailable
from apps.notices.kinds.base import Finding, Kind, PolicyPlace, Sentence, Term
from apps.policies.access.scope import Verb
from apps.priorities.sentences.numbers import number
from apps.priorities.serving import store

if TYPE_CHECKING:
    from apps.notices.models import Notice
    from apps.notices.visibility import Reader


def find(place: PolicyPlace) -> Iterable[Finding]:
    """In the newest snapshot: unmapped / (mapped + unmapped), in the policy's metric and window.

    Nothing for a policy without entries, to which no account can be mapped yet.
    """
    terms = place.terms_at(0)
    if terms is None:
        return
    try:
        newest = store.newest(place.policy.slug)
    except Unavailable:
        return
    if len(newest.tree) == 1:
        return
    unmapped = float(newest.meta["unmapped_usage"])
    whole = unmapped + float(newest.values.usage[0])
    part = unmapped / whole if whole > 0 else 0.0
    if part * 100 > terms["percent"]:
        facts = {"policy": place.policy.name, "n": newest.meta["n_unmapped"], "fraction": part}
        yield Finding(str(place.policy.pk), "warn", facts, place.tree.uuid(0))


def is_for(reader: Reader, notice: Notice) -> bool:
    """Users who map accounts for the whole policy."""
    sight = reader.of(notice.policy)
    return sight is not None and sight.holds_over_all(Verb.MAP_ACCOUNTS)


def describe(facts: Mapping[str, Any]) -> Sentence:
    n = int(facts["n"])
    text = ngettext(
        "%(part)s %% of the usage in %(policy)s is from %(n)s unmapped account.",
        "%(part)s %% of the usage in %(policy)s is from %(n)s unmapped accounts.",
        n,
    )
    part = number(facts["fraction"] * 100, 1)
    return Sentence("unmapped_usage", facts, text % {"part": part, "policy": facts["policy"], "n": n})


KIND = Kind(
    name="unmapped_usage",
    title=gettext_lazy("Unmapped usage"),
    about=gettext_lazy("Unmapped accounts exceed this percentage of all usage."),
    watches="policy",
    find=find,
    is_for=is_for,
    describe=describe,
    leads_to="mappings",
    terms=(Term("percent", gettext_lazy("Threshold"), gettext_lazy("%"), 5, 0, 100, is_whole=False),),
)
