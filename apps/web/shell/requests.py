"""Helpers for views: the acting user, fragments of pages, redirects and CSV downloads."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from functools import cached_property, wraps
from io import StringIO
from itertools import chain, islice
from typing import Any, TypeVar, cast

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django_htmx.middleware import HtmxDetails

from apps.accounts.actor import Actor
from apps.accounts.models import User
from apps.core.csv_columns import csv_lines
from apps.core.errors import NotFound, Unavailable
from apps.core.tables import escape_formula
from apps.federation.grid.peers import may_federate
from apps.policies.access.managers import manages, manages_any
from apps.policies.access.scope import Rights, Verb, holds_a_role
from apps.policies.models import Policy
from apps.policies.requests.group_division import manages_any_group
from apps.priorities.serving import store
from apps.priorities.visible_entries import visible_in

__all__ = [
    "SeeOther",
    "View",
    "Visitor",
    "actor_of",
    "csv_response",
    "csv_response_by_columns",
    "escape_formula",
    "fragment",
    "is_htmx",
    "private",
]
View = Callable[..., HttpResponse]
Response = TypeVar("Response", bound=HttpResponseBase)
_LINES_AT_ONCE = 500  # of a CSV file


def actor_of(request: HttpRequest) -> Actor:
    """The signed-in user, acting through a page. Views require sign-in, so there is always one."""
    return Actor(
        user=cast(User, request.user),
        via="page",
        request_id=request.headers.get("X-Request-ID", "")[:64],
        address=request.META.get("REMOTE_ADDR") or None,
    )


class Visitor:
    """The reader of a page, with the facts that decide which tabs they are shown. policy: the one that is shown."""

    def __init__(self, *, at: datetime, actor: Actor, policy: Policy | None) -> None:
        self.at, self.actor, self.policy = at, actor, policy

    @cached_property
    def is_plain(self) -> bool:
        """A user without any role."""
        return not holds_a_role(at=self.at, actor=self.actor)

    @cached_property
    def leads(self) -> bool:
        return manages_any_group(at=self.at, actor=self.actor)

    @cached_property
    def has_role(self) -> bool:
        return not self.is_plain

    @cached_property
    def has_group(self) -> bool:
        """Whether there may be a group of theirs: one that they lead, or that of their account."""
        return self.is_plain or self.leads

    @cached_property
    def names_accounts(self) -> bool:
        """Whether they may see user names somewhere; the page asks where."""
        return self.leads or self.actor.is_admin

    @cached_property
    def manages(self) -> bool:
        """Whether they manage a whole policy."""
        return manages_any(at=self.at, actor=self.actor)

    @cached_property
    def federates(self) -> bool:
        return may_federate(at=self.at, actor=self.actor)

    @cached_property
    def edits(self) -> bool:
        """Whether they may change something in the shown policy."""
        if self.policy is None or self.policy.archived_at is not None:
            return False
        rights = Rights(self.policy, self.actor, self.at)
        return self.actor.administers or bool(rights.at(Verb.EDIT_SHARES, Verb.EDIT_STRUCTURE))

    @cached_property
    def manages_policy(self) -> bool:
        """Whether they manage the whole shown policy."""
        if self.policy is None or not self.edits:
            return False
        return self.actor.administers or manages(self.policy, self.actor, self.at)

    @cached_property
    def reads_whole(self) -> bool:
        """Whether they see the whole tree of the shown policy."""
        return self.policy is not None and (self.actor.is_admin or self.policy.visibility == Policy.Visibility.TREE)

    @cached_property
    def sees_entries(self) -> bool:
        """Whether they see any entry of the shown policy; also while that can't be decided."""
        if self.policy is None or self.reads_whole:
            return self.policy is not None
        try:
            snapshot = store.newest(self.policy.slug, poll=False)
        except (NotFound, Unavailable):  # nothing was computed yet
            return True
        return bool(visible_in(policy=self.policy, snapshot=snapshot, at=self.at, actor=self.actor)[0])


def private(response: Response) -> Response:
    """Forbid caches to store a response with personal data."""
    response["Cache-Control"] = "private, no-store"
    return response


class SeeOther(HttpResponseRedirect):
    """303: redirect to a GET after any method."""

    status_code = 303


def is_htmx(request: HttpRequest) -> bool:
    return bool(cast("HtmxDetails | None", getattr(request, "htmx", None)))


def fragment(page: Callable[..., str]) -> Callable[[View], View]:
    """Decorator for views that return a part of a page: without htmx they redirect to the page, `page(**kwargs)`."""

    def decorate(view: View) -> View:
        @wraps(view)
        def answer(request: HttpRequest, **kwargs: Any) -> HttpResponse:
            if request.method in {"GET", "HEAD"} and not is_htmx(request):
                return SeeOther(page(**kwargs))
            return view(request, **kwargs)

        return answer

    return decorate


def csv_response(file_name: str, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> StreamingHttpResponse:
    """A streamed CSV file, so that a million rows need no memory. Numbers stay numbers; formulas are escaped."""
    return _csv_file(file_name, _lines(header, rows))


def csv_response_by_columns(
    file_name: str, header: Sequence[str], blocks: Iterable[Sequence[Sequence[Any]]]
) -> StreamingHttpResponse:
    """`csv_response` of blocks of rows, each given by its columns, which takes half of the time."""
    head = csv_lines([[name] for name in header])
    return _csv_file(file_name, chain([head], map(csv_lines, blocks)))


def _csv_file(file_name: str, pieces: Iterable[str]) -> StreamingHttpResponse:
    response = StreamingHttpResponse(pieces, content_type="text/csv; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="{file_name}"'
    return private(response)


def _lines(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> Iterator[str]:
    """Many at a time: a piece of a response takes longer than a line."""
    left = chain([header], rows)
    while some := list(islice(left, _LINES_AT_ONCE)):
        lines = StringIO(newline="")
        cells = ([escape_formula(cell) if isinstance(cell, str) else cell for cell in row] for row in some)
        csv.writer(lines, quoting=csv.QUOTE_NONNUMERIC).writerows(cells)
        yield lines.getvalue()
