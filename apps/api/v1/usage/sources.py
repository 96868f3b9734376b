"""Usage sources: which there are and how fresh they are; set up, changed, paused and collected."""

from __future__ import annotations

from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.api.authentication import ANY, USAGE_WRITE, Scopes, actor_of
from apps.api.shapes import UtcTimeField, asked, list_of, listed, sent
from apps.api.v1.allocations.views import IF_MATCH, seen_tag
from apps.api.v1.removal import RemovalReasonSerializer
from apps.api.v1.runs import RunSerializer
from apps.api.views import APIView
from apps.core import clock
from apps.mapping.removal import remove_source
from apps.usage import selectors
from apps.usage.models import Source
from apps.usage.sources import services as sources
from apps.usage.timeliness import Timeliness, timeliness


class SourceSerializer(serializers.Serializer[Any]):
    slug = serializers.CharField()
    name = serializers.CharField()
    origin = serializers.CharField(help_text='"" for this site, else where the usage comes from')
    namespace = serializers.CharField()
    site = serializers.CharField()
    cluster = serializers.CharField()
    time_zone = serializers.CharField()
    names_people = serializers.BooleanField()
    kind = serializers.ChoiceField(choices=Source.Kind.choices)
    collecting = serializers.SerializerMethodField(
        help_text="Settings of its kind; null for others than administrators"
    )
    collect_every_s = serializers.IntegerField(allow_null=True, help_text="null: by hand")
    collect_due_at = UtcTimeField(allow_null=True)
    collected_at = UtcTimeField(allow_null=True, help_text="When it last worked")
    collect_error = serializers.SerializerMethodField(help_text='Of the last try; "" when it worked')
    is_paused = serializers.BooleanField()
    archived_at = UtcTimeField(allow_null=True, help_text="null: it is current")
    expected_every_s = serializers.IntegerField(allow_null=True, help_text="How often usage is expected")
    skew_tolerance_s = serializers.IntegerField(help_text="Ends further ahead of our clock are refused")
    skew_s = serializers.FloatField(allow_null=True, help_text="How far ahead the newest end was")
    keep_records_days = serializers.IntegerField(allow_null=True, help_text="null: as the site says")
    cursor = serializers.IntegerField(source="watermark", help_text="Grows with every commit that changed something")
    last_record_end_at = UtcTimeField(allow_null=True)
    last_received_at = UtcTimeField(allow_null=True)
    last_contact_at = UtcTimeField(allow_null=True, help_text="Last received, or last collected with success")
    state = serializers.SerializerMethodField(help_text="By its last contact: late when that is overdue")
    lag_s = serializers.SerializerMethodField(help_text="Since the end of the newest record")
    counts = serializers.SerializerMethodField()
    etag = serializers.SerializerMethodField(help_text="What If-Match asks for")

    def get_collecting(self, source: Source) -> dict[str, Any] | None:
        return source.collecting if self.context["is_admin"] else None

    def get_collect_error(self, source: Source) -> str | None:
        return source.collect_error if self.context["is_admin"] else None

    @extend_schema_field(serializers.ChoiceField(choices=[each.value for each in Timeliness]))
    def get_state(self, source: Source) -> str:
        return timeliness(source, self.context["at"]).value

    def get_lag_s(self, source: Source) -> float | None:
        if source.last_record_end_at is None:
            return None
        lag_s: float = (self.context["at"] - source.last_record_end_at).total_seconds()
        return max(0.0, lag_s)

    def get_counts(self, source: Source) -> dict[str, int]:
        return {"records": source.n_records, "accounts": source.n_accounts, "rejected": source.n_rejected}

    def get_etag(self, source: Source) -> str:
        return f'"{sources.tag_of(source)}"'


class ChangedSourceSerializer(serializers.Serializer[Any]):
    """Types only: what the values must be, the room of usage says."""

    name = serializers.CharField(required=False, max_length=128)
    namespace = serializers.CharField(required=False, max_length=128)
    site = serializers.CharField(required=False, allow_blank=True, max_length=128)
    cluster = serializers.CharField(required=False, allow_blank=True, max_length=128)
    time_zone = serializers.CharField(required=False, allow_blank=True, max_length=64)
    origin = serializers.CharField(required=False, allow_blank=True, max_length=128)
    expected_every_s = serializers.IntegerField(required=False, allow_null=True)
    names_people = serializers.BooleanField(required=False)
    kind = serializers.ChoiceField(required=False, choices=sources.BY_HAND, help_text="A peer’s is made by subscribing")
    collecting = serializers.DictField(required=False)
    collect_every_s = serializers.IntegerField(
        required=False, allow_null=True, help_text="Left out: 300 for a kind that is collected; null: by hand"
    )
    skew_tolerance_s = serializers.IntegerField(required=False)
    keep_records_days = serializers.IntegerField(required=False, allow_null=True)


class NewSourceSerializer(ChangedSourceSerializer):
    slug = serializers.SlugField(max_length=64)


class SourceListView(APIView):
    scopes: ClassVar[Scopes] = {"GET": ANY, "POST": frozenset({USAGE_WRITE})}

    @extend_schema(operation_id="list_sources", responses=list_of(SourceSerializer))
    def get(self, request: Request) -> Response:
        """Every usage source of this site."""
        found = selectors.list_counted_sources(actor=actor_of(request))
        return listed(SourceSerializer(found, many=True, context=_context(request)).data)

    @extend_schema(operation_id="make_source", request=NewSourceSerializer, responses={201: SourceSerializer})
    def post(self, request: Request) -> Response:
        """For administrators; a token that writes usage may make one that is sent to, with a name and a time zone."""
        given = sent(NewSourceSerializer, request)
        made = sources.set_up_source(slug=given.pop("slug"), given=given, at=clock.now(), actor=actor_of(request))
        return _answer(request, made.slug, 201)


class SourceDetailView(APIView):
    scopes: ClassVar[Scopes] = {"GET": ANY, "PATCH": frozenset({USAGE_WRITE}), "DELETE": frozenset({USAGE_WRITE})}

    @extend_schema(operation_id="get_source", responses=SourceSerializer)
    def get(self, request: Request, source: str) -> Response:
        """Cursor, lag, counts, and how it is collected."""
        return _answer(request, source)

    @extend_schema(
        operation_id="change_source", parameters=[IF_MATCH], request=ChangedSourceSerializer, responses=SourceSerializer
    )
    def patch(self, request: Request, source: str) -> Response:
        """Replace what is given, for administrators. `collecting` is replaced whole."""
        selectors.get_source(slug=source, actor=actor_of(request))
        tag, given = seen_tag(request, "source"), sent(ChangedSourceSerializer, request)
        sources.change_source(slug=source, tag=tag, given=given, at=clock.now(), actor=actor_of(request))
        return _answer(request, source)

    @extend_schema(operation_id="remove_source", parameters=[RemovalReasonSerializer], responses={204: None})
    def delete(self, request: Request, source: str) -> Response:
        """Remove a source that was made by mistake: 409 (`in_use`) lists what rests on it: archive it."""
        given = asked(RemovalReasonSerializer, request)
        remove_source(slug=source, reason=given["reason"], at=clock.now(), actor=actor_of(request))
        return Response(status=204)


class CollectionView(APIView):
    scopes: ClassVar[Scopes] = {"POST": frozenset({USAGE_WRITE})}

    @extend_schema(operation_id="collect_source", request=None, responses={202: RunSerializer})
    def post(self, request: Request, source: str) -> Response:
        """Collect new records now, ahead of the interval. The answer is the run to follow."""
        run = sources.collect_now(slug=source, at=clock.now(), actor=actor_of(request))
        return Response(RunSerializer(run).data, status=202)


class PauseView(APIView):
    scopes: ClassVar[Scopes] = {"POST": frozenset({USAGE_WRITE})}

    @extend_schema(operation_id="pause_source", request=None, responses=SourceSerializer)
    def post(self, request: Request, source: str) -> Response:
        """Nothing is collected until it is resumed; pushed records are still accepted."""
        sources.pause_source(slug=source, at=clock.now(), actor=actor_of(request))
        return _answer(request, source)


class ResumptionView(APIView):
    scopes: ClassVar[Scopes] = {"POST": frozenset({USAGE_WRITE})}

    @extend_schema(operation_id="resume_source", request=None, responses=SourceSerializer)
    def post(self, request: Request, source: str) -> Response:
        """It is due at once, from where it was left."""
        sources.resume_source(slug=source, at=clock.now(), actor=actor_of(request))
        return _answer(request, source)


def _context(request: Request) -> dict[str, Any]:
    return {"at": clock.now(), "is_admin": sources.may_set_up(actor_of(request))}


def _answer(request: Request, slug: str, status: int = 200) -> Response:
    found = selectors.get_source(slug=slug, actor=actor_of(request))
    response = Response(SourceSerializer(found, context=_context(request)).data, status=status)
    response["ETag"] = f'"{sources.tag_of(found)}"'
    return response
