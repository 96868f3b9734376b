"""Daily series made by hand, for what reads them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, timedelta
from uuid import UUID

import numpy as np

from apps.series.daily_series import DailySeries, SeriesDays


def made_series(
    target: Sequence[float],
    used: Sequence[Sequence[float]],
    waited: Sequence[Sequence[float]],
    *,
    first_on: date = date(2026, 10, 1),
    knows: bool = True,
    days: Sequence[date] = (),
) -> DailySeries:
    """Siblings by days; all there and competing, with usage that doesn't age."""
    use, wait = np.array(used, dtype=np.float64), np.array(waited, dtype=np.float64)
    n, n_days = use.shape
    on = tuple(days) or tuple(first_on + timedelta(days=at) for at in range(n_days))
    peers = np.broadcast_to(use.sum(axis=0), use.shape).copy()
    targets = np.repeat(np.array(target, dtype=np.float64)[:, None], n_days, axis=1)
    yes = np.ones((n, n_days), dtype=np.bool_)
    return DailySeries(
        uids=tuple(UUID(int=at + 1) for at in range(n)),
        days=SeriesDays(
            on=on,
            ends_s=np.zeros(n_days),
            revision=np.ones(n_days, np.int32),
            is_before_first=np.zeros(n_days, np.bool_),
            root_used=peers[0],
            root_decayed=peers[0],
        ),
        used=use,
        peers_used=peers,
        decayed=use,
        peers_decayed=peers,
        target=targets,
        target_global=targets,
        exists=yes,
        competes=yes,
        waited_core_s=wait,
        knows_waiting=yes & knows,
        n_active=np.ones((n, n_days), np.int32),
        largest=use,
    )
