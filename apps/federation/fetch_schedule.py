"""Scheduled fetches from peers: conditional, bounded, checked, then applied; the last good document stays."""

from __future__ import annotations

import logging
from datetime import datetime, timedelta
from typing import Any

from django.db import DatabaseError, InterfaceError

from apps.core.errors import Conflict, DomainError, NotFound
from apps.core.outbound import Answer, Unreachable
from apps.federation import fetch_requests, staleness
from apps.federation.fetch_requests import BAD_OUTCOMES, NOT_FETCHED, Asked, ConcurrentFetch, FetchResult, Other
from apps.federation.models import Fetch, Mount, Subscription
from apps.federation.mounts import mount_refresh
from apps.federation.usage_feeds import usage_ingest
from apps.federation.usage_feeds.quarantine import drop_out_of_scope_entries
from apps.runs.fault_points import fault_point
from apps.runs.leases import Lease, LeaseLost, RunCancelled
from apps.runs.models import Run
from apps.runs.services import enqueue_run

__all__ = ["BAD_OUTCOMES", "KIND", "ask_for", "ask_for_due", "fetch_back", "ingest_answer", "work_fetch"]

logger = logging.getLogger(__name__)

KIND = "federation_fetch"
_LEAST_RETRY = timedelta(seconds=10)  # the least interval of any mount
_PASSED_ON = (DatabaseError, InterfaceError, LeaseLost, RunCancelled)


def ask_for_due(*, at: datetime) -> int:
    """A run for each mount and each feed whose time has come; safe to run twice and at once."""
    staleness.act_on_stale(at)
    drop_out_of_scope_entries(at)
    due: list[Other] = []
    for table in (Mount, Subscription):
        due += table._default_manager.filter(due_at__lte=at).exclude(state__in=NOT_FETCHED)
    due.sort(key=lambda remote: (remote.due_at or at, remote.pk))
    for remote in due:
        ask_for(remote, at=at)
    return len(due)


def ask_for(remote: Other, *, at: datetime) -> Run:
    """Joins one that waits already; two of a mount or a feed never work at once."""
    place = "mount" if isinstance(remote, Mount) else "usage"
    arguments = {fetch_requests.kind_of(remote): remote.pk}
    return enqueue_run(kind=KIND, subject=f"{place}:{remote.pk}", arguments=arguments, at=at, max_attempts=3)


def fetch_back(issuer: str, *, at: datetime) -> int:
    """Fetch what last failed of the authority that asks us just now: it is back, long before the next try is due.

    Its name is what the caller says, and proves nothing: all that a wrong one does is an earlier try, at most one
    every ten seconds. Returns how many were requested.
    """
    waiting = {"issuer": issuer, "n_failed__gt": 0, "due_at__gt": at, "fetched_at__lte": at - _LEAST_RETRY}
    found: list[Other] = []
    for table in (Mount, Subscription):
        found += table._default_manager.filter(**waiting).exclude(state__in=NOT_FETCHED)
    for remote in found:
        ask_for(remote, at=at)
    return len(found)


def work_fetch(run: Run, lease: Lease) -> dict[str, Any]:
    """Handler of `federation_fetch`. The current content stays until a good document lands, whatever the peer does."""
    return ConcurrentFetch(KIND, _begin, _settle).work(run, lease)


def _begin(run: Run) -> Asked:
    """Raises:
    NotFound: it was removed meanwhile.
    Conflict: it is paused, or waits for a manager's decision.
    """
    remote = _found(run)
    if remote.state in NOT_FETCHED:
        message = f"{remote}: it isn't fetched, because it is {remote.get_state_display().lower()}."
        raise Conflict(message, code=remote.state)
    try:
        question = (
            mount_refresh.question_for(remote) if isinstance(remote, Mount) else usage_ingest.question_for(remote)
        )
    except DomainError as error:
        return Asked(remote, None, failure=error)
    return Asked(remote, question)


def _settle(run: Run, lease: Lease, asked: Asked) -> dict[str, Any]:
    at, remote = lease.clock(), asked.remote
    fetched = _checked_answer(asked, at)
    fault_point("federation.fetch.before_landing")
    with lease.fenced():
        row = _found(run, lock=True)
        if row.state in NOT_FETCHED or _basis(row) != _basis(remote):
            fetched = FetchResult(message="Its settings changed during the fetch: it is fetched again.")
            row.due_at = at
            row.save(update_fields=["due_at"])
        else:
            _land(row, fetched, at, asked.took_s)
        result = {"outcome": fetched.outcome, "version": fetched.version, "message": fetched.message}
        fault_point("federation.fetch.before_commit")
        lease.finish(result, lease.clock())
    return result


def ingest_answer(remote: Other, answer: Answer, *, at: datetime) -> FetchResult:
    """Process an answer that has been received: check it, apply it, record it."""
    fetched = _checked_answer(Asked(remote, None, answer=answer), at)
    _land(remote, fetched, at, 0.0)
    return fetched


def _land(remote: Other, fetched: FetchResult, at: datetime, took_s: float) -> None:
    is_behind = False
    if isinstance(remote, Mount):
        mount_refresh.apply(remote, fetched, at)
    else:
        is_behind = usage_ingest.apply(remote, fetched, at)
    fetch_requests.note(remote, fetched, at, took_s, is_behind=is_behind)


def _found(run: Run, *, lock: bool = False) -> Other:
    table = Subscription if "subscription" in run.arguments else Mount
    rows = table._default_manager.select_related("policy")
    if lock:
        rows = rows.select_for_update(of=("self",))
    remote = rows.filter(pk=run.arguments.get(table._meta.model_name, 0)).first()
    if remote is None:
        raise NotFound("What was mounted or subscribed to there has been taken away.")
    return remote


def _checked_answer(asked: Asked, at: datetime) -> FetchResult:
    """Everything that needs no lock: check the signature, read."""
    fetched = FetchResult()
    try:
        if asked.failure is not None:
            raise asked.failure
        answer, remote = asked.answer, asked.remote
        assert answer is not None  # noqa: S101 - else there is a failure
        fetched.n_bytes, fetched.etag = len(answer.body), fetch_requests.etag_of(answer)
        read = mount_refresh.read_answer if isinstance(remote, Mount) else usage_ingest.read_answer
        read(remote, answer, fetched, at)
    except Unreachable as error:
        fetched.refuse(error.code, error.message, outcome=Fetch.Outcome.UNREACHABLE)
    except _PASSED_ON:
        raise
    except DomainError as error:
        fetched.refuse(error.code, error.message)
    except (ValueError, ArithmeticError, LookupError, TypeError, RecursionError):
        logger.exception("A document of %s can't be read.", asked.remote)  # a fault of ours
        fetched.refuse("unreadable", "It can't be read; the log of this site says where.")
    return fetched


def _basis(remote: Other) -> tuple[Any, ...]:
    """What an answer is judged by: another one now, and the answer means nothing."""
    return (
        remote.url,
        mount_refresh.trusted_of(remote) if isinstance(remote, Mount) else usage_ingest.trusted_of(remote),
        remote.state == remote.State.FROZEN,
    )
