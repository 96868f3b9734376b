"""Base class of all views of REST v1: POST and PUT support `Idempotency-Key`."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any, ClassVar, Literal

from django.db import IntegrityError, transaction
from django.http import HttpResponse, HttpResponseBase
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import views
from rest_framework.permissions import SAFE_METHODS
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.actor import Actor
from apps.accounts.idempotency import get_stored_answer, store_answer
from apps.core import clock
from apps.core.errors import Conflict, DomainError, FieldProblem, NotAllowed, NotFound
from apps.policies.access.scope import rights_digest
from apps.web.rest.authentication import actor_of
from apps.web.rest.errors import Refusal
from apps.web.rest.inputs import refuse_unknown
from apps.web.rest.rendering import dumps

HEADER = "Idempotency-Key"
REPLAYED = "Idempotency-Replayed"
KEY_PARAMETER = OpenApiParameter(
    HEADER,
    str,
    OpenApiParameter.HEADER,
    description="1 to 128 printable characters. A repeated request within 30 days returns the first answer and changes "
    "nothing; with another body, 409 (`idempotency_key_reused`).",
)
_STORED_HEADERS = ("ETag", "Location", "Content-Type")
Handler = Callable[..., HttpResponseBase]


class APIView(views.APIView):
    """A view with scopes for tokens, and idempotency keys.

    on_repeat: what happens to a POST or PUT with a known key. `answer` returns the stored answer. `refuse` is for
    answers with a secret, which are not stored. `work` runs the view again: it stores nothing, or uses the key itself.

    reach: what a route without a policy or source in its path is about. `site`: the whole site, which is outside the
    bounds of every bound token. `objects`: the services ask the bounds for each object, or there is none.
    """

    on_repeat: ClassVar[Literal["answer", "refuse", "work"]] = "answer"
    reach: ClassVar[Literal["site", "objects"]] = "site"

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        if request.query_params and request.method != "OPTIONS" and (handler := _handler_of(self)):
            # Names of query parameters that the description of the operation has; the view reads no others.
            if handler.__func__ not in _names_of:
                schema = handler.kwargs["schema"]()
                schema.view = self
                _names_of[handler.__func__] = tuple(_described_names(schema.get_override_parameters()))
            refuse_unknown(request.query_params, _names_of[handler.__func__])
        if request.method not in SAFE_METHODS:
            self.before_body(request, **kwargs)

    def before_body(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """Refuse who lacks a right that the address decides, where a long body would be read and parsed first."""

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        for method in {"post", "put"} & set(cls.__dict__) if cls.on_repeat != "work" else ():
            setattr(cls, method, _with_keys(cls.__dict__[method]))


def _handler_of(view: APIView) -> Any:
    """The view's method for the request; None for a method that it doesn't have, which is refused later."""
    method = str(view.request.method).lower()
    return getattr(view, "get" if method == "head" else method, None) if method in view.http_method_names else None


_names_of: dict[Any, tuple[str, ...]] = {}  # by handler


def _described_names(parameters: list[Any]) -> Iterator[str]:
    for each in parameters:
        if not isinstance(each, OpenApiParameter):
            yield from (each() if isinstance(each, type) else each).fields
        elif each.location == OpenApiParameter.QUERY:
            yield each.name


def key_of(request: Request) -> str | None:
    key = request.headers.get(HEADER)
    if key is not None and not (0 < len(key) <= 128 and key.isprintable()):
        message = "must have 1 to 128 printable characters"
        raise Refusal(f"{HEADER} {message}.", code="invalid", fields=[FieldProblem(HEADER, message)])
    return key


def _with_keys(handler: Handler) -> Handler:
    @wraps(handler)
    def wrapped(view: APIView, request: Request, *args: Any, **kwargs: Any) -> HttpResponseBase:
        key = key_of(request)
        if key is None:
            return handler(view, request, *args, **kwargs)
        return _run_once(
            key, request, lambda: handler(view, request, *args, **kwargs), keeps_body=view.on_repeat == "answer"
        )

    described: Handler = extend_schema(parameters=[KEY_PARAMETER])(wrapped)
    return described


def _run_once(
    key: str, request: Request, handle: Callable[[], HttpResponseBase], *, keeps_body: bool
) -> HttpResponseBase:
    """Run the view once for the key, and store its answer in the same transaction. Refusals are not stored.

    A key belongs to the person and to the scopes and bounds of the token: others run the view for themselves. If the
    person's rights have changed since, the stored answer is shown only if the view would allow it now.
    """
    actor, now = actor_of(request), clock.now()
    rights = rights_digest(actor, now)
    key_fields = {
        "scope": f"{request.user.pk} {_reach_digest(actor)} {request.method} {request.path}"[:512],
        "key": key,
        "body_sha256": _body_digest(request),
    }
    refusal: DomainError | None = None
    with transaction.atomic():
        first = get_stored_answer(**key_fields, at=now)
        try:
            if first is not None:
                if first["rights"] != rights:
                    _ask_again(handle)
                return _replayed(first)
            response = handle()
            answer = {**_stored(response, keeps_body=keeps_body), "rights": rights}
            store_answer(**key_fields, answer=answer, at=now)
        except DomainError as error:  # the audit row of the refusal is committed
            refusal = error
    if refusal is not None:
        raise refusal
    return response


def _ask_again(handle: Callable[[], HttpResponseBase]) -> None:
    """Run the view and undo it, to see whether it is allowed now. Other refusals follow from what the first run did.

    Raises:
        NotAllowed, NotFound: as the view does; its audit row stays.
    """
    place = transaction.savepoint()
    try:
        handle()
    except (NotAllowed, NotFound):
        transaction.savepoint_commit(place)
        raise
    except (DomainError, IntegrityError):
        pass
    transaction.savepoint_rollback(place)


def _reach_digest(actor: Actor) -> str:
    """Of the scopes and bounds of a token; empty for a session."""
    if actor.token is None:
        return ""
    reach = [*sorted(actor.token.scopes), *actor.token.bounds]
    return hashlib.sha256(repr(reach).encode()).hexdigest()[:16]


def _body_digest(request: Request) -> str:
    data: Any = request.data
    parts = [request.META.get("QUERY_STRING", ""), data if isinstance(data, bytes) else dumps(data)]
    return hashlib.sha256(b"\n".join(part if isinstance(part, bytes) else part.encode() for part in parts)).hexdigest()


def _stored(response: HttpResponseBase, *, keeps_body: bool) -> dict[str, Any]:
    if not keeps_body:
        return {"status": response.status_code}
    headers = {name: response[name] for name in _STORED_HEADERS if name in response}
    if isinstance(response, Response):  # not rendered yet
        body = b"" if response.status_code == 204 else dumps(response.data)
        headers["Content-Type"] = "application/json"
    else:
        assert isinstance(response, HttpResponse)  # noqa: S101 - streaming views have on_repeat "work"
        body = response.content
    return {"status": response.status_code, "headers": headers, "body": body.decode()}


def _replayed(first: dict[str, Any]) -> HttpResponse:
    if "body" not in first:
        message = "A request with this key was already executed. Its answer contains a secret and was not stored."
        raise Conflict(message, code="idempotency_key_used")
    response = HttpResponse(first["body"], status=first["status"])
    for name, value in first["headers"].items():
        response[name] = value
    response[REPLAYED] = "true"
    return response
