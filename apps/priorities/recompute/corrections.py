"""Corrections of usage that count at an instant."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import numpy as np
import numpy.typing as npt
from django.db.models import Q

from apps.engine import decay
from apps.engine.decay_functions import BUCKET_S
from apps.policies.models import Adjustment, Policy
from apps.policies.tree.columns import TreeColumns

F8 = npt.NDArray[np.float64]
_HOUR_S = BUCKET_S


@dataclass(frozen=True, slots=True)
class Correction:
    """One active adjustment: seconds of a resource (below 0: a refund), as if used in the hour of `at_s`."""

    uid: UUID
    entry_uid: UUID
    resource: str
    amount_s: float
    at_s: float
    note: str = ""


def load_corrections(policy: Policy, revision: int) -> tuple[Correction, ...]:
    """Adjustments active in a revision, sorted by uid so that the order doesn't depend on the database."""
    rows = Adjustment.objects.filter(policy=policy, since__lte=revision).filter(Q(until=None) | Q(until__gt=revision))
    values = rows.values_list("uid", "entry_uid", "resource", "amount_s", "at", "note")
    ordered = sorted(values, key=lambda row: str(row[0]))
    return tuple(
        Correction(uid, entry, what, amount, at.timestamp(), note) for uid, entry, what, amount, at, note in ordered
    )


def correction_amounts(
    corrections: Sequence[Correction], *, metric: Mapping[str, Any], window: decay.Window, as_of_s: float
) -> F8:
    """Amount of each correction at `as_of_s` in the metric's unit: amount × weight of its resource × decay.

    0 before the instant of the correction.
    """
    if not corrections:
        return np.zeros(0)
    hour_s = np.array([each.at_s // _HOUR_S * _HOUR_S for each in corrections])
    amount = np.array([metric["weights"].get(each.resource, 0.0) * each.amount_s for each in corrections])
    amount[np.array([each.at_s for each in corrections]) > as_of_s] = 0.0
    counted: F8 = amount * decay.bucket_weights(hour_s, as_of_s, window) + 0.0  # no −0
    return counted


def corrections_json(tree: TreeColumns, corrections: Sequence[Correction], counted: F8) -> list[dict[str, Any]]:
    """Corrections with an amount other than 0, as the snapshot stores them; `counted` is in the metric's unit."""
    return [
        {
            "uid": str(each.uid),
            "entry": str(each.entry_uid),
            "resource": each.resource,
            "amount_s": each.amount_s,
            "at_s": each.at_s,
            "note": each.note,
            "counted": amount,
        }
        for each, amount in zip(corrections, counted.tolist(), strict=True)
        if amount and tree.index_of_uid(each.entry_uid) is not None
    ]


def apply_corrections(tree: TreeColumns, own: F8, corrections: Sequence[Correction], counted: F8) -> F8:
    """Add corrections to the entries' own usage (n,); no usage falls below 0.

    Added usage belongs to the entry itself, also if it is a group. A refund reduces the entry and all entries below in
    proportion to their usage, so that their relative shares stay. Refunds of deeper entries are applied first.
    """
    net: dict[int, float] = {}
    for each, amount in zip(corrections, counted.tolist(), strict=True):
        at = tree.index_of_uid(each.entry_uid)
        if at is not None and amount:
            net[at] = net.get(at, 0.0) + amount
    if not net:
        return own
    own = own.copy()
    for at, amount in net.items():
        own[at] += max(amount, 0.0)
    for at in sorted((at for at, amount in net.items() if amount < 0), reverse=True):
        below = tree.subtree(at)
        total = sum(float(own[level.start : level.stop].sum()) for level in below)
        left = max(total + net[at], 0.0)
        for level in below:
            own[level.start : level.stop] *= left / total if total > 0 else 1.0
    return own
