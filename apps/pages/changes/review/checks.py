"""Checks of a change set beside those of the policy: unmapped usage, rounding, and whether the effect is current."""

from __future__ import annotations

from datetime import datetime

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from apps.accounts.actor import Actor
from apps.core.errors import Invalid
from apps.engine.analysis.tree_resolution import Collisions
from apps.engine.errors import BadParameter
from apps.federation.models import Mount
from apps.mapping.moves import DAYS, UnmappedUsage, moves_to_unmapped, usage_of_unmapped
from apps.mapping.permissions import MapRights
from apps.policies.changesets.checks import Check
from apps.policies.changesets.review import Review
from apps.policies.models import ChangeSet
from apps.policies.tree.columns import Mask, TreeColumns
from apps.priorities.change_effect_runs import Effect
from apps.priorities.rounding import CheckedTree, Settings
from apps.priorities.sentences.numbers import count, number
from apps.priorities.sentences.operators import misplaced_text, operator_text, resolution_text, safe_bits_text
from apps.priorities.serving.served_snapshot import ServedSnapshot


def check_unmapped(review: Review, *, actor: Actor, at: datetime) -> list[Check]:
    """Check accounts whose names the reader may see. Returns no check if no removed entry has such accounts."""
    if not review.is_open or review.outcome is None or not len(review.moves.gone):
        return []
    rights = MapRights(review.policy, review.before, actor, at)
    moves = moves_to_unmapped(review.policy, review.before, review.after)
    unmapped = usage_of_unmapped([move for move in moves if rights.may_name(move.before)], at=at)
    return [_unmapped_check(unmapped, _mount_of(review), review)] if unmapped.accounts else []


def _unmapped_check(unmapped: UnmappedUsage, mount: Mount | None, review: Review) -> Check:
    n = unmapped.n_accounts
    used = _("%(n)s core-hours of the last %(days)s days") % {"n": number(unmapped.core_s / 3_600, 1), "days": DAYS}
    if mount is not None and mount.keep_usage:
        i = review.before.index_of_uid(mount.entry_uid)
        title = ngettext("Usage of %(n)s account is kept", "Usage of %(n)s accounts is kept", n)
        text = _("Their entries are removed: %(used)s then count at %(entry)s.")
        entry = "" if i is None else review.before.path(i)
        return Check("unmapped", "ok", title % {"n": count(n)}, text % {"used": used, "entry": entry})
    title = ngettext("%(n)s account becomes unmapped", "%(n)s accounts become unmapped", n) % {"n": count(n)}
    remedy = _("Map them to another entry first.")
    if mount is not None:
        remedy = _("Switch on “Keep usage of removed entries” at the mount, or map them to another entry.")
    return Check("unmapped", "warn", title, _("%(used)s would count nowhere.") % {"used": used}, remedy)


def _mount_of(review: Review) -> Mount | None:
    """Return the mount from whose document the change set was made, None for other change sets."""
    if review.change_set.origin != ChangeSet.Origin.MOUNT:
        return None
    return Mount.objects.filter(policy=review.policy, held=review.change_set).first()


def check_effect(effect: Effect) -> Check:
    """Check whether the shown effect is up to date."""
    if effect.state == "ready":
        return Check("simulation", "ok", _("The effect uses the newest usage"))
    if effect.state == "no_snapshot":
        return Check("simulation", "ok", _("No priorities yet"), _("The effect on ranks can’t be predicted."))
    titles = {
        "stale": _("The effect uses earlier data"),
        "asked": _("The effect is being calculated"),
        "failed": _("The effect could not be calculated"),
        "absent": _("The effect on ranks isn’t calculated yet"),
    }
    remedy = "" if effect.state == "asked" else _("Calculate it on the tab Effect.")
    return Check("simulation", "warn", titles[effect.state], effect.problem, remedy)


def check_resolution(
    review: Review, snapshot: ServedSnapshot, *, visible_before: Mask, visible_after: Mask
) -> Check | None:
    """Check the rounding of a change set's policy; None if it doesn't round. visible_before, visible_after: visible
    entries.
    """
    settings = review.wanted.algorithm
    if settings.get("name") != "aequus":
        return None
    after = _checked(snapshot, review.after, settings, visible_after, review.content)
    try:
        rounding = after.at([int(settings["resolution"])])[0]
        before = _before(review, snapshot, visible_before)
    except (Invalid, BadParameter):  # an operator's package fails: reported by the check `algorithm`
        return None
    values = {
        "resolution": resolution_text(rounding.resolution),
        "n": count(rounding.n_misplaced),
        "all": count(rounding.n_leaves),
        "operator": operator_text(str(settings["operator"]), settings.get("k")),
    }
    title = misplaced_text(rounding.n_misplaced) % values
    if not rounding.n_misplaced:
        return Check("resolution", "ok", title)
    text = "" if before is None else _("Before: %(n)s.") % {"n": count(before.n_misplaced)}
    is_worse = rounding.n_misplaced > (0 if before is None else before.n_misplaced)
    return Check(
        "resolution",
        "warn" if is_worse else "ok",
        title,
        text,
        safe_bits_text(after.safe().same_ranks) if is_worse else "",
    )


def _checked(
    snapshot: ServedSnapshot, tree: TreeColumns, settings: Settings, visible: Mask, content: str = ""
) -> CheckedTree:
    return CheckedTree(snapshot, tree, settings, visible & tree.engine_tree().is_ranked, content=content)


def _before(review: Review, snapshot: ServedSnapshot, visible: Mask) -> Collisions | None:
    settings = review.settings.algorithm
    if settings.get("name") != "aequus":
        return None
    return _checked(snapshot, review.before, settings, visible).at([int(settings["resolution"])])[0]
