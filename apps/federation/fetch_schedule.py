"""Scheduled fetches from peers: conditional, bounded, checked, then applied. The last good document stays active."""

from __future__ import annotations

import logging
from datetime import datetime, timedelta
from typing import Any

from django.db import DatabaseError, InterfaceError
from django.db.models import Q

from apps.core.clock import SKEW
from apps.core.errors import Conflict, DomainError, NotFound
from apps.core.outbound import Answer, Unreachable
from apps.federation import fetch_requests, staleness
from apps.federation.concurrent_fetch import ConcurrentFetch, PendingFetch
from apps.federation.fetch_requests import BAD_OUTCOMES, NOT_FETCHED, AnyRemote, FetchResult
from apps.federation.models import Fetch, Mount, Subscription
from apps.federation.mounts import mount_refresh
from apps.federation.usage_feeds import usage_ingest
from apps.federation.usage_feeds.quarantine import drop_out_of_scope_entries
from apps.runs.fault_points import fault_point
from apps.runs.leases import Lease, LeaseLost, RunCancelled
from apps.runs.models import Run
from apps.runs.services import enqueue_run

__all__ = [
    "BAD_OUTCOMES",
    "KIND",
    "ingest_answer",
    "request_due_fetches",
    "request_fetch",
    "retry_failed_fetches",
    "run_fetch",
]

logger = logging.getLogger(__name__)

KIND = "federation_fetch"
MOST_FETCHES_OF_OWNER = 16  # fetches at once for one person
MOST_FETCH_THREADS = 2  # each waits for over thirty peers at once
_LEAST_RETRY = timedelta(seconds=10)  # the minimum interval of any mount
_PASSED_ON = (DatabaseError, InterfaceError, LeaseLost, RunCancelled)


def request_due_fetches(*, at: datetime) -> int:
    """Enqueue a fetch for each mount and subscription that is due; return their number.

    Idempotent, and safe concurrently.
    """
    staleness.act_on_stale(at)
    drop_out_of_scope_entries(at)
    due: list[AnyRemote] = []
    for table in (Mount, Subscription):
        # the next fetch of one that a clock that was ahead has fetched is as far ahead
        is_due = Q(due_at__lte=at) | Q(due_at__isnull=False, fetched_at__gt=at + SKEW)
        due += table._default_manager.filter(is_due).exclude(state__in=NOT_FETCHED)
    due.sort(key=lambda remote: (remote.due_at or at, remote.pk))
    for remote in due:
        request_fetch(remote, at=at)
    return len(due)


def request_fetch(remote: AnyRemote, *, at: datetime) -> Run:
    """Enqueue a fetch, or return the pending run. Two fetches of the same mount or subscription never run at once."""
    place = "mount" if isinstance(remote, Mount) else "usage"
    return enqueue_run(
        kind=KIND,
        subject=f"{place}:{remote.pk}",
        limit_key=f"user:{remote.made_by_id or ''}",
        arguments={fetch_requests.kind_of(remote): remote.pk},
        at=at,
        max_attempts=3,
    )


def retry_failed_fetches(issuer: str, *, at: datetime) -> int:
    """Retry the failed fetches from the authority that just sent a request, because it is evidently reachable again.

    The name is the caller's claim and proves nothing. A false one only causes an earlier retry, at most every ten
    seconds. Returns the number of requested fetches.
    """
    waiting = {"issuer": issuer, "n_failed__gt": 0, "due_at__gt": at, "fetched_at__lte": at - _LEAST_RETRY}
    remotes: list[AnyRemote] = []
    for table in (Mount, Subscription):
        remotes += table._default_manager.filter(**waiting).exclude(state__in=NOT_FETCHED)
    for remote in remotes:
        request_fetch(remote, at=at)
    return len(remotes)


def run_fetch(run: Run, lease: Lease) -> dict[str, Any]:
    """Handler of `federation_fetch`.

    The current content stays until a good document is applied, whatever the peer does.
    """
    return ConcurrentFetch(KIND, _begin, _settle).work(run, lease)


def _begin(run: Run) -> PendingFetch:
    """Build the request.

    Raises:
        NotFound: it was removed meanwhile.
        Conflict: it is paused, or waits for a manager's decision.
    """
    remote = _load_remote(run)
    if remote.state in NOT_FETCHED:
        why = (
            "it is paused." if remote.state == remote.State.PAUSED else "it is blocked until an administrator decides."
        )
        raise Conflict(f"{remote} isn't fetched: {why}", code=remote.state)
    try:
        question = mount_refresh.request_for(remote) if isinstance(remote, Mount) else usage_ingest.request_for(remote)
    except DomainError as error:
        return PendingFetch(remote, None, failure=error)
    return PendingFetch(remote, question)


def _settle(run: Run, lease: Lease, asked: PendingFetch) -> dict[str, Any]:
    at, remote = lease.clock(), asked.remote
    fetched = _checked_answer(asked, at)
    fault_point("federation.fetch.before_applying")
    with lease.fenced():
        row = _load_remote(run, lock=True)
        if row.state in NOT_FETCHED or _response_basis(row) != _response_basis(remote):
            fetched = FetchResult(message="Its settings changed during the fetch: it is fetched again.")
            row.due_at = at
            row.save(update_fields=["due_at"])
        else:
            _apply(row, fetched, at, asked.took_s)
        result = {"outcome": fetched.outcome, "version": fetched.version, "message": fetched.message}
        fault_point("federation.fetch.before_commit")
        lease.finish(result, lease.clock())
    return result


def ingest_answer(remote: AnyRemote, answer: Answer, *, at: datetime) -> FetchResult:
    """Process a received response: check it, apply it, record it."""
    fetched = _checked_answer(PendingFetch(remote, None, answer=answer), at)
    _apply(remote, fetched, at, 0.0)
    return fetched


def _apply(remote: AnyRemote, fetched: FetchResult, at: datetime, took_s: float) -> None:
    is_behind = False
    if isinstance(remote, Mount):
        mount_refresh.apply(remote, fetched, at)
    else:
        is_behind = usage_ingest.apply(remote, fetched, at)
    fetch_requests.record_fetch(remote, fetched, at, took_s, is_behind=is_behind)


def _load_remote(run: Run, *, lock: bool = False) -> AnyRemote:
    table = Subscription if "subscription" in run.arguments else Mount
    rows = table._default_manager.select_related("policy")
    if lock:
        rows = rows.select_for_update(of=("self",), no_key=True)
    remote = rows.filter(pk=run.arguments.get(table._meta.model_name, 0)).first()
    if remote is None:
        raise NotFound("What was mounted or subscribed to there has been taken away.")
    return remote


def _checked_answer(asked: PendingFetch, at: datetime) -> FetchResult:
    """Run all checks that need no lock: signature, format, acceptance."""
    fetched = FetchResult()
    try:
        if asked.failure is not None:
            raise asked.failure
        answer, remote = asked.answer, asked.remote
        assert answer is not None  # noqa: S101 - otherwise there is a failure
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
        logger.exception("A document of %s can't be read.", asked.remote)  # a bug of this site
        fetched.refuse("unreadable", "It can't be read; the log of this site says where.")
    return fetched


def _response_basis(remote: AnyRemote) -> tuple[Any, ...]:
    """The state that a response is checked against; if it changed during the fetch, the response is discarded."""
    return (
        remote.url,
        mount_refresh.trusted_state_of(remote) if isinstance(remote, Mount) else usage_ingest.trusted_state_of(remote),
        remote.state == remote.State.FROZEN,
    )
