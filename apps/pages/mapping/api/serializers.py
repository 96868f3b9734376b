"""Serializers of mapping rules, moves, suggestions and versions, and the functions that fill them."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from apps.accounts.account_keys import AccountKey
from apps.mapping.attachments import key_of
from apps.mapping.changes import MOST_ASSIGNED, MOST_MAPPING_RULES, Plan
from apps.mapping.models import Attachment
from apps.mapping.permissions import MapRights
from apps.mapping.rules.problems import problem_text
from apps.mapping.rules.resolver import UNMAPPED, reach_of
from apps.mapping.rules.rule import KINDS, LONGEST_SUFFIX, Rule
from apps.mapping.selectors import OtherCaseRow, RuleRow, UnmappedRow
from apps.mapping.suggestions import SURE, Suggestion
from apps.mapping.versions import VersionRow
from apps.policies.tree.names import MOST_ENTRY_SHARES
from apps.policies.tree.terms import MOST_TERM_DAYS
from apps.web import bounds
from apps.web.rest.bounded_fields import BoundedListField
from apps.web.rest.shapes import UtcTimeField, reach_json

MOST_PLANNED_MOVES = 1_000


class AccountNameSerializer(serializers.Serializer[Any]):
    namespace = serializers.CharField(max_length=bounds.NAMESPACE)
    user = serializers.CharField(max_length=bounds.USER, required=False, default="", allow_blank=True)
    group = serializers.CharField(max_length=bounds.GROUP, required=False, default="", allow_blank=True)
    dn = serializers.CharField(max_length=bounds.DN, required=False, default="", allow_blank=True)
    fqan = serializers.CharField(max_length=bounds.FQAN, required=False, default="", allow_blank=True)
    project = serializers.CharField(max_length=bounds.PROJECT, required=False, default="", allow_blank=True)


class RuleFieldsSerializer(serializers.Serializer[Any]):
    """A mapping rule. An account matches if it matches all conditions that are not empty."""

    kind = serializers.ChoiceField(KINDS)
    source = serializers.CharField(  # type: ignore[assignment]
        max_length=bounds.SOURCE_SLUG,
        required=False,
        default="",
        allow_blank=True,
        help_text="Slug of a usage source, for accounts of its namespace",
    )
    namespace = serializers.CharField(max_length=bounds.NAMESPACE, required=False, default="", allow_blank=True)
    user = serializers.CharField(
        max_length=bounds.USER,
        required=False,
        default="",
        allow_blank=True,
        help_text="User name or DN, or a pattern of them",
    )
    group = serializers.CharField(max_length=bounds.GROUP, required=False, default="", allow_blank=True)
    fqan = serializers.CharField(
        max_length=bounds.FQAN,
        required=False,
        default="",
        allow_blank=True,
        help_text="FQAN; also matches FQANs below it",
    )
    entry = serializers.CharField(
        max_length=bounds.ENTRY, help_text="uid or path of the target; / for the whole policy"
    )
    suffix = serializers.CharField(
        max_length=LONGEST_SUFFIX,
        required=False,
        default="",
        allow_blank=True,
        help_text="Path below the entry, with {user}, {group}, {project}",
    )
    shares = serializers.FloatField(min_value=0, max_value=MOST_ENTRY_SHARES, required=False, default=1.0)
    archive_after_idle_days = serializers.IntegerField(
        min_value=1, max_value=MOST_TERM_DAYS, required=False, default=None, allow_null=True
    )


class NewMappingRuleSerializer(RuleFieldsSerializer):
    position = serializers.IntegerField(
        min_value=1,
        max_value=MOST_MAPPING_RULES,
        required=False,
        help_text="Insert before the rule at this position; default: as the last of its kind",
    )
    reason = serializers.CharField(max_length=bounds.REASON)


class ChangedMappingRuleSerializer(serializers.Serializer[Any]):
    """A complete rule that replaces the old one, a new position, or both."""

    rule = RuleFieldsSerializer(required=False)
    position = serializers.IntegerField(min_value=1, max_value=MOST_MAPPING_RULES, required=False)
    reason = serializers.CharField(max_length=bounds.REASON)


class MappingRuleListSerializer(serializers.Serializer[Any]):
    rules = BoundedListField(child=RuleFieldsSerializer(), max_length=MOST_MAPPING_RULES)
    reason = serializers.CharField(max_length=bounds.REASON)


class AssignmentSerializer(serializers.Serializer[Any]):
    account = AccountNameSerializer()
    entry = serializers.CharField(max_length=bounds.ENTRY, help_text="uid or path")


class AssignmentListSerializer(serializers.Serializer[Any]):
    assignments = BoundedListField(child=AssignmentSerializer(), min_length=1, max_length=MOST_ASSIGNED)
    reason = serializers.CharField(max_length=bounds.REASON)


class MappingTrialSerializer(serializers.Serializer[Any]):
    """One of rules, assignments and restore: the body of the change itself, in which the reason may be missing."""

    rules = BoundedListField(child=RuleFieldsSerializer(), max_length=MOST_MAPPING_RULES, required=False)
    assignments = BoundedListField(child=AssignmentSerializer(), min_length=1, max_length=MOST_ASSIGNED, required=False)
    restore = serializers.IntegerField(min_value=1, required=False, help_text="Number of a version")
    reason = serializers.CharField(max_length=bounds.REASON, required=False)


class MappingReasonSerializer(serializers.Serializer[Any]):
    reason = serializers.CharField(max_length=bounds.REASON)


class RuleProblemSerializer(serializers.Serializer[Any]):
    code = serializers.CharField(help_text="no_entry no_source no_namespace leads_to_root after_default ambiguous")
    message = serializers.CharField()
    matches_nothing = serializers.BooleanField(help_text="No account can match the rule")


class MappingRuleSerializer(serializers.Serializer[Any]):
    position = serializers.IntegerField()
    kind = serializers.ChoiceField(KINDS)
    source = serializers.CharField()  # type: ignore[assignment]
    namespace = serializers.CharField()
    user = serializers.CharField()
    group = serializers.CharField()
    fqan = serializers.CharField()
    entry = serializers.UUIDField()
    path = serializers.CharField(allow_null=True, help_text="null: the entry is archived, and the rule has no effect")
    suffix = serializers.CharField()
    shares = serializers.FloatField()
    archive_after_idle_days = serializers.IntegerField(allow_null=True)
    reach = serializers.UUIDField(
        allow_null=True, help_text="Entry below which the rule may move accounts; null: the whole policy"
    )
    reach_path = serializers.CharField(allow_null=True)
    accounts = serializers.IntegerField(help_text="Number of accounts that the rule maps now")
    core_s = serializers.FloatField(help_text="Usage of these accounts in the last 30 days")
    problems = RuleProblemSerializer(many=True)


class MappingRulesSerializer(serializers.Serializer[Any]):
    version = serializers.IntegerField()
    results = MappingRuleSerializer(many=True)
    next = serializers.CharField(allow_null=True)


class MoveSerializer(serializers.Serializer[Any]):
    account = AccountNameSerializer()
    before = serializers.CharField(
        allow_null=True, help_text="Path; null: no entry, or one that the caller may not see"
    )
    after = serializers.CharField(allow_null=True)
    core_s = serializers.FloatField(help_text="Usage of the account in the last 30 days")


class MappingPlanSerializer(serializers.Serializer[Any]):
    version = serializers.IntegerField()
    accounts = serializers.IntegerField(
        help_text="Number of accounts that would move, of those that the caller may read"
    )
    core_s = serializers.FloatField(help_text="Usage of these accounts in the last 30 days")
    accounts_of_others = serializers.IntegerField(
        allow_null=True, help_text="Number of other accounts that would move; null: fewer than five"
    )
    refusal = serializers.CharField(help_text='Why the caller may not make this change; "": allowed')
    moves = MoveSerializer(many=True, help_text="Moves that the caller may read, the most usage first; at most 1,000")


class SuggestionSerializer(serializers.Serializer[Any]):
    entry = serializers.UUIDField()
    path = serializers.CharField()
    why = serializers.CharField(help_text="Reason as a stable code")
    sure = serializers.FloatField(help_text="Confidence, 0 to 1")


class UnmappedAccountSerializer(serializers.Serializer[Any]):
    account = AccountNameSerializer()
    core_s = serializers.FloatField(help_text="Usage of the account in the last 30 days")
    jobs = serializers.FloatField()
    last_at = UtcTimeField(allow_null=True)
    suggestions = SuggestionSerializer(many=True)
    counts_at = serializers.CharField(
        allow_null=True,
        help_text="null: at no entry; or the path of a group, one of whose entries differs by letter case alone",
    )


class MappingChangeSerializer(serializers.Serializer[Any]):
    version = serializers.IntegerField()


class PlacementSerializer(serializers.Serializer[Any]):
    account = AccountNameSerializer(allow_null=True)
    before = serializers.UUIDField(allow_null=True)
    after = serializers.UUIDField(allow_null=True)


class StatedRuleSerializer(RuleFieldsSerializer):
    entry = serializers.CharField(help_text="uid")


class MappingVersionSerializer(serializers.Serializer[Any]):
    version = serializers.IntegerField()
    at = UtcTimeField()
    author = serializers.CharField()
    reason = serializers.CharField()
    added = StatedRuleSerializer(many=True)
    removed = StatedRuleSerializer(many=True)
    reordered = serializers.BooleanField()
    attached = PlacementSerializer(many=True)


class MappingVersionDetailSerializer(MappingVersionSerializer):
    rules = StatedRuleSerializer(many=True, help_text="All rules after this version")


class MappingSerializer(serializers.Serializer[Any]):
    id = serializers.IntegerField()
    account = serializers.SerializerMethodField()
    entry = serializers.UUIDField(source="entry_uid")
    path = serializers.SerializerMethodField(help_text="null: the entry is archived, and rules apply")
    reason = serializers.CharField()
    author = serializers.CharField(source="author_name")
    created_at = UtcTimeField()

    @extend_schema_field(AccountNameSerializer)
    def get_account(self, row: Attachment) -> dict[str, str]:
        return account_json(key_of(row.account))

    @extend_schema_field(serializers.CharField(allow_null=True))
    def get_path(self, row: Attachment) -> str | None:
        tree = self.context["tree"]
        i = tree.index_of_uid(row.entry_uid)
        return None if i is None else str(tree.path(i))


class NewMappingSerializer(serializers.Serializer[Any]):
    account = AccountNameSerializer()
    entry = serializers.CharField(max_length=bounds.ENTRY, help_text="uid or path")
    reason = serializers.CharField(max_length=bounds.REASON)


class MappingFilterSerializer(serializers.Serializer[Any]):
    entry = serializers.CharField(
        max_length=bounds.ENTRY, required=False, help_text="uid or path; attachments at this entry and below it"
    )
    cursor = serializers.CharField(max_length=bounds.CURSOR, required=False)


class DetachSerializer(serializers.Serializer[Any]):
    reason = serializers.CharField(max_length=bounds.REASON)


def rule_of(fields: dict[str, Any], uid: UUID) -> Rule:
    is_each = fields["kind"] == "each"
    return Rule(
        kind=fields["kind"],
        target_uid=uid,
        namespace=fields["namespace"],
        source=fields["source"],
        user_pattern=fields["user"],
        group_pattern=fields["group"],
        fqan_pattern=fields["fqan"],
        suffix=fields["suffix"],
        member_shares=fields["shares"] if is_each else 1.0,
        archive_after_idle_days=fields["archive_after_idle_days"] if is_each else None,
    )


def stated_json(rule: Rule) -> dict[str, Any]:
    return {
        "kind": rule.kind,
        "source": rule.source,
        "namespace": rule.namespace,
        "user": rule.user_pattern,
        "group": rule.group_pattern,
        "fqan": rule.fqan_pattern,
        "entry": str(rule.target_uid),
        "suffix": rule.suffix,
        "shares": rule.member_shares,
        "archive_after_idle_days": rule.archive_after_idle_days,
    }


def rule_json(rights: MapRights, line: RuleRow, rule: Rule) -> dict[str, Any]:
    path = None if line.target is None else rights.tree.path(line.target)
    reach = None if line.target is None else reach_of(rights.tree, rule, line.target)
    return {
        "position": line.at + 1,
        **stated_json(rule),
        "path": path,
        **reach_json(rights.tree, reach),
        "accounts": line.n_accounts,
        "core_s": line.core_s,
        "problems": [
            {"code": problem.code, "message": problem_text(problem), "matches_nothing": problem.matches_nothing}
            for problem in line.problems
        ],
    }


def account_json(key: AccountKey) -> dict[str, str]:
    return dict(zip(AccountNameSerializer().fields, key, strict=True))


def unmapped_json(rights: MapRights, line: UnmappedRow) -> dict[str, Any]:
    return {
        "account": account_json(line.key),
        "core_s": line.usage.core_s,
        "jobs": line.usage.jobs,
        "last_at": line.usage.last_at,
        "suggestions": [
            {
                "entry": rights.tree.uuid(suggestion.entry),
                "path": rights.tree.path(suggestion.entry),
                "why": suggestion.why,
                "sure": round(suggestion.sure, 4),
            }
            for suggestion in line.suggestions
        ],
        "counts_at": None,
    }


def other_case_json(rights: MapRights, line: OtherCaseRow) -> dict[str, Any]:
    suggestion = Suggestion(line.likely, "same_name_folded", SURE["same_name_folded"])
    row = UnmappedRow(line.account, line.key, line.usage, [suggestion])
    return {**unmapped_json(rights, row), "counts_at": rights.tree.path(line.counts_at)}


def plan_json(plan: Plan) -> dict[str, Any]:
    return {
        "version": plan.version,
        "accounts": len(plan.readable),
        "core_s": plan.core_s,
        "refusal": plan.refusal,
        "accounts_of_others": plan.n_of_others,
        "moves": [
            {
                "account": account_json(move.key),
                "before": _path(plan.rights, move.before),
                "after": _path(plan.rights, move.after),
                "core_s": move.usage.core_s,
            }
            for move in plan.readable[:MOST_PLANNED_MOVES]
        ],
    }


def version_json(line: VersionRow) -> dict[str, Any]:
    row = line.version
    return {
        "version": row.number,
        "at": row.at,
        "author": row.author_name,
        "reason": row.reason,
        "added": [stated_json(rule) for rule in line.added],
        "removed": [stated_json(rule) for rule in line.removed],
        "reordered": line.is_reordered,
        "attached": [
            {
                "account": None if key is None else account_json(key),
                "before": placement.before,
                "after": placement.after,
            }
            for key, placement in line.placements
        ],
    }


def _path(rights: MapRights, entry: int) -> str | None:
    return rights.tree.path(entry) if entry != UNMAPPED and rights.sees.may_see(entry) else None
