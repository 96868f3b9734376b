"""Publications and usage feeds of this site: the signed documents, their administration, and signing keys."""

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

from apps.core import clock
from apps.core.errors import Invalid, NotFound, Unavailable
from apps.federation import publishing as publications
from apps.federation.documents import site_keys
from apps.federation.documents.wire import MOST_EXACT_NUMBER
from apps.federation.fetch_requests import ISSUER_HEADER
from apps.federation.fetch_schedule import retry_failed_fetches
from apps.federation.models import Publication, PublishedDocument, UsageFeed
from apps.federation.publishing import stored_document
from apps.federation.readings import CLOSED, get_feed, get_publication, list_readings, record_reading
from apps.federation.usage_feeds import feeds
from apps.federation.usage_feeds.feed_documents import read_feed
from apps.pages.federation.api.remotes import ADMINISTER, ActionSerializer
from apps.policies.tree.stored import load_tree
from apps.web import bounds
from apps.web.rest.authentication import ADMIN, ANY, Scopes, actor_of
from apps.web.rest.errors import Refusal
from apps.web.rest.inputs import read_body, read_query
from apps.web.rest.records import keeps_old_names
from apps.web.rest.rendering import JSONRenderer, is_known, known_tags, not_modified, packed_response
from apps.web.rest.shapes import UtcTimeField, list_response, list_schema
from apps.web.rest.views import APIView

MEDIA_TYPE = "application/vnd.fairshare.signed"
_LONGEST_ISSUER = 128
Answer = TypeVar("Answer")
Published = TypeVar("Published", Publication, UsageFeed)
NAME = "Lower-case letters, digits, points and hyphens, such as vo-a.example"


class SignedRenderer(BaseRenderer):
    """Makes the media type acceptable; views return the signed bytes without a renderer."""

    media_type = MEDIA_TYPE
    format = "signed"
    charset = None

    def render(self, data: Any, accepted_media_type: str | None = None, renderer_context: Any = None) -> bytes:
        return JSONRenderer().render(data, accepted_media_type, renderer_context)


_IF_NONE_MATCH = OpenApiParameter(
    "If-None-Match", str, OpenApiParameter.HEADER, description="ETag of the document that the caller has"
)
_ANSWERS = {
    (200, MEDIA_TYPE): OpenApiTypes.BINARY,
    304: OpenApiResponse(description="The caller already has this document"),
}


class SinceSerializer(serializers.Serializer[Any]):
    since = serializers.IntegerField(
        min_value=0,
        max_value=MOST_EXACT_NUMBER,
        required=False,
        default=0,
        help_text="Number of the last ingested document; 0: everything",
    )
    seen = serializers.IntegerField(
        min_value=0,
        max_value=MOST_EXACT_NUMBER,
        required=False,
        help_text="Number of `newest` in that document, if more documents followed; default: `since`",
    )


class SignedDocumentView(APIView):
    """Needs no sign-in, because publications may be open; `apps.federation` protects closed ones."""

    permission_classes = (AllowAny,)
    renderer_classes = (SignedRenderer, JSONRenderer)


class PublicationDocumentView(SignedDocumentView):
    @extend_schema(operation_id="read_publication", parameters=[_IF_NONE_MATCH], responses=_ANSWERS)
    def get(self, request: Request, name: str) -> HttpResponse:
        """The current signed document of a publication (`fairshare-policy/1`).

        Open publications need no sign-in. Others are for administrators, and for tokens with the scope `federation`
        whose policy and subtree contain the entry.
        """
        actor, now = actor_of(request), clock.now()
        publication = _readable(lambda: get_publication(name=name, actor=actor, at=now))
        issued = _named(lambda: stored_document(publication))
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
                description="The feed has not reached this number, or no longer stores it: read from 0"
            ),
        },
    )
    def get(self, request: Request, name: str) -> HttpResponse:
        """Signed usage of an entry and all below it since a number (`fairshare-usage/1`), for the same callers as a
        publication.
        """
        actor, now = actor_of(request), clock.now()
        feed = _readable(lambda: get_feed(name=name, actor=actor, at=now))
        query = read_query(SinceSerializer, request)
        since, seen = query["since"], query.get("seen")
        known = next(iter(known_tags(request._request)), "")
        document = _named(lambda: read_feed(feed, since=since, seen=seen, known_etag=known, at=now))
        record_reading(feed, number=since if document is None else document.number, actor=actor, at=now)
        _fetch_back(request, now)
        if document is None:
            return not_modified(known)
        return packed_response(request._request, lambda: document.data, content_type=MEDIA_TYPE, tag=document.etag)


def _readable(load: Callable[[], Published]) -> Published:
    """Return what `load` returns. Callers who may publish get the code `closed`; others the usual 404."""
    try:
        return load()
    except NotFound as error:
        if error.code != CLOSED:
            raise
        raise Refusal(error.message, status=404, code=CLOSED) from error


def _fetch_back(request: Request, now: datetime) -> None:
    """Fetch documents of the requesting peer at once if their last fetch failed: the peer is reachable again."""
    issuer = request.headers.get(ISSUER_HEADER, "")
    if issuer.isprintable() and 0 < len(issuer) <= _LONGEST_ISSUER:
        retry_failed_fetches(issuer, at=now)


def _named(made: Callable[[], Answer]) -> Answer:
    """Turn a missing site name into 503, so that the peer retries: only this site's administrator can set it."""
    try:
        return made()
    except Invalid as error:
        if error.code != "no_issuer":
            raise
        raise Unavailable("This site has no name to sign with yet (FAIRSHARE_ISSUER).", code="no_issuer") from error


class ReadingSerializer(serializers.Serializer[Any]):
    reader = serializers.CharField(help_text='Name of the token; "": open')
    version = serializers.IntegerField(help_text="Version of the publication, or number of the feed")
    at = UtcTimeField()


class PublishedSerializer(serializers.Serializer[Any]):
    """Fields that publications and feeds share."""

    name = serializers.CharField()
    policy = serializers.CharField(source="policy.slug")
    entry = serializers.UUIDField(source="entry_uid")
    path = serializers.SerializerMethodField(help_text='Current path of the entry; "": it is archived')
    is_open = serializers.BooleanField(help_text="true: readable without a token")
    expires_after_s = serializers.IntegerField(help_text="Validity of a document after its issue")
    created_at = UtcTimeField(source="made_at")
    readings = serializers.SerializerMethodField(help_text="Last reading by each reader, newest first")

    def get_path(self, published: Any) -> str:
        tree = load_tree(published.policy)
        i = tree.index_of_uid(published.entry_uid)
        return "" if i is None else tree.path(i)

    @extend_schema_field(ReadingSerializer(many=True))
    def get_readings(self, published: Any) -> Any:
        return ReadingSerializer(list_readings(published), many=True).data


class PublishedVersionSerializer(serializers.Serializer[Any]):
    version = serializers.IntegerField()
    digest = serializers.CharField(help_text="SHA-256 of the canonical document; the next version refers to it")
    revision = serializers.IntegerField(
        source="revision_number", help_text="Last revision of the policy with this content"
    )
    n_entries = serializers.IntegerField()
    issued_at = UtcTimeField()
    expires_at = UtcTimeField()
    key = serializers.CharField(source="key_fingerprint", help_text="Fingerprint of the signing key")


@keeps_old_names
class PublicationSerializer(PublishedSerializer):
    document = serializers.SerializerMethodField(help_text="Newest version; null: not requested yet")

    @extend_schema_field(PublishedVersionSerializer(allow_null=True))
    def get_document(self, publication: Publication) -> Any:
        newest = PublishedDocument.objects.filter(publication=publication).order_by("-version").defer("data").first()
        return None if newest is None else PublishedVersionSerializer(newest).data


class NewPublicationSerializer(serializers.Serializer[Any]):
    policy = serializers.CharField(max_length=bounds.POLICY_SLUG)
    entry = serializers.CharField(max_length=bounds.ENTRY, required=False, default="/", help_text="Path")
    name = serializers.CharField(max_length=bounds.PUBLICATION, help_text=NAME)
    is_open = serializers.BooleanField(required=False, default=False)
    expires_after_s = serializers.IntegerField(required=False, default=7 * 86_400)


@keeps_old_names
class FeedSerializer(PublishedSerializer):
    capacity_cores = serializers.FloatField(help_text="Declared capacity of this site")
    sends_running = serializers.BooleanField(help_text="Running jobs are reported")
    keeps_days = serializers.IntegerField(help_text="Number of days after which hours are no longer sent")
    number = serializers.IntegerField(help_text="Increases by one with each change")


class NewFeedSerializer(serializers.Serializer[Any]):
    policy = serializers.CharField(max_length=bounds.POLICY_SLUG)
    entry = serializers.CharField(max_length=bounds.ENTRY, required=False, default="/", help_text="Path")
    name = serializers.CharField(max_length=bounds.PUBLICATION, help_text=NAME)
    capacity_cores = serializers.FloatField()
    sends_running = serializers.BooleanField(required=False, default=True)
    is_open = serializers.BooleanField(required=False, default=False)
    keeps_days = serializers.IntegerField(required=False, default=400)
    expires_after_s = serializers.IntegerField(required=False, default=86_400)


@keeps_old_names
class KeySerializer(serializers.Serializer[Any]):
    number = serializers.IntegerField()
    fingerprint = serializers.CharField(
        help_text="Send it to other sites through another channel: they compare it before mounting"
    )
    created_at = UtcTimeField(source="made_at")


class PublicationListView(APIView):
    reach = "objects"
    scopes: ClassVar[Scopes] = ADMINISTER

    def before_body(self, request: Request) -> None:
        publications.require_publisher(actor_of(request))

    @extend_schema(operation_id="list_publications", responses=list_schema(PublicationSerializer))
    def get(self, request: Request) -> Response:
        """Publications of this site: subtrees that other sites may mount."""
        own_publications = publications.list_publications(actor=actor_of(request))
        return list_response(PublicationSerializer(own_publications, many=True).data)

    @extend_schema(
        operation_id="make_publication", request=NewPublicationSerializer, responses={201: PublicationSerializer}
    )
    def post(self, request: Request) -> Response:
        """Publish an entry and all below it, or change an existing publication. For administrators."""
        body = read_body(NewPublicationSerializer, request)
        made = publications.make_publication(
            policy_slug=body.pop("policy"), **body, at=clock.now(), actor=actor_of(request)
        )
        return Response(PublicationSerializer(made).data, status=201)


class PublicationDetailView(APIView):
    reach = "objects"
    scopes: ClassVar[Scopes] = ADMINISTER

    @extend_schema(operation_id="get_publication", responses=PublicationSerializer)
    def get(self, request: Request, name: str) -> Response:
        """One publication with its newest version and its readers."""
        own_publications = publications.list_publications(actor=actor_of(request))
        return Response(PublicationSerializer(_chosen(own_publications, name)).data)

    @extend_schema(operation_id="drop_publication", parameters=[ActionSerializer], responses={204: None})
    def delete(self, request: Request, name: str) -> Response:
        """Stop publishing. Sites that mounted it keep their current version, which becomes stale."""
        reason = read_query(ActionSerializer, request)["reason"]
        publications.drop_publication(name=name, reason=reason, at=clock.now(), actor=actor_of(request))
        return Response(status=204)


class FeedListView(APIView):
    scopes: ClassVar[Scopes] = ADMINISTER

    def before_body(self, request: Request) -> None:
        feeds.require_site(actor_of(request))

    @extend_schema(operation_id="list_feeds", responses=list_schema(FeedSerializer))
    def get(self, request: Request) -> Response:
        """Usage feeds of this site: entries whose local usage is sent to other sites."""
        return list_response(FeedSerializer(feeds.list_feeds(actor=actor_of(request)), many=True).data)

    @extend_schema(operation_id="make_feed", request=NewFeedSerializer, responses={201: FeedSerializer})
    def post(self, request: Request) -> Response:
        """Offer the local usage of an entry and all below it as a feed, or change an existing feed."""
        body = read_body(NewFeedSerializer, request)
        made = feeds.make_feed(policy_slug=body.pop("policy"), **body, at=clock.now(), actor=actor_of(request))
        return Response(FeedSerializer(made).data, status=201)


class FeedDetailView(APIView):
    scopes: ClassVar[Scopes] = ADMINISTER

    @extend_schema(operation_id="get_feed", responses=FeedSerializer)
    def get(self, request: Request, name: str) -> Response:
        """One feed with its current number and its readers."""
        return Response(FeedSerializer(_chosen(feeds.list_feeds(actor=actor_of(request)), name)).data)

    @extend_schema(operation_id="drop_feed", responses={204: None})
    def delete(self, request: Request, name: str) -> Response:
        """Stop a feed. Readers keep the usage that they have ingested."""
        _chosen(feeds.list_feeds(actor=actor_of(request)), name)
        feeds.drop_feed(name=name, at=clock.now(), actor=actor_of(request))
        return Response(status=204)


class KeyListView(APIView):
    reach = "objects"
    scopes: ClassVar[Scopes] = {"GET": ANY, "POST": frozenset({ADMIN})}

    def before_body(self, request: Request) -> None:
        site_keys.require_rotation(actor_of(request))

    @extend_schema(operation_id="list_keys", responses=list_schema(KeySerializer))
    def get(self, request: Request) -> Response:
        """Signing keys of this site, oldest first; the last one signs."""
        return list_response(KeySerializer(site_keys.list_keys(), many=True).data)

    @extend_schema(operation_id="rotate_key", request=ActionSerializer, responses={201: KeySerializer})
    def post(self, request: Request) -> Response:
        """Make a new key, signed by the current one, so that peers follow automatically. For administrators."""
        reason = read_body(ActionSerializer, request)["reason"]
        site_keys.rotate_key(reason=reason, at=clock.now(), actor=actor_of(request))
        return Response(KeySerializer(site_keys.list_keys()[-1]).data, status=201)


def _chosen(own_publications: Sequence[Published], name: str) -> Published:
    chosen = next((each for each in own_publications if each.name == name), None)
    if chosen is None:
        raise NotFound("Nothing with this name is published.")
    return chosen
