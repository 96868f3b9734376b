"""Forecasts of the balance of several entries of a policy at present demand, cached while a user tries shares."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from threading import Lock
from uuid import UUID

from cachetools import LRUCache, cached

from apps.contrib.forecast.entry_forecast import Outlook, forecast_level, needs_hourly_usage
from apps.contrib.forecast.past_usage import load_past
from apps.contrib.forecast.selectors import level_state
from apps.core.derived_state import in_memory
from apps.policies.models import Policy
from apps.priorities.metering import has_known_decay, window_of
from apps.priorities.serving.served_snapshot import ServedSnapshot, snapshot_key

DERIVED_STATE = (
    in_memory(
        "_forecasts",
        holds="forecasts of entries",
        key="slug, id and last instant of the snapshot, entries",
        inputs="the snapshot, and usage up to its instant",
        range="the snapshot's instant",
        ends="the newest ones push it out; a snapshot of another instant has another key",
    ),
)

_MOST_CACHED_FORECASTS = 16


def forecasts_of(policy: Policy, snapshot: ServedSnapshot, uids: Sequence[UUID]) -> Mapping[UUID, Outlook]:
    """Return forecasts for the entries that compete in the snapshot; empty if recent usage is unknown.

    The caller removes hidden entries. Independent of targets, so that it is cached while a user tries shares.
    """
    return _forecasts(policy, snapshot, tuple(sorted(uids)))


@cached(
    LRUCache(_MOST_CACHED_FORECASTS),
    key=lambda policy, snapshot, uids: (*snapshot_key(policy, snapshot), uids),
    lock=Lock(),
)
def _forecasts(policy: Policy, snapshot: ServedSnapshot, uids: tuple[UUID, ...]) -> dict[UUID, Outlook]:
    indices = [(uid, i) for uid in uids if (i := snapshot.tree.index_of_uid(uid))]
    states = [(uid, i, state) for uid, i in indices if (state := level_state(snapshot, i)) is not None]
    if not states or not has_known_decay(snapshot.settings.window):
        return {}
    window = window_of(snapshot.settings.window)
    pasts = load_past(policy, snapshot, [i for _uid, i, _state in states], hourly=needs_hourly_usage(window))
    if pasts is None:
        return {}
    as_of_s = snapshot.as_of.timestamp()
    return {
        uid: forecast_level(state, past, window, as_of_s=as_of_s)
        for (uid, _i, state), past in zip(states, pasts, strict=True)
    }
