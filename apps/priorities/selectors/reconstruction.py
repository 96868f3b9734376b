"""Numbers of a past instant of which none are stored: computed for one answer, and not stored."""

from __future__ import annotations

from datetime import datetime, timedelta
from threading import Lock

from cachetools import LRUCache

from apps.core import clock
from apps.core.errors import Invalid
from apps.policies.models import Policy
from apps.priorities.models import Snapshot
from apps.priorities.recompute.inputs import first_usage_at, read_fingerprint, state_at
from apps.priorities.recompute.pipeline import compute, load_inputs, pack_result
from apps.priorities.serving import store
from apps.priorities.serving.served_snapshot import ServedSnapshot

CLOSE = timedelta(hours=1)  # a stored snapshot that is at most so much older shows the instant as well
_MOST_KEPT = 4
_kept: LRUCache[tuple[int, str], ServedSnapshot] = LRUCache(_MOST_KEPT)
_lock = Lock()


def reconstruct(policy: Policy, at: datetime) -> ServedSnapshot | None:
    """From the revision, settings, mapping and usage that were current at `at`: equal to a recompute for it.

    Its id is negative: no snapshot in the database has it. None before the first usage, and where the algorithm is of a
    package that fails. The policy has a revision at `at`.
    """
    first_at = first_usage_at()
    if first_at is None or at <= first_at:
        return None
    key = policy.pk, read_fingerprint(policy, as_of=at, state=state_at(policy, at)).digest
    with _lock:  # parts of a page that ask at once wait for one computation
        if key not in _kept:
            try:
                _kept[key] = _computed(policy, at)
            except Invalid:
                return None
        return _kept[key]


def _computed(policy: Policy, at: datetime) -> ServedSnapshot:
    inputs = load_inputs(policy, as_of=at, is_past=True)
    data, digest = pack_result(inputs, compute(inputs))
    row = Snapshot(
        pk=-int(inputs.fingerprint.digest[:12], 16) - 1,
        policy=policy,
        revision_number=inputs.fingerprint.revision,
        as_of=at,
        computed_at=clock.now(),
        data=data,
        digest=digest,
    )
    return store.serve_row(row)
