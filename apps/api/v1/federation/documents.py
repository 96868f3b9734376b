"""What this site publishes: signed documents, unchanged."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from django.http import HttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema
from rest_framework import serializers
from rest_framework.permissions import AllowAny
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request
from rest_framework.views import APIView

from apps.api.authentication import actor_of
from apps.api.packing import is_known, known_tags, not_modified, packed_response
from apps.api.rendering import JSONRenderer
from apps.api.v1.lists import asked
from apps.core import clock
from apps.core.errors import Invalid, Unavailable
from apps.federation.publications.readers import get_feed, get_publication, note_reading
from apps.federation.publications.services import issue
from apps.federation.usage_feeds import feeds

MEDIA_TYPE = "application/vnd.fairshare.signed"
_MOST_NUMBER = 2**53
Answer = TypeVar("Answer")


class SignedRenderer(BaseRenderer):
    """Only so that a caller may ask for this media type: the bytes never come this way."""

    media_type = MEDIA_TYPE
    format = "signed"
    charset = None

    def render(self, data: Any, accepted_media_type: str | None = None, renderer_context: Any = None) -> bytes:
        return JSONRenderer().render(data, accepted_media_type, renderer_context)


_IF_NONE_MATCH = OpenApiParameter(
    "If-None-Match", str, OpenApiParameter.HEADER, description="The ETag of the document that the caller has"
)
_ANSWERS = {
    (200, MEDIA_TYPE): OpenApiTypes.BINARY,
    304: OpenApiResponse(description="The caller has just this document already"),
}


class SinceSerializer(serializers.Serializer[Any]):
    since = serializers.IntegerField(
        min_value=0,
        max_value=_MOST_NUMBER,
        required=False,
        default=0,
        help_text="The number of the last ingested document; 0 for everything",
    )
    seen = serializers.IntegerField(
        min_value=0,
        max_value=_MOST_NUMBER,
        required=False,
        help_text="The number of `newest` in that document, where there was more to send; else equal to `since`",
    )


class SignedDocumentView(APIView):
    """Open to all, because publications may be; closed ones are filtered by the room of federation."""

    permission_classes = (AllowAny,)
    renderer_classes = (SignedRenderer, JSONRenderer)


class PublicationDocumentView(SignedDocumentView):
    @extend_schema(operation_id="read_publication", parameters=[_IF_NONE_MATCH], responses=_ANSWERS)
    def get(self, request: Request, name: str) -> HttpResponse:
        """The current document of a publication (`fairshare-policy/1`), signed. For anyone where it is open, else for
        administrators and for tokens of the scope `federation` whose policy and subtree contain its entry.
        """
        actor, now = actor_of(request), clock.now()
        publication = get_publication(name=name, actor=actor, at=now)
        issued = _named(lambda: issue(publication, at=now))
        note_reading(publication, number=issued.document.version, actor=actor, at=now)
        tag = f"{issued.document.version}-{issued.document.digest[:32]}"
        if is_known(request._request, tag):
            return not_modified(tag)
        return packed_response(
            request._request, lambda: issued.data, content_type=MEDIA_TYPE, tag=tag, zstd=bytes(issued.document.data)
        )


class FeedDocumentView(SignedDocumentView):
    @extend_schema(
        operation_id="read_feed",
        parameters=[SinceSerializer, _IF_NONE_MATCH],
        responses={
            **_ANSWERS,
            409: OpenApiResponse(
                description="The feed hasn't come to this number, or has forgotten it: read it from 0"
            ),
        },
    )
    def get(self, request: Request, name: str) -> HttpResponse:
        """Usage of an entry and all below it since a number (`fairshare-usage/1`), signed; for the same callers."""
        actor, now = actor_of(request), clock.now()
        feed = get_feed(name=name, actor=actor, at=now)
        given = asked(SinceSerializer, request)
        since, seen = given["since"], given.get("seen")
        known = next(iter(known_tags(request._request)), "")
        told = _named(lambda: feeds.issue_usage(feed, since=since, seen=seen, known_etag=known, at=now))
        note_reading(feed, number=since if told is None else told.number, actor=actor, at=now)
        if told is None:
            return not_modified(known)
        return packed_response(request._request, lambda: told.data, content_type=MEDIA_TYPE, tag=told.etag)


def _named(made: Callable[[], Answer]) -> Answer:
    """A site without a name can't sign anything yet: that is ours to mend, and the other side tries again."""
    try:
        return made()
    except Invalid as error:
        if error.code != "no_issuer":
            raise
        raise Unavailable("This site has no name to sign with yet (FAIRSHARE_ISSUER).", code="no_issuer") from error
