"""What the factor of a leaf would be with one level at its target, where one number of the whole path decides."""

from __future__ import annotations

from apps.engine.errors import PackageFailed
from apps.engine.explain.skeleton import skeleton
from apps.explain.contrasts import result_of
from apps.priorities.sentences import Said, say
from apps.priorities.serving.lookup_index import ServedSnapshot


def at_target_said(snapshot: ServedSnapshot, leaf: int, level: int) -> list[Said]:
    """Nothing where levels decide, where the level is on target, and where its target can't be met by its own usage."""
    if snapshot.order.explanation.kind != "ratio":
        return []
    try:
        factor = factor_at_target(snapshot, leaf, level)
    except PackageFailed:
        return []
    if factor is None:
        return []
    facts = {"factor": factor, "other_factor": float(snapshot.values.factor[leaf])}
    return [say("forecast.factor_at_target", name=snapshot.tree.name[level], **facts)]


def factor_at_target(snapshot: ServedSnapshot, leaf: int, level: int) -> float | None:
    """The factor of `leaf` if the entry `level` on its path used what brings it to its target, its siblings unchanged.

    With own usage u, of a group that used G: u' = t · (G − u) / (1 − t), all entries below in proportion. Computed by
    the algorithm on the path and its siblings.
    """
    values = snapshot.values
    own, actual, target = (float(column[level]) for column in (values.usage, values.actual, values.target))
    if not (values.has_factor[leaf] and 0 < actual < 1 and 0 < target < 1) or own <= 0:
        return None
    wanted = target * (own / actual - own) / (1.0 - target)
    small = skeleton(result_of(snapshot), leaf, level)
    if wanted <= own:
        computed = small.with_less_usage(level, own - wanted)
    elif leaf == level:
        computed = small.with_more_usage(level, wanted - own)
    else:
        return None  # who below it would use more isn't known
    return float(computed.factor[small.place(leaf)])
