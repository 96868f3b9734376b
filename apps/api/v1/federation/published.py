"""What this site publishes: signed documents, unchanged; and the administration of them and of their keys."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, ClassVar, TypeVar

from django.http import HttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.permissions import AllowAny
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from apps.api.authentication import ADMIN, ANY, Scopes, actor_of
from apps.api.errors import Refusal
from apps.api.rendering import JSONRenderer, is_known, known_tags, not_modified, packed_response
from apps.api.shapes import UtcTimeField, asked, list_of, listed, sent
from apps.api.v1.federation.mounts import ADMINISTER, ActionSerializer
from apps.api.views import APIView
from apps.core import clock
from apps.core.errors import Invalid, NotFound, Unavailable
from apps.federation import publishing as publications
from apps.federation.documents import trust
from apps.federation.fetch_requests import ISSUER_HEADER
from apps.federation.fetch_schedule import retry_failed_fetches
from apps.federation.models import Publication, PublishedDocument, UsageFeed
from apps.federation.publishing import current_document
from apps.federation.readings import CLOSED, get_feed, get_publication, list_readings, record_reading
from apps.federation.usage_feeds import feeds
from apps.policies.tree.stored import load_tree

# --- Documents --------------------------------------------------------------------------------------------------------
MEDIA_TYPE = "application/vnd.fairshare.signed"
_MOST_NUMBER = 2**53
_LONGEST_NAME = 128
Answer = TypeVar("Answer")
Published = TypeVar("Published", Publication, UsageFeed)


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
        publication = _readable(lambda: get_publication(name=name, actor=actor, at=now))
        issued = _named(lambda: current_document(publication, at=now))
        record_reading(publication, number=issued.document.version, actor=actor, at=now)
        _fetch_back(request, now)
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
        feed = _readable(lambda: get_feed(name=name, actor=actor, at=now))
        given = asked(SinceSerializer, request)
        since, seen = given["since"], given.get("seen")
        known = next(iter(known_tags(request._request)), "")
        told = _named(lambda: feeds.issue_usage(feed, since=since, seen=seen, known_etag=known, at=now))
        record_reading(feed, number=since if told is None else told.number, actor=actor, at=now)
        _fetch_back(request, now)
        if told is None:
            return not_modified(known)
        return packed_response(request._request, lambda: told.data, content_type=MEDIA_TYPE, tag=told.etag)


def _readable(found: Callable[[], Published]) -> Published:
    """Who may publish it gets the code `closed`; others get the same 404 as for an unknown name."""
    try:
        return found()
    except NotFound as error:
        if error.code != CLOSED:
            raise
        raise Refusal(error.message, status=404, code=CLOSED) from error


def _fetch_back(request: Request, now: datetime) -> None:
    """A peer that asks is back: what of it failed is fetched at once."""
    issuer = request.headers.get(ISSUER_HEADER, "")
    if issuer.isprintable() and 0 < len(issuer) <= _LONGEST_NAME:
        retry_failed_fetches(issuer, at=now)


def _named(made: Callable[[], Answer]) -> Answer:
    """A site without a name can't sign anything yet: that is ours to mend, and the other side tries again."""
    try:
        return made()
    except Invalid as error:
        if error.code != "no_issuer":
            raise
        raise Unavailable("This site has no name to sign with yet (FAIRSHARE_ISSUER).", code="no_issuer") from error


# --- Administration ---------------------------------------------------------------------------------------------------
NAME = "Lower-case letters, digits, points and hyphens, as in vo-a.example"


class ReadingSerializer(serializers.Serializer[Any]):
    reader = serializers.CharField(help_text='Name of the token; "" where it is open')
    version = serializers.IntegerField(help_text="Of the publication, or number of the feed")
    at = UtcTimeField()


class PublishedSerializer(serializers.Serializer[Any]):
    """What publications and feeds have in common."""

    name = serializers.CharField()
    policy = serializers.CharField(source="policy.slug")
    entry = serializers.UUIDField(source="entry_uid")
    path = serializers.SerializerMethodField(help_text='Where the entry is now; "" when it has left the tree')
    is_open = serializers.BooleanField(help_text="Open to all; else a token is needed")
    expires_after_s = serializers.IntegerField()
    made_at = UtcTimeField()
    readings = serializers.SerializerMethodField(help_text="Who read it last, newest first")

    def get_path(self, published: Any) -> str:
        tree = load_tree(published.policy)
        i = tree.index_of_uid(published.entry_uid)
        return "" if i is None else tree.path(i)

    @extend_schema_field(ReadingSerializer(many=True))
    def get_readings(self, published: Any) -> Any:
        return ReadingSerializer(list_readings(published), many=True).data


class PublishedVersionSerializer(serializers.Serializer[Any]):
    version = serializers.IntegerField()
    digest = serializers.CharField(help_text="SHA-256 of the canonical document, which the next version names")
    revision = serializers.IntegerField(source="revision_number", help_text="The last one that it was made or held for")
    n_entries = serializers.IntegerField()
    issued_at = UtcTimeField()
    expires_at = UtcTimeField()
    key = serializers.CharField(source="key_fingerprint")


class PublicationSerializer(PublishedSerializer):
    document = serializers.SerializerMethodField(help_text="The newest version; null before the first request")

    @extend_schema_field(PublishedVersionSerializer(allow_null=True))
    def get_document(self, publication: Publication) -> Any:
        newest = PublishedDocument.objects.filter(publication=publication).order_by("-version").defer("data").first()
        return None if newest is None else PublishedVersionSerializer(newest).data


class NewPublicationSerializer(serializers.Serializer[Any]):
    policy = serializers.CharField(max_length=64)
    entry = serializers.CharField(max_length=9000, required=False, default="/", help_text="Its path")
    name = serializers.CharField(max_length=128, help_text=NAME)
    is_open = serializers.BooleanField(required=False, default=False)
    expires_after_s = serializers.IntegerField(required=False, default=7 * 86_400)


class FeedSerializer(PublishedSerializer):
    capacity_cores = serializers.FloatField(help_text="What this site declares that it has")
    sends_running = serializers.BooleanField()
    keeps_days = serializers.IntegerField(help_text="Older hours aren't sent")
    number = serializers.IntegerField(help_text="Grows by one whenever something changed")


class NewFeedSerializer(serializers.Serializer[Any]):
    policy = serializers.CharField(max_length=64)
    entry = serializers.CharField(max_length=9000, required=False, default="/", help_text="Its path")
    name = serializers.CharField(max_length=128, help_text=NAME)
    capacity_cores = serializers.FloatField()
    sends_running = serializers.BooleanField(required=False, default=True)
    is_open = serializers.BooleanField(required=False, default=False)
    keeps_days = serializers.IntegerField(required=False, default=400)
    expires_after_s = serializers.IntegerField(required=False, default=86_400)


class KeySerializer(serializers.Serializer[Any]):
    number = serializers.IntegerField()
    fingerprint = serializers.CharField(help_text="Others compare it when they mount: send it through another channel")
    made_at = UtcTimeField()


class PublicationListView(APIView):
    scopes: ClassVar[Scopes] = ADMINISTER

    @extend_schema(operation_id="list_publications", responses=list_of(PublicationSerializer))
    def get(self, request: Request) -> Response:
        """Published subtrees."""
        found = publications.list_publications(actor=actor_of(request))
        return listed(PublicationSerializer(found, many=True).data)

    @extend_schema(
        operation_id="make_publication", request=NewPublicationSerializer, responses={201: PublicationSerializer}
    )
    def post(self, request: Request) -> Response:
        """Publish an entry and all below it; an existing publication gets these terms. For administrators."""
        given = sent(NewPublicationSerializer, request)
        made = publications.make_publication(
            policy_slug=given.pop("policy"), **given, at=clock.now(), actor=actor_of(request)
        )
        return Response(PublicationSerializer(made).data, status=201)


class PublicationDetailView(APIView):
    scopes: ClassVar[Scopes] = ADMINISTER

    @extend_schema(operation_id="get_publication", responses=PublicationSerializer)
    def get(self, request: Request, name: str) -> Response:
        """Its newest version, and who read it."""
        found = publications.list_publications(actor=actor_of(request))
        return Response(PublicationSerializer(_chosen(found, name)).data)

    @extend_schema(operation_id="drop_publication", parameters=[ActionSerializer], responses={204: None})
    def delete(self, request: Request, name: str) -> Response:
        """Stop publishing. Sites that mounted it keep their current version, with its age."""
        reason = asked(ActionSerializer, request)["reason"]
        publications.drop_publication(name=name, reason=reason, at=clock.now(), actor=actor_of(request))
        return Response(status=204)


class FeedListView(APIView):
    scopes: ClassVar[Scopes] = ADMINISTER

    @extend_schema(operation_id="list_feeds", responses=list_of(FeedSerializer))
    def get(self, request: Request) -> Response:
        """Entries whose local usage is sent to others."""
        return listed(FeedSerializer(feeds.list_feeds(actor=actor_of(request)), many=True).data)

    @extend_schema(operation_id="make_feed", request=NewFeedSerializer, responses={201: FeedSerializer})
    def post(self, request: Request) -> Response:
        """Send the local usage of an entry and all below it; an existing feed gets these terms."""
        given = sent(NewFeedSerializer, request)
        made = feeds.make_feed(policy_slug=given.pop("policy"), **given, at=clock.now(), actor=actor_of(request))
        return Response(FeedSerializer(made).data, status=201)


class FeedDetailView(APIView):
    scopes: ClassVar[Scopes] = ADMINISTER

    @extend_schema(operation_id="get_feed", responses=FeedSerializer)
    def get(self, request: Request, name: str) -> Response:
        """How far it has come, and who read it."""
        return Response(FeedSerializer(_chosen(feeds.list_feeds(actor=actor_of(request)), name)).data)

    @extend_schema(operation_id="drop_feed", responses={204: None})
    def delete(self, request: Request, name: str) -> Response:
        """Stop sending; readers keep what they have."""
        _chosen(feeds.list_feeds(actor=actor_of(request)), name)
        feeds.drop_feed(name=name, at=clock.now(), actor=actor_of(request))
        return Response(status=204)


class KeyListView(APIView):
    scopes: ClassVar[Scopes] = {"GET": ANY, "POST": frozenset({ADMIN})}

    @extend_schema(operation_id="list_keys", responses=list_of(KeySerializer))
    def get(self, request: Request) -> Response:
        """Fingerprints of the keys of this authority, oldest first; the last one signs."""
        return listed(KeySerializer(trust.list_keys(), many=True).data)

    @extend_schema(operation_id="rotate_key", request=ActionSerializer, responses={201: KeySerializer})
    def post(self, request: Request) -> Response:
        """A new key, signed by the present one: sites that trust that one follow. For administrators."""
        reason = sent(ActionSerializer, request)["reason"]
        trust.rotate_key(reason=reason, at=clock.now(), actor=actor_of(request))
        return Response(KeySerializer(trust.list_keys()[-1]).data, status=201)


def _chosen(found: Sequence[Published], name: str) -> Published:
    chosen = next((each for each in found if each.name == name), None)
    if chosen is None:
        raise NotFound("There is none of this name.")
    return chosen
