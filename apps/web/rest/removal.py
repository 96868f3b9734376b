"""Preview, archive and restore policies and usage sources. Removing one is DELETE on the policy or the source."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.core import clock
from apps.mapping import removal
from apps.web import bounds
from apps.web.rest.authentication import POLICIES_WRITE, USAGE_WRITE, Scopes, actor_of
from apps.web.rest.inputs import read_body
from apps.web.rest.records import serializer_of
from apps.web.rest.shapes import UtcTimeField
from apps.web.rest.views import APIView

Kind = Literal["policy", "source"]
_SCOPES: dict[Kind, frozenset[str]] = {"policy": frozenset({POLICIES_WRITE}), "source": frozenset({USAGE_WRITE})}
_PREVIEWS: dict[Kind, str] = {
    "policy": "Objects that depend on a policy, and the effects of removing or archiving it. For administrators.",
    "source": "Objects that depend on a usage source, and the effects of removing or archiving it. For administrators.",
}
# By operation: the service, and the description in OpenAPI.
_CHANGES: dict[str, tuple[Kind, Callable[..., Any], str]] = {
    "archive_policy": (
        "policy",
        removal.archive_policy,
        "Archive a policy: look-ups answer 410, nothing is computed, its history stays readable. For administrators.",
    ),
    "restore_policy": (
        "policy",
        removal.restore_policy,
        "Restore an archived policy: it is listed, computed and served again. For administrators.",
    ),
    "archive_source": (
        "source",
        removal.archive_source,
        "Archive a usage source: its usage no longer counts; records and sums stay stored. For administrators.",
    ),
    "restore_source": (
        "source",
        removal.restore_source,
        "Restore an archived usage source: its usage counts and is collected again. For administrators.",
    ),
}


class RemovalReasonSerializer(serializers.Serializer[Any]):
    reason = serializers.CharField(max_length=bounds.REASON, help_text="Reason for the audit log")


RemovalSerializer = serializer_of(removal.Removal)


class StateSerializer(serializers.Serializer[Any]):
    slug = serializers.CharField()
    archived_at = UtcTimeField(allow_null=True, help_text="null: not archived")


def preview_view(kind: Kind) -> type[APIView]:
    def get(self: APIView, request: Request, **names: str) -> Response:
        preview = removal.preview_removal(kind=kind, slug=names[kind], actor=actor_of(request))
        return Response(RemovalSerializer(preview).data)

    get.__doc__ = _PREVIEWS[kind]
    described = extend_schema(operation_id=f"preview_{kind}_removal", responses=RemovalSerializer)(get)
    return _view(f"{kind.title()}RemovalView", {"GET": _SCOPES[kind]}, {"get": described})


def change_view(operation: str) -> type[APIView]:
    """The view of archive_policy, restore_policy, archive_source or restore_source."""
    kind, service, text = _CHANGES[operation]

    def post(self: APIView, request: Request, **names: str) -> Response:
        reason = read_body(RemovalReasonSerializer, request)["reason"]
        done = service(slug=names[kind], reason=reason, at=clock.now(), actor=actor_of(request))
        return Response(StateSerializer(done).data)

    def before_body(self: APIView, request: Request, **names: str) -> None:
        removal.open_removable(kind, names[kind], actor_of(request))

    post.__doc__ = text
    described = extend_schema(operation_id=operation, request=RemovalReasonSerializer, responses=StateSerializer)(post)
    members = {"post": described, "before_body": before_body}
    return _view(f"{operation.title().replace('_', '')}View", {"POST": _SCOPES[kind]}, members)


def _view(name: str, scopes: Scopes, members: dict[str, Any]) -> type[APIView]:
    return type(name, (APIView,), {"__module__": __name__, "scopes": scopes, **members})
