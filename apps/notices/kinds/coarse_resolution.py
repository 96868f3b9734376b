"""A resolution that changes the rank of many leaves compared with exact numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from django.utils.translation import gettext_lazy

from apps.analytics.operators.sentences import misplaced_text, operator_text, resolution_text, safe_bits_text
from apps.analytics.operators.tree_check import CheckedTree
from apps.core.errors import Invalid, Unavailable
from apps.notices.kinds.base import Finding, Kind, PolicyPlace, Sentence, Term
from apps.priorities.sentences.numbers import count
from apps.priorities.serving import store

if TYPE_CHECKING:
    from apps.notices.models import Notice
    from apps.notices.visibility import Reader


def find(place: PolicyPlace) -> Iterable[Finding]:
    """Present while the newest snapshot has too many such leaves; nothing for algorithms that do not round."""
    terms = place.terms_at(0)
    if terms is None:
        return
    try:
        snapshot = store.newest(place.policy.slug)
    except Unavailable:
        return
    settings = snapshot.algorithm
    leaves = snapshot.tree.engine_tree().is_ranked
    if settings.get("name") != "aequus" or not leaves.any():
        return
    checked = CheckedTree(snapshot, snapshot.tree, settings, leaves)
    try:
        counted = checked.at([int(settings["resolution"])])[0]
        if counted.n_misplaced * 100 < terms["percent"] * counted.n_leaves:
            return
        bits = checked.safe().same_ranks
    except Invalid:  # a package fails: another kind reports it
        return
    facts = {
        "policy": place.policy.name,
        "operator": settings["operator"],
        "k": settings.get("k"),
        "resolution": counted.resolution,
        "n": counted.n_misplaced,
        "of": counted.n_leaves,
        "bits": bits,
    }
    yield Finding(place.policy.slug, "warn", facts)


def is_for(reader: Reader, _notice: Notice) -> bool:
    """Administrators, who alone can change the resolution; the count is of all leaves."""
    return reader.is_admin


def describe(facts: Mapping[str, Any]) -> Sentence:
    given = {
        "operator": operator_text(facts["operator"], facts["k"]),
        "resolution": resolution_text(facts["resolution"]),
        "n": count(facts["n"]),
        "all": count(facts["of"]),
    }
    text = f"{facts['policy']}: {misplaced_text(facts['n']) % given}."
    if facts["bits"] is not None:
        text = f"{text} {safe_bits_text(facts['bits'])}"
    return Sentence("coarse_resolution", facts, text)


KIND = Kind(
    name="coarse_resolution",
    title=gettext_lazy("Coarse resolution"),
    about=gettext_lazy("Rounding at the policy’s resolution changes the rank of many users."),
    watches="policy",
    find=find,
    is_for=is_for,
    describe=describe,
    leads_to="operators",
    terms=(Term("percent", gettext_lazy("Threshold"), gettext_lazy("% of users"), 10, 1, 100),),
)
