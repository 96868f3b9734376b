"""Refused changes in the audit log, one row each: who wanted what, and why it was refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime
from functools import partial, wraps
from typing import Any, ParamSpec, TypeVar, cast

from apps.accounts.actor import Actor
from apps.accounts.audit_log import record
from apps.accounts.models import AuditEvent
from apps.core.errors import NotAllowed
from apps.core.postgresql import after_transaction

P = ParamSpec("P")
T = TypeVar("T")
_n_written: ContextVar[int] = ContextVar("rows of refusals that this thread has asked for", default=0)
_wanted: ContextVar[dict[str, Any] | None] = ContextVar("what the outermost block wants", default=None)


@contextmanager
def refusals_on_record(verb: str, actor: Actor, at: datetime, **event: Any) -> Iterator[None]:
    """Log a `NotAllowed` and let it pass. event: further columns of the row.

    Of blocks inside each other the outermost says what was wanted. The row is written once, after the outermost
    transaction, which the refusal may roll back.
    """
    wanted = _wanted.get() or {"verb": verb, "actor": actor, "at": at, **event}
    outer = _wanted.set(wanted)
    try:
        yield
    except NotAllowed as error:
        if not error.is_on_record:
            error.is_on_record = True
            put_on_record(reason=error.message, **wanted)
        raise
    finally:
        _wanted.reset(outer)


def logs_refusals(verb: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """A service, called by keywords, whose refusals are logged with the policy or change set that it is called for."""

    def decorate(service: Callable[P, T]) -> Callable[P, T]:
        @wraps(service)
        def logged(*args: P.args, **given: P.kwargs) -> T:
            actor, at = cast(Actor, given["actor"]), cast(datetime, given["at"])
            slug = str(given.get("policy_slug") or given.get("slug") or "")[:64]
            subject = f"change set {given['id']}" if "id" in given else slug
            with refusals_on_record(verb, actor, at, policy_slug=slug, subject=subject):
                return service(*args, **given)

        return logged

    return decorate


def put_on_record(*, verb: str, actor: Actor, at: datetime, reason: str, **event: Any) -> None:
    _n_written.set(_n_written.get() + 1)
    refused = AuditEvent.Outcome.REFUSED
    after_transaction(partial(record, verb=verb, outcome=refused, reason=reason, actor=actor, at=at, **event))


def n_put_on_record() -> int:
    """By this thread so far, so that a caller sees whether a service has done it."""
    return _n_written.get()
