"""What of a job's benefit is in the books, by its state: the one rule by which every step books or takes back."""

from __future__ import annotations

from apps.gateway.models import Job, Ledger

_FROM = {Ledger.BookedAt.SUBMIT: (Job.State.DECIDED, Job.State.STARTED), Ledger.BookedAt.START: (Job.State.STARTED,)}


def booked_amount(*, state: str, benefit: float, before: float, booked_at: str, is_held: bool, is_fair: bool) -> float:
    """The benefit that the books have of a job in this state.

    benefit: estimated until the job has finished, measured then. before: what is booked now. is_held: the benefit
    counts while the job runs. is_fair: not of a priority group.
    """
    if not is_fair:
        return 0.0
    match state:
        case Job.State.FINISHED:
            return 0.0 if is_held else benefit
        case Job.State.CANCELLED:
            return 0.0
        case Job.State.LOST:  # of one that ran, what was booked stays; nobody will measure it
            return 0.0 if is_held else before
    return benefit if state in _FROM.get(Ledger.BookedAt(booked_at), ()) else 0.0
