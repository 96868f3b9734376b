"""Administration of what this site publishes, and of its signing keys."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, TypeVar

from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from apps.api.authentication import ADMIN, ANY, Scopes, actor_of
from apps.api.v1.federation.serializers import ADMINISTER, ActionSerializer
from apps.api.v1.lists import asked, list_of, listed, sent
from apps.core import clock
from apps.core.errors import NotFound
from apps.federation.documents import keys
from apps.federation.models import Publication, PublishedDocument, UsageFeed
from apps.federation.publications import services as publications
from apps.federation.publications.readers import list_readings
from apps.federation.usage_feeds import feeds
from apps.policies.tree.stored import load_tree

NAME = "Lower-case letters, digits, points and hyphens, as in vo-a.example"

Published = TypeVar("Published", Publication, UsageFeed)


class ReadingSerializer(serializers.Serializer[Any]):
    reader = serializers.CharField(help_text='Name of the token; "" where it is open')
    version = serializers.IntegerField(help_text="Of the publication, or number of the feed")
    at = serializers.DateTimeField()


class PublishedSerializer(serializers.Serializer[Any]):
    """What publications and feeds have in common."""

    name = serializers.CharField()
    policy = serializers.CharField(source="policy.slug")
    entry = serializers.UUIDField(source="entry_uid")
    path = serializers.SerializerMethodField(help_text='Where the entry is now; "" when it has left the tree')
    is_open = serializers.BooleanField(help_text="Open to all; else a token is needed")
    expires_after_s = serializers.IntegerField()
    made_at = serializers.DateTimeField()
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
    issued_at = serializers.DateTimeField()
    expires_at = serializers.DateTimeField()
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
    made_at = serializers.DateTimeField()


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
        return listed(KeySerializer(keys.list_keys(), many=True).data)

    @extend_schema(operation_id="rotate_key", request=ActionSerializer, responses={201: KeySerializer})
    def post(self, request: Request) -> Response:
        """A new key, signed by the present one: sites that trust that one follow. For administrators."""
        reason = sent(ActionSerializer, request)["reason"]
        keys.rotate_key(reason=reason, at=clock.now(), actor=actor_of(request))
        return Response(KeySerializer(keys.list_keys()[-1]).data, status=201)


def _chosen(found: Sequence[Published], name: str) -> Published:
    chosen = next((each for each in found if each.name == name), None)
    if chosen is None:
        raise NotFound("There is none of this name.")
    return chosen
