"""Search across entries, people, accounts, jobs, change sets and usage sources."""

from __future__ import annotations

from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.contrib.search.jobs import JobHit
from apps.contrib.search.selectors import (
    LONGEST_SEARCH,
    ChangeSetHit,
    Group,
    Hit,
    SearchResult,
    SourceHit,
    UserHit,
    search_everything,
)
from apps.web import bounds
from apps.web.rest.authentication import POLICIES_READ, POLICIES_WRITE, Scopes, actor_of
from apps.web.rest.inputs import read_query
from apps.web.rest.records import record_serializer
from apps.web.rest.shapes import SentenceSerializer
from apps.web.rest.views import APIView
from apps.web.texts.rank_use import RANK_USE

_GROUPS = ("entries", "people", "jobs", "changes", "sources")
_KINDS = ("entry", "person", "account", "job", "user", "change_set", "source")


class SearchFilterSerializer(serializers.Serializer[Any]):
    q = serializers.CharField(
        max_length=LONGEST_SEARCH, help_text="Part of a name or path, or a job's number: 12, 12_3, source:12"
    )
    policy = serializers.CharField(
        max_length=bounds.POLICY_SLUG, required=False, help_text="Policy whose hits come first"
    )
    only = serializers.ChoiceField(_GROUPS, required=False, help_text="Only this group, with up to 100 hits")


class SearchHitSerializer(serializers.Serializer[Any]):
    """One hit. Fields that its kind does not have are null."""

    kind = serializers.SerializerMethodField(help_text=" ".join(_KINDS))
    title = serializers.CharField()
    match = serializers.SerializerMethodField(
        help_text="How the name matches: begins, word_begins, contains, note or letters"
    )
    policy = serializers.SerializerMethodField()
    entry = serializers.SerializerMethodField(help_text="uid of the entry")
    path = serializers.SerializerMethodField()
    rank = serializers.SerializerMethodField(help_text="Of a group that of its best user")
    id = serializers.SerializerMethodField(
        help_text="Number of a change set, slug of a source, user name of a user, or number of the charge of a job that"
        " no queue lists"
    )
    reason = serializers.SerializerMethodField(
        help_text="First line of a change set's reason; its title says what it edits"
    )
    state = serializers.SerializerMethodField(
        help_text="Of a job: pending, held, running, finished, withdrawn or charge; of a change set its state"
    )

    def get_kind(self, hit: Hit) -> str:
        if isinstance(hit, ChangeSetHit):
            return "change_set"
        if isinstance(hit, SourceHit):
            return "source"
        if isinstance(hit, JobHit):
            return "job"
        return "user" if isinstance(hit, UserHit) else hit.kind

    def get_match(self, hit: Hit) -> str:
        return hit.match.name.lower()

    @extend_schema_field(serializers.CharField(allow_null=True))
    def get_policy(self, hit: Hit) -> str | None:
        return getattr(hit, "policy_slug", None)

    @extend_schema_field(serializers.UUIDField(allow_null=True))
    def get_entry(self, hit: Hit) -> str | None:
        uid = getattr(hit, "uid", None)
        return None if uid is None else str(uid)

    @extend_schema_field(serializers.CharField(allow_null=True))
    def get_path(self, hit: Hit) -> str | None:
        return getattr(hit, "path", None)

    @extend_schema_field(serializers.IntegerField(allow_null=True))
    def get_rank(self, hit: Hit) -> int | None:
        return getattr(hit, "rank", None)

    @extend_schema_field(serializers.CharField(allow_null=True))
    def get_id(self, hit: Hit) -> str | None:
        if isinstance(hit, ChangeSetHit):
            return str(hit.id)
        if isinstance(hit, JobHit):
            return None if hit.record_id is None else str(hit.record_id)
        if isinstance(hit, SourceHit):
            return hit.slug
        return hit.username if isinstance(hit, UserHit) else None

    @extend_schema_field(serializers.CharField(allow_null=True))
    def get_reason(self, hit: Hit) -> str | None:
        return hit.reason if isinstance(hit, ChangeSetHit) else None

    @extend_schema_field(serializers.CharField(allow_null=True))
    def get_state(self, hit: Hit) -> str | None:
        return hit.state if isinstance(hit, JobHit | ChangeSetHit) else None


SearchGroupSerializer = record_serializer(
    Group,
    component="SearchGroup",
    kind=serializers.ChoiceField(_GROUPS),
    hits=SearchHitSerializer(many=True),
    rank_use=SentenceSerializer(many=True, help_text=RANK_USE),
    texts={"n": "Number of all hits; null: too many to count"},
)
FoundSerializer = record_serializer(
    SearchResult,
    component="Found",
    groups=SearchGroupSerializer(many=True),
)


class SearchView(APIView):
    reach = "objects"
    scopes: ClassVar[Scopes] = {"GET": frozenset({POLICIES_READ, POLICIES_WRITE})}

    @extend_schema(operation_id="search", parameters=[SearchFilterSerializer], responses=FoundSerializer)
    def get(self, request: Request) -> Response:
        """Names that match, and jobs of exactly this number, the group with the best match first.

        Hits that the caller may not see are left out.
        """
        query = read_query(SearchFilterSerializer, request)
        only = query.get("only")
        result = search_everything(
            query=query["q"],
            actor=actor_of(request),
            policy_slug=query.get("policy", ""),
            only=only,
            **({"most": 100} if only else {}),
        )
        return Response(FoundSerializer(result).data)
