"""The mapping of a policy: rules, previews of changes, versions and unmapped accounts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar
from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.account_keys import AccountKey, canonical
from apps.accounts.models import Account
from apps.core import clock
from apps.core.errors import NotFound
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
from apps.mapping.permissions import rights_in
from apps.mapping.rules.rule import Rule
from apps.mapping.selectors import PAGE, get_mapping_page
from apps.mapping.versions import get_version_row, list_version_rows, version_at
from apps.pages.mapping.api.serializers import (
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
    other_case_json,
    plan_json,
    rule_json,
    rule_of,
    stated_json,
    unmapped_json,
    version_json,
)
from apps.web.rest.authentication import POLICIES_READ, POLICIES_WRITE, Scopes, actor_of
from apps.web.rest.cursors import CursorSerializer, read_cursor
from apps.web.rest.if_match import if_match_header, require_version
from apps.web.rest.inputs import InstantField, entry_uid, field_refusal, read_body, read_query
from apps.web.rest.shapes import first_page, list_response, list_schema, with_etag
from apps.web.rest.views import APIView

_READ: Scopes = {"GET": frozenset({POLICIES_READ, POLICIES_WRITE})}
_WRITE = frozenset({POLICIES_WRITE})
_VERSIONS = 50


class VersionFilterSerializer(CursorSerializer):
    at = InstantField(required=False, help_text="Only the version that was current at this instant")


class _MappingView(APIView):
    def before_body(self, request: Request, *, policy: str) -> None:
        rights_in(policy, at=clock.now(), actor=actor_of(request)).require_anywhere()


class MappingRuleListView(_MappingView):
    scopes: ClassVar[Scopes] = {**_READ, "PUT": _WRITE, "POST": _WRITE}

    @extend_schema(operation_id="list_mapping_rules", responses=MappingRulesSerializer)
    def get(self, request: Request, policy: str) -> Response:
        """Rules in the order of their evaluation, for entries where the caller may read names."""
        page = get_mapping_page(policy_slug=policy, at=clock.now(), actor=actor_of(request))
        rules = [rule_json(page.rights, line, line.rule) for line in page.rules if line.rule is not None]
        return with_etag(Response({"version": page.version, "results": rules, "next": None}), page.version)

    @extend_schema(
        operation_id="replace_mapping_rules",
        parameters=[if_match_header("the mapping")],
        request=MappingRuleListSerializer,
        responses=MappingChangeSerializer,
    )
    def put(self, request: Request, policy: str) -> Response:
        """Replace all rules. Exact rules are evaluated first and default rules last, whatever their position."""
        version = _seen(request, policy)
        body = read_body(MappingRuleListSerializer, request)
        return _made(request, policy, ReplaceRules(_rules(request, policy, body["rules"])), body["reason"], version)

    @extend_schema(
        operation_id="add_mapping_rule",
        parameters=[if_match_header("the mapping")],
        request=NewMappingRuleSerializer,
        responses={201: MappingChangeSerializer},
    )
    def post(self, request: Request, policy: str) -> Response:
        """Add a rule: before the rule at `position`, or as the last of its kind."""
        version = _seen(request, policy)
        body = read_body(NewMappingRuleSerializer, request)
        edit = AddRule(_rule(request, policy, body), _index(body))
        return _made(request, policy, edit, body["reason"], version, status=201)


class MappingRuleDetailView(APIView):
    scopes: ClassVar[Scopes] = {"PATCH": _WRITE, "DELETE": _WRITE}

    @extend_schema(
        operation_id="change_mapping_rule",
        parameters=[if_match_header("the mapping")],
        request=ChangedMappingRuleSerializer,
        responses=MappingChangeSerializer,
    )
    def patch(self, request: Request, policy: str, position: int) -> Response:
        """Replace a rule, move it, or both. Positions are those of the version in If-Match."""
        version = _seen(request, policy)
        body = read_body(ChangedMappingRuleSerializer, request)
        edit: Edit
        if "rule" in body:
            edit = ChangeRule(position - 1, _rule(request, policy, body["rule"]), _index(body))
        elif "position" in body:
            edit = MoveRule(position - 1, body["position"] - 1)
        else:
            raise field_refusal("rule", "or position must be given")
        return _made(request, policy, edit, body["reason"], version)

    @extend_schema(
        operation_id="remove_mapping_rule",
        parameters=[if_match_header("the mapping"), MappingReasonSerializer],
        responses=MappingChangeSerializer,
    )
    def delete(self, request: Request, policy: str, position: int) -> Response:
        """Remove a rule."""
        version = _seen(request, policy)
        query = read_query(MappingReasonSerializer, request)
        return _made(request, policy, RemoveRule(position - 1), query["reason"], version)


class MappingTrialView(_MappingView):
    scopes: ClassVar[Scopes] = {"POST": frozenset({POLICIES_READ, POLICIES_WRITE})}
    on_repeat = "work"

    @extend_schema(operation_id="try_mapping", request=MappingTrialSerializer, responses=MappingPlanSerializer)
    def post(self, request: Request, policy: str) -> Response:
        """Preview a change of the mapping: accounts that would move between entries, and their usage. Read-only."""
        body = read_body(MappingTrialSerializer, request)
        if len(body.keys() - {"reason"}) != 1:
            raise field_refusal("body", "must have one of rules, assignments, restore")
        edit: Edit
        if "rules" in body:
            edit = ReplaceRules(_rules(request, policy, body["rules"]))
        elif "assignments" in body:
            edit = Assign(_assigned(request, policy, body["assignments"]))
        else:
            edit = Restore(body["restore"])
        plan = preview_change(policy_slug=policy, edit=edit, at=clock.now(), actor=actor_of(request))
        return with_etag(Response(plan_json(plan)), plan.version)


class UnmappedAccountListView(APIView):
    scopes: ClassVar[Scopes] = _READ

    @extend_schema(
        operation_id="list_unmapped_accounts",
        parameters=[CursorSerializer],
        responses=list_schema(UnmappedAccountSerializer),
    )
    def get(self, request: Request, policy: str) -> Response:
        """Accounts that no rule maps to an entry, the most usage first, with suggested entries.

        The first page begins with accounts that count at a group (`counts_at`) whose entry of their name is written in
        another letter case.
        Managers of a part of the policy get the accounts that may belong there.
        """
        query = read_query(CursorSerializer, request)
        after = max(read_cursor(query) or 0, 0)
        page = get_mapping_page(policy_slug=policy, after=min(after, 2**31), at=clock.now(), actor=actor_of(request))
        rows = [] if after else [other_case_json(page.rights, line) for line in page.other_case]
        rows += [unmapped_json(page.rights, line) for line in page.unmapped[:PAGE]]
        return with_etag(list_response(rows, page.next_after), page.version)


class AssignmentListView(_MappingView):
    scopes: ClassVar[Scopes] = {"POST": _WRITE}

    @extend_schema(
        operation_id="assign_accounts",
        parameters=[if_match_header("the mapping")],
        request=AssignmentListSerializer,
        responses={201: MappingChangeSerializer},
    )
    def post(self, request: Request, policy: str) -> Response:
        """Attach several accounts to entries in one version of the mapping."""
        version = _seen(request, policy)
        body = read_body(AssignmentListSerializer, request)
        edit = Assign(_assigned(request, policy, body["assignments"]))
        return _made(request, policy, edit, body["reason"], version, status=201)


class MappingVersionListView(APIView):
    scopes: ClassVar[Scopes] = _READ

    @extend_schema(
        operation_id="list_mapping_versions",
        parameters=[VersionFilterSerializer],
        responses=list_schema(MappingVersionSerializer),
    )
    def get(self, request: Request, policy: str) -> Response:
        """Versions of the mapping, newest first. Callers who may not read the whole mapping get their own changes."""
        query = read_query(VersionFilterSerializer, request)
        rights = rights_in(policy, at=clock.now(), actor=actor_of(request))
        if "at" in query:
            rights.require_anywhere()
            try:
                line = get_version_row(rights, version_at(rights.policy, query["at"]).number)
            except NotFound:
                return list_response([])
            return list_response([version_json(line)])
        before = read_cursor(query)
        before = None if before is None else max(min(before, 2**31 - 1), 0)
        version_rows = list_version_rows(rights, before=before, limit=_VERSIONS + 1)
        page, last = first_page(version_rows, _VERSIONS, lambda line: line.version.number)
        return list_response([version_json(line) for line in page], last)


class MappingVersionDetailView(APIView):
    scopes: ClassVar[Scopes] = _READ

    @extend_schema(operation_id="get_mapping_version", responses=MappingVersionDetailSerializer)
    def get(self, request: Request, policy: str, version: int) -> Response:
        """One version: its changes, and all rules after it, as far as the caller may read them."""
        rights = rights_in(policy, at=clock.now(), actor=actor_of(request))
        line = get_version_row(rights, version)
        rules = line.rules if rights.may_name(0) else []
        return Response({**version_json(line), "rules": [stated_json(rule) for rule in rules]})


class MappingRestoreView(APIView):
    scopes: ClassVar[Scopes] = {"POST": _WRITE}

    @extend_schema(
        operation_id="restore_mapping_version",
        parameters=[if_match_header("the mapping")],
        request=MappingReasonSerializer,
        responses={201: MappingChangeSerializer},
    )
    def post(self, request: Request, policy: str, version: int) -> Response:
        """Restore rules and attached accounts as they were after a version. This makes a new version."""
        seen = _seen(request, policy)
        rights = rights_in(policy, at=clock.now(), actor=actor_of(request))
        get_version_row(rights, version)
        return _made(
            request, policy, Restore(version), read_body(MappingReasonSerializer, request)["reason"], seen, status=201
        )


def _seen(request: Request, policy: str) -> int | None:
    """The version in If-Match; 404 first if the caller may not read the mapping."""
    rights_in(policy, at=clock.now(), actor=actor_of(request)).require_anywhere()
    return require_version(request, "mapping")


def _made(
    request: Request, policy: str, edit: Edit, reason: str, version: int | None, *, status: int = 200
) -> Response:
    number = make_change(
        policy_slug=policy, edit=edit, reason=reason, version=version, at=clock.now(), actor=actor_of(request)
    )
    return with_etag(Response({"version": number}, status=status), number)


def _index(body: Mapping[str, Any]) -> int | None:
    return body["position"] - 1 if "position" in body else None


def _rule(request: Request, policy: str, body: dict[str, Any]) -> Rule:
    return rule_of(body, entry_uid(request, policy, body["entry"]))


def _entry_uids(request: Request, policy: str, items: Sequence[dict[str, Any]]) -> dict[str, UUID]:
    return {text: entry_uid(request, policy, text) for text in {item["entry"] for item in items}}


def _rules(request: Request, policy: str, rules: Sequence[dict[str, Any]]) -> list[Rule]:
    uids = _entry_uids(request, policy, rules)
    return [rule_of(rule, uids[rule["entry"]]) for rule in rules]


def _assigned(request: Request, policy: str, assignments: Sequence[dict[str, Any]]) -> dict[int, UUID]:
    """Entries by account id. Unknown accounts get negative ids, which the service rejects as missing."""
    uids = _entry_uids(request, policy, assignments)
    keys = [canonical(AccountKey(*assignment["account"].values())) for assignment in assignments]
    rows = Account.objects.filter(
        namespace__in={key.namespace for key in keys}, user_name__in={k.user_name for k in keys}
    )
    ids = {AccountKey(*row[1:]): row[0] for row in rows.values_list("pk", *AccountKey._fields)}
    return {
        ids.get(key, -at): uids[assignment["entry"]]
        for at, (key, assignment) in enumerate(zip(keys, assignments, strict=True), 1)
    }
