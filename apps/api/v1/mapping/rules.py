"""The mapping of a policy: rules, trials of changes, versions, and accounts attached by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.account_ids import AccountKey, canonical
from apps.accounts.models import Account
from apps.api.authentication import POLICIES_READ, POLICIES_WRITE, Scopes, actor_of
from apps.api.errors import Refusal
from apps.api.shapes import InstantField, UtcTimeField, asked, decode_cursor, entry_uid, list_of, listed, sent
from apps.api.v1.mapping.serializers import (
    IF_MATCH,
    IF_MATCH_OF_ONE,
    AccountNameSerializer,
    AssignmentListSerializer,
    ChangedMappingRuleSerializer,
    MappingChangeSerializer,
    MappingPlanSerializer,
    MappingReasonSerializer,
    MappingRuleListSerializer,
    MappingRulesSerializer,
    MappingTrialSerializer,
    MappingVersionDetailSerializer,
    MappingVersionSerializer,
    NewMappingRuleSerializer,
    UnmappedAccountSerializer,
    plan_json,
    rule_json,
    rule_of,
    seen_version,
    stated_json,
    unmapped_json,
    version_json,
)
from apps.api.views import APIView
from apps.core import clock
from apps.core.errors import FieldProblem, NotFound
from apps.mapping import attachments as attaching
from apps.mapping.changes import (
    AddRule,
    Assign,
    ChangeRule,
    Edit,
    MoveRule,
    RemoveRule,
    ReplaceRules,
    Restore,
    make_change,
    preview_change,
)
from apps.mapping.models import Attachment
from apps.mapping.permissions import rights_in
from apps.mapping.rules.rule import Rule
from apps.mapping.selectors import PAGE, get_mapping_page
from apps.mapping.versions import get_version_line, list_version_lines, version_at

# --- Rules ------------------------------------------------------------------------------------------------------------
_READ: Scopes = {"GET": frozenset({POLICIES_READ, POLICIES_WRITE})}
_WRITE = frozenset({POLICIES_WRITE})
_VERSIONS = 50


class CursorSerializer(serializers.Serializer[Any]):
    cursor = serializers.CharField(max_length=200, required=False)


class VersionFilterSerializer(CursorSerializer):
    at = InstantField(required=False, help_text="Only the version that held at this instant")


class MappingRuleListView(APIView):
    scopes: ClassVar[Scopes] = {**_READ, "PUT": _WRITE, "POST": _WRITE}

    @extend_schema(operation_id="list_mapping_rules", responses=MappingRulesSerializer)
    def get(self, request: Request, policy: str) -> Response:
        """In the order in which they are asked, as far as the caller reads names where they lead."""
        page = get_mapping_page(policy_slug=policy, at=clock.now(), actor=actor_of(request))
        rules = [rule_json(page.rights, line, line.rule) for line in page.rules if line.rule is not None]
        return _tagged(Response({"version": page.version, "results": rules, "next": None}), page.version)

    @extend_schema(
        operation_id="replace_mapping_rules",
        parameters=[IF_MATCH],
        request=MappingRuleListSerializer,
        responses=MappingChangeSerializer,
    )
    def put(self, request: Request, policy: str) -> Response:
        """All of them at once. Exact rules are asked first and default ones last, whatever their place."""
        version = _seen(request, policy)
        given = sent(MappingRuleListSerializer, request)
        return _made(request, policy, ReplaceRules(_rules(request, policy, given["rules"])), given["reason"], version)

    @extend_schema(
        operation_id="add_mapping_rule",
        parameters=[IF_MATCH],
        request=NewMappingRuleSerializer,
        responses={201: MappingChangeSerializer},
    )
    def post(self, request: Request, policy: str) -> Response:
        version = _seen(request, policy)
        given = sent(NewMappingRuleSerializer, request)
        edit = AddRule(_rule(request, policy, given), _place(given))
        return _made(request, policy, edit, given["reason"], version, status=201)


class MappingRuleDetailView(APIView):
    scopes: ClassVar[Scopes] = {"PATCH": _WRITE, "DELETE": _WRITE}

    @extend_schema(
        operation_id="change_mapping_rule",
        parameters=[IF_MATCH],
        request=ChangedMappingRuleSerializer,
        responses=MappingChangeSerializer,
    )
    def patch(self, request: Request, policy: str, position: int) -> Response:
        """Another rule in its place, or the same one in another place. Positions are those of the version sent."""
        version = _seen(request, policy)
        given = sent(ChangedMappingRuleSerializer, request)
        edit: Edit
        if "rule" in given:
            edit = ChangeRule(position - 1, _rule(request, policy, given["rule"]), _place(given))
        elif "position" in given:
            edit = MoveRule(position - 1, given["position"] - 1)
        else:
            raise _refusal("rule", "or position must be given")
        return _made(request, policy, edit, given["reason"], version)

    @extend_schema(
        operation_id="remove_mapping_rule",
        parameters=[IF_MATCH, MappingReasonSerializer],
        responses=MappingChangeSerializer,
    )
    def delete(self, request: Request, policy: str, position: int) -> Response:
        version = _seen(request, policy)
        given = asked(MappingReasonSerializer, request)
        return _made(request, policy, RemoveRule(position - 1), given["reason"], version)


class MappingTrialView(APIView):
    scopes: ClassVar[Scopes] = {"POST": frozenset({POLICIES_READ, POLICIES_WRITE})}
    on_repeat = "work"

    @extend_schema(operation_id="try_mapping", request=MappingTrialSerializer, responses=MappingPlanSerializer)
    def post(self, request: Request, policy: str) -> Response:
        """Which accounts would move from where to where, and the affected usage. Nothing is changed."""
        given = sent(MappingTrialSerializer, request)
        if len(given) != 1:
            raise _refusal("body", "must have one of rules, assignments, restore")
        edit: Edit
        if "rules" in given:
            edit = ReplaceRules(_rules(request, policy, given["rules"]))
        elif "assignments" in given:
            edit = Assign(_places(request, policy, given["assignments"]))
        else:
            edit = Restore(given["restore"])
        plan = preview_change(policy_slug=policy, edit=edit, at=clock.now(), actor=actor_of(request))
        return _tagged(Response(plan_json(plan)), plan.version)


class UnmappedAccountListView(APIView):
    scopes: ClassVar[Scopes] = _READ

    @extend_schema(
        operation_id="list_unmapped_accounts",
        parameters=[CursorSerializer],
        responses=list_of(UnmappedAccountSerializer),
    )
    def get(self, request: Request, policy: str) -> Response:
        """Accounts without an entry, the most usage first, each with what is suggested for it.

        Who maps a part of the policy gets those that may belong there.
        """
        given = asked(CursorSerializer, request)
        after = max(decode_cursor(given["cursor"], int), 0) if "cursor" in given else 0
        page = get_mapping_page(policy_slug=policy, after=min(after, 2**31), at=clock.now(), actor=actor_of(request))
        rows = [unmapped_json(page.rights, line) for line in page.unmapped[:PAGE]]
        return _tagged(listed(rows, page.next_after), page.version)


class AssignmentListView(APIView):
    scopes: ClassVar[Scopes] = {"POST": _WRITE}

    @extend_schema(
        operation_id="assign_accounts",
        parameters=[IF_MATCH],
        request=AssignmentListSerializer,
        responses={201: MappingChangeSerializer},
    )
    def post(self, request: Request, policy: str) -> Response:
        """Several accounts attached to entries as one version."""
        version = _seen(request, policy)
        given = sent(AssignmentListSerializer, request)
        edit = Assign(_places(request, policy, given["assignments"]))
        return _made(request, policy, edit, given["reason"], version, status=201)


class MappingVersionListView(APIView):
    scopes: ClassVar[Scopes] = _READ

    @extend_schema(
        operation_id="list_mapping_versions",
        parameters=[VersionFilterSerializer],
        responses=list_of(MappingVersionSerializer),
    )
    def get(self, request: Request, policy: str) -> Response:
        """What was mapped when, the newest first; the caller's own changes where they don't read the whole."""
        given = asked(VersionFilterSerializer, request)
        rights = rights_in(policy, at=clock.now(), actor=actor_of(request))
        if "at" in given:
            rights.require_anywhere()
            try:
                line = get_version_line(rights, version_at(rights.policy, given["at"]).number)
            except NotFound:
                return listed([])
            return listed([version_json(line)])
        before = max(min(decode_cursor(given["cursor"], int), 2**31 - 1), 0) if "cursor" in given else None
        found = list_version_lines(rights, before=before, limit=_VERSIONS + 1)
        following = found[_VERSIONS - 1].version.number if len(found) > _VERSIONS else None
        return listed([version_json(line) for line in found[:_VERSIONS]], following)


class MappingVersionDetailView(APIView):
    scopes: ClassVar[Scopes] = _READ

    @extend_schema(operation_id="get_mapping_version", responses=MappingVersionDetailSerializer)
    def get(self, request: Request, policy: str, version: int) -> Response:
        """What it changed, and all rules after it, of those that the caller reads."""
        rights = rights_in(policy, at=clock.now(), actor=actor_of(request))
        line = get_version_line(rights, version)
        rules = line.rules if rights.may_name(0) else []
        return Response({**version_json(line), "rules": [stated_json(rule) for rule in rules]})


class MappingRestoreView(APIView):
    scopes: ClassVar[Scopes] = {"POST": _WRITE}

    @extend_schema(
        operation_id="restore_mapping_version",
        parameters=[IF_MATCH],
        request=MappingReasonSerializer,
        responses={201: MappingChangeSerializer},
    )
    def post(self, request: Request, policy: str, version: int) -> Response:
        """Rules and attached accounts as they were after it: a new version."""
        seen = _seen(request, policy)
        rights = rights_in(policy, at=clock.now(), actor=actor_of(request))
        get_version_line(rights, version)
        return _made(
            request, policy, Restore(version), sent(MappingReasonSerializer, request)["reason"], seen, status=201
        )


def _seen(request: Request, policy: str) -> int | None:
    """Of a mapping that the caller may read: what isn't there for them asks for no version."""
    rights_in(policy, at=clock.now(), actor=actor_of(request)).require_anywhere()
    return seen_version(request)


def _made(
    request: Request, policy: str, edit: Edit, reason: str, version: int | None, *, status: int = 200
) -> Response:
    number = make_change(
        policy_slug=policy, edit=edit, reason=reason, version=version, at=clock.now(), actor=actor_of(request)
    )
    return _tagged(Response({"version": number}, status=status), number)


def _tagged(response: Response, version: int) -> Response:
    response["ETag"] = f'"{version}"'
    return response


def _place(given: Mapping[str, Any]) -> int | None:
    return given["position"] - 1 if "position" in given else None


def _rule(request: Request, policy: str, given: dict[str, Any]) -> Rule:
    return rule_of(given, entry_uid(request, policy, given["entry"]))


def _rules(request: Request, policy: str, given: Sequence[dict[str, Any]]) -> list[Rule]:
    uids = {text: entry_uid(request, policy, text) for text in {one["entry"] for one in given}}
    return [rule_of(one, uids[one["entry"]]) for one in given]


def _places(request: Request, policy: str, given: Sequence[dict[str, Any]]) -> dict[int, Any]:
    """By id; an unknown name gets an id that no account has, and so the answer for missing ones."""
    uids = {text: entry_uid(request, policy, text) for text in {one["entry"] for one in given}}
    keys = [canonical(AccountKey(*one["account"].values())) for one in given]
    rows = Account.objects.filter(
        namespace__in={key.namespace for key in keys}, user_name__in={k.user_name for k in keys}
    )
    ids = {AccountKey(*row[1:]): row[0] for row in rows.values_list("pk", *AccountKey._fields)}
    return {ids.get(key, -at): uids[one["entry"]] for at, (key, one) in enumerate(zip(keys, given, strict=True), 1)}


def _refusal(where: str, message: str) -> Refusal:
    return Refusal(f"{where} {message}.", code="invalid", fields=[FieldProblem(where, message)])


# --- Attachments ------------------------------------------------------------------------------------------------------
READ_WRITE: Scopes = {
    "GET": frozenset({POLICIES_READ, POLICIES_WRITE}),
    "POST": frozenset({POLICIES_WRITE}),
    "DELETE": frozenset({POLICIES_WRITE}),
}
_PAGE = 100


class MappingSerializer(serializers.Serializer[Any]):
    id = serializers.IntegerField()
    account = serializers.SerializerMethodField()
    entry = serializers.UUIDField(source="entry_uid")
    path = serializers.SerializerMethodField(help_text="null: the entry is archived, and rules decide")
    reason = serializers.CharField()
    author = serializers.CharField(source="author_name")
    created_at = UtcTimeField()

    @extend_schema_field(AccountNameSerializer)
    def get_account(self, row: Attachment) -> dict[str, str]:
        return dict(zip(AccountNameSerializer().fields, attaching.key_of(row.account), strict=True))

    @extend_schema_field(serializers.CharField(allow_null=True))
    def get_path(self, row: Attachment) -> str | None:
        tree = self.context["tree"]
        i = tree.index_of_uid(row.entry_uid)
        return None if i is None else str(tree.path(i))


class NewMappingSerializer(serializers.Serializer[Any]):
    account = AccountNameSerializer()
    entry = serializers.CharField(max_length=9000, help_text="Its uid, or its path")
    reason = serializers.CharField(max_length=2000)


class MappingFilterSerializer(serializers.Serializer[Any]):
    entry = serializers.CharField(max_length=9000, required=False, help_text="Its uid, or its path: there and below")
    cursor = serializers.CharField(max_length=200, required=False)


class DetachSerializer(serializers.Serializer[Any]):
    reason = serializers.CharField(max_length=2000)


class MappingListView(APIView):
    scopes: ClassVar[Scopes] = READ_WRITE

    @extend_schema(
        operation_id="list_mappings", parameters=[MappingFilterSerializer], responses=list_of(MappingSerializer)
    )
    def get(self, request: Request, policy: str) -> Response:
        """Accounts attached by hand, at entries where the caller reads names."""
        given = asked(MappingFilterSerializer, request)
        rights = rights_in(policy, at=clock.now(), actor=actor_of(request))
        uid = entry_uid(request, policy, given["entry"]) if "entry" in given else None
        after = decode_cursor(given["cursor"], int) if "cursor" in given else 0
        rows = attaching.list_attachments(rights, entry_uid=uid, after=after, limit=_PAGE + 1)
        following = rows[_PAGE - 1].pk if len(rows) > _PAGE else None
        return listed(MappingSerializer(rows[:_PAGE], many=True, context={"tree": rights.tree}).data, following)

    @extend_schema(
        operation_id="attach_account",
        parameters=[IF_MATCH_OF_ONE],
        request=NewMappingSerializer,
        responses={201: MappingSerializer},
    )
    def post(self, request: Request, policy: str) -> Response:
        """From the next recompute on the account counts there, whatever rules say."""
        given = sent(NewMappingSerializer, request)
        made = attaching.attach_account(
            policy_slug=policy,
            entry_uid=entry_uid(request, policy, given["entry"]),
            account=AccountKey(*given["account"].values()),
            reason=given["reason"],
            version=seen_version(request, is_asked_for=False),
            at=clock.now(),
            actor=actor_of(request),
        )
        return Response(MappingSerializer(made, context=_context(request, policy)).data, status=201)


class MappingDetailView(APIView):
    scopes: ClassVar[Scopes] = READ_WRITE

    @extend_schema(operation_id="get_mapping", responses=MappingSerializer)
    def get(self, request: Request, policy: str, mapping: int) -> Response:
        rights = rights_in(policy, at=clock.now(), actor=actor_of(request))
        row = attaching.get_attachment(rights, mapping)
        return Response(MappingSerializer(row, context={"tree": rights.tree}).data)

    @extend_schema(
        operation_id="detach_account", parameters=[IF_MATCH_OF_ONE], request=DetachSerializer, responses={204: None}
    )
    def delete(self, request: Request, policy: str, mapping: int) -> Response:
        """The rules decide again where the account counts."""
        given = sent(DetachSerializer, request)
        attaching.detach_account(
            policy_slug=policy,
            attachment_id=mapping,
            reason=given["reason"],
            version=seen_version(request, is_asked_for=False),
            at=clock.now(),
            actor=actor_of(request),
        )
        return Response(status=204)


def _context(request: Request, policy: str) -> dict[str, Any]:
    return {"tree": rights_in(policy, at=clock.now(), actor=actor_of(request)).tree}
