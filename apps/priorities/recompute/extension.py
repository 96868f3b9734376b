"""A later instant of a stored snapshot, where all usage has only decayed since: its ranks hold, and a row is updated.

Targets don't depend on time, and each algorithm compares fractions of usage, which a common factor doesn't change.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

import numpy as np
from django.db.models import F

from apps.engine import decay
from apps.engine.algorithms import package_of, read_algorithm
from apps.priorities.metering import HOUR_S, window_of
from apps.priorities.models import Snapshot, UnmappedAccounts
from apps.priorities.recompute.fingerprint import Fingerprint
from apps.priorities.recompute.pipeline import Inputs
from apps.priorities.snapshots import is_sound

_SAME = 1e-12  # relative: two factors that differ by less are one, rounded


def newest_row(policy_pk: int) -> Snapshot | None:
    """The newest live snapshot, without its data."""
    return Snapshot.objects.filter(policy_id=policy_pk, is_live=True).defer("data").order_by("-id").first()


def is_computed(row: Snapshot, fingerprint: Fingerprint) -> bool:
    """Whether the snapshot is of the same inputs, possibly at an earlier instant."""
    return replace(fingerprint, as_of=row.as_of).digest == row.fingerprint


def extend(inputs: Inputs, *, at: datetime) -> Snapshot | None:
    """Note that the newest snapshot still holds at the instant of the inputs; None if it has to be computed again.

    Each hour has a snapshot of its own, so that the past is as fine as before. Call it in a transaction.
    """
    row = newest_row(inputs.policy_pk)
    if row is None or row.valid_at >= inputs.as_of or not is_computed(row, inputs.fingerprint):
        return None
    scale = usage_scale(inputs, row.as_of)
    if scale is None or not is_sound(row):  # a damaged one is replaced
        return None
    UnmappedAccounts.objects.filter(snapshot=row).update(usage=F("usage") * (scale / row.usage_scale))
    row.valid_at, row.usage_scale, row.computed_at = inputs.as_of, scale, at
    row.save(update_fields=["valid_at", "usage_scale", "computed_at"])
    return row


def usage_scale(inputs: Inputs, from_at: datetime) -> float | None:
    """Factor by which all usage that counts has changed from an earlier instant to that of the inputs.

    None where there is no such factor: in another hour, while jobs are open, if jobs count by their own times, if usage
    of some hours decays otherwise than that of others, or for an algorithm or operator of another package.
    """
    from_s, to_s = from_at.timestamp(), inputs.as_of.timestamp()
    is_open = bool(len(inputs.opened.account_id))
    if package_of(read_algorithm(inputs.settings.algorithm)):  # it may compare amounts
        return None
    if from_s // HOUR_S != to_s // HOUR_S or is_open or inputs.ended is not None:
        return None
    window = window_of(inputs.settings.window)
    corrected_s = np.array([each.at_s for each in inputs.corrections])
    if (corrected_s > from_s).any():
        return None
    hour_s = np.unique(np.concatenate([inputs.usage.hour_epoch, corrected_s // HOUR_S * HOUR_S]))
    if not len(hour_s):
        return 1.0
    if hour_s[-1] >= from_s:  # usage of the hour that begins at the instant
        return None
    before, after = (decay.bucket_weights(hour_s, at_s, window) for at_s in (from_s, to_s))
    most = int(np.argmax(before))
    scale = float(after[most] / before[most]) if before[most] > 0 else 1.0
    is_same = np.abs(after - scale * before) <= _SAME * after
    return scale if scale > 0 and is_same.all() else None
