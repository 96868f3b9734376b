"""The check `resolution` of a review: whether rounding gives more leaves another rank after the change than before."""

from __future__ import annotations

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from apps.analytics.operators.sentences import operator_text, resolution_text
from apps.analytics.operators.tree_check import CheckedTree, Settings
from apps.core.errors import Invalid
from apps.engine.analysis.collisions import Collisions
from apps.engine.errors import BadParameter
from apps.policies.changesets.checks import Check
from apps.policies.changesets.review import Review
from apps.policies.tree.columns import Mask, TreeColumns
from apps.priorities.sentences.numbers import count
from apps.priorities.serving.lookup_index import ServedSnapshot


def check_resolution(review: Review, snapshot: ServedSnapshot, *, told_before: Mask, told_after: Mask) -> Check | None:
    """None where the policy will not round priorities. told_before, told_after: entries whose numbers may be shown."""
    settings = review.wanted.algorithm
    if settings.get("name") != "aequus":
        return None
    after = _checked(snapshot, review.after, settings, told_after)
    try:
        found = after.at([int(settings["resolution"])])[0]
        before = _before(review, snapshot, told_before)
    except (Invalid, BadParameter):  # a package fails: the check `algorithm` says so
        return None
    given = {
        "resolution": resolution_text(found.resolution), "n": count(found.n_misplaced), "all": count(found.n_leaves),
        "operator": operator_text(str(settings["operator"]), settings.get("k")),
    }  # fmt: skip
    if not found.n_misplaced:
        title = _("Resolution %(resolution)s gives every leaf its exact rank") % given
        return Check("resolution", "ok", title)
    title = ngettext(
        "Rounding gives %(n)s of %(all)s leaves another rank",
        "Rounding gives %(n)s of %(all)s leaves another rank",
        found.n_misplaced,
    )
    text = _("%(operator)s at resolution %(resolution)s.") % given
    if before is not None:
        text = f"{text} {_('Before the change: %(n)s.') % {'n': count(before.n_misplaced)}}"
    is_worse = found.n_misplaced > (0 if before is None else before.n_misplaced)
    return Check("resolution", "warn" if is_worse else "ok", title % given, text, _remedy(after) if is_worse else "")


def _checked(snapshot: ServedSnapshot, tree: TreeColumns, settings: Settings, told: Mask) -> CheckedTree:
    return CheckedTree(snapshot, tree, settings, told & tree.engine_tree().is_ranked)


def _before(review: Review, snapshot: ServedSnapshot, told: Mask) -> Collisions | None:
    settings = review.settings.algorithm
    if settings.get("name") != "aequus":
        return None
    return _checked(snapshot, review.before, settings, told).at([int(settings["resolution"])])[0]


def _remedy(after: CheckedTree) -> str:
    bits = after.safe().same_ranks
    if bits is None:
        return _("Choose another operator: no resolution up to 2^31 gives every leaf its exact rank.")
    return _("Choose the resolution %(resolution)s (2^%(bits)s): every leaf has its exact rank.") % {
        "resolution": count(2**bits), "bits": bits,
    }  # fmt: skip
