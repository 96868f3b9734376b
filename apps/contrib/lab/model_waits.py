"""Whether a replay's machine explains the waits of history: where it doesn't, no difference of its variants is real."""

from __future__ import annotations

LEAST_PART = 0.5  # of the waiting in history that the replay must have
SHORT_WAIT_S = 600.0  # waits of this length on average decide nothing


def explains_waits(wait_s: float | None, model_wait_s: float | None) -> bool:
    """From mean waits in history and in the replay; None: not known, which refutes nothing.

    Jobs that waited for something else than processors (a partition, a licence, a limit of a user) start at once in a
    replay that knows processors alone.
    """
    if wait_s is None or model_wait_s is None:
        return True
    return wait_s <= SHORT_WAIT_S or model_wait_s >= LEAST_PART * wait_s
