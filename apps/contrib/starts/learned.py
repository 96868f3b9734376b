"""What a scheduler's promises taught so far: stored with each report, and made again from the rows alone."""

from __future__ import annotations

import logging

from django.db import transaction
from django.db.models import Q, QuerySet

from apps.contrib.schedulers.models import Scheduler
from apps.contrib.starts.models import StartPromise, StartState
from apps.contrib.starts.prediction import saved
from apps.contrib.starts.prediction.predictor import Predictor
from apps.contrib.starts.promise_rows import replay_rows
from apps.core.blobs import CorruptBlob

_log = logging.getLogger(__name__)


def locked_state(scheduler: Scheduler) -> StartState:
    """The state of a scheduler, which the caller's transaction changes; a new one has learned nothing."""
    data, digest = saved.save(Predictor())
    fresh = {"data": data, "digest": digest, "opening": data, "opening_digest": digest}
    state, _is_new = StartState.objects.select_for_update(no_key=True).get_or_create(
        scheduler=scheduler, defaults=fresh
    )
    return state


def predictor_of(state: StartState) -> Predictor:
    """Raises CorruptBlob if the stored bytes are damaged or of another format: the next report makes them again."""
    return saved.load(state.data, state.digest)


def readable_predictor(state: StartState) -> Predictor:
    """What is stored, else what the rows teach, whose opening the caller stores with the rest of the state."""
    try:
        return predictor_of(state)
    except CorruptBlob as error:
        _log.warning("What promises of %s taught is made from their rows again: %s", state.scheduler.name, error)
        return rebuilt(state)


def opening_of(state: StartState) -> Predictor:
    """What rows that are no longer there taught. If that can't be read, it is lost: the state begins with the rows."""
    try:
        return saved.load(state.opening, state.opening_digest)
    except CorruptBlob as error:
        _log.warning("What older promises of %s taught is lost: %s", state.scheduler.name, error)
    predictor = Predictor()
    state.opening, state.opening_digest = saved.save(predictor)
    state.opening_seq = 0
    return predictor


def rebuilt(state: StartState) -> Predictor:
    """What the rows alone teach, from where the opening ends to the last report of the state."""
    predictor = opening_of(state)
    replay_rows(predictor, rows_behind_opening(state), after=state.opening_seq, until=state.seq)
    return predictor


def rows_behind_opening(state: StartState) -> QuerySet[StartPromise]:
    """Rows that the opening doesn't know whole: all that a row teaches it has taught when its job has left."""
    is_behind = Q(left_in=None) | Q(left_in__gt=state.opening_seq)
    return StartPromise.objects.filter(is_behind, scheduler=state.scheduler_id)


def is_as_rows_teach(scheduler: Scheduler) -> bool:
    """Whether what is stored is what the rows alone teach; also before the first report."""
    state = StartState.objects.filter(scheduler=scheduler).first()
    return state is None or saved.save(rebuilt(state))[1] == state.digest


def rebuild(scheduler: Scheduler) -> bool:
    """Store what the rows alone teach; returns whether it differs from what was stored."""
    with transaction.atomic():
        Scheduler.objects.select_for_update(no_key=True).get(pk=scheduler.pk)
        state = locked_state(scheduler)
        was = state.digest
        state.data, state.digest = saved.save(rebuilt(state))
        state.save(update_fields=["data", "digest", "opening", "opening_digest", "opening_seq"])
    return state.digest != was
