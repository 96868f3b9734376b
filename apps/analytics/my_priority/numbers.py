"""The numbers of one figure of *My priority*, by its name: one place for page and REST."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from apps.accounts.actor import Actor
from apps.analytics.forecast import Forecast, get_my_forecast
from apps.analytics.my_priority.queue_wait import get_my_waits
from apps.analytics.my_priority.rank_distribution import get_my_place
from apps.analytics.my_priority.rank_history import get_my_rank_history
from apps.analytics.my_priority.records import MyPlace, MyWaits, RankHistory
from apps.core.errors import NotFound

MyNumbers = RankHistory | Forecast | MyPlace | MyWaits


def get_my_numbers(
    name: str, *, policy_slug: str, entry_uid: UUID, actor: Actor, at: datetime, n_days: int = 0,
    share: float | None = None,
) -> MyNumbers:  # fmt: skip
    """n_days: of `rank` and `waits`, how far back. share: of `forecast`, 0..1, None for that of the last days.

    Raises:
        NotFound: there are no such numbers, or none of the actor's accounts leads to the entry.
        Unavailable: nothing has been computed yet.
    """
    if name == "rank":
        return get_my_rank_history(policy_slug=policy_slug, entry_uid=entry_uid, n_days=n_days, actor=actor, at=at)
    if name == "waits":
        return get_my_waits(policy_slug=policy_slug, entry_uid=entry_uid, n_days=n_days, actor=actor, at=at)
    if name == "places":
        return get_my_place(policy_slug=policy_slug, entry_uid=entry_uid, actor=actor, at=at)
    if name not in {"forecast", "factor"}:
        raise NotFound(f"There are no numbers {name[:80]!r} of an account.")
    found = get_my_forecast(policy_slug=policy_slug, entry_uid=entry_uid, share=share, actor=actor, at=at)
    if found is None:
        raise NotFound("There is no such account in this policy.")
    return found
