"""Serializers of mounts and subscriptions."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from apps.api.authentication import ADMIN, POLICIES_READ, POLICIES_WRITE, Scopes
from apps.api.instants import UtcTimeField
from apps.federation.models import Fetch, Mount, Remote, Subscription
from apps.federation.staleness import age_of
from apps.policies.tree.stored import load_tree

# A token that a peer reads with has the scope `federation` alone, and manages nothing.
MANAGE: Scopes = {
    "GET": frozenset({POLICIES_READ, POLICIES_WRITE}),
    "POST": frozenset({POLICIES_WRITE}),
    "PATCH": frozenset({POLICIES_WRITE}),
    "DELETE": frozenset({POLICIES_WRITE}),
}
ADMINISTER: Scopes = {method: frozenset({ADMIN}) for method in ("GET", "POST", "DELETE")}
LONGEST_REASON = 4000


class TroubleSerializer(serializers.Serializer[Any]):
    code = serializers.CharField()
    message = serializers.CharField()


class RemoteSerializer(serializers.Serializer[Any]):
    """What both have. The token that the other side gave us is never shown."""

    id = serializers.IntegerField(source="pk")
    policy = serializers.CharField(source="policy.slug")
    entry = serializers.UUIDField(source="entry_uid")
    path = serializers.SerializerMethodField(help_text='Where the entry is now; "" when it has left the tree')
    url = serializers.CharField()
    issuer = serializers.CharField()
    fingerprint = serializers.CharField(help_text="Of the key that is trusted")
    has_token = serializers.SerializerMethodField()
    state = serializers.ChoiceField(Remote.State.choices)
    issued_at = UtcTimeField(allow_null=True, help_text="Of the newest good document")
    expires_at = UtcTimeField(allow_null=True)
    fetched_at = UtcTimeField(allow_null=True, help_text="The last try")
    good_at = UtcTimeField(allow_null=True, help_text="The last try that confirmed or brought a good one")
    age_s = serializers.SerializerMethodField(help_text="Since then; null before the first")
    due_at = UtcTimeField(allow_null=True)
    trouble = serializers.SerializerMethodField(help_text="Of the last try; null when it worked")
    n_failed = serializers.IntegerField(help_text="Tries in a row")
    every_s = serializers.IntegerField()
    max_age_s = serializers.IntegerField()
    stale_action = serializers.ChoiceField(Remote.StaleAction.choices)
    most_bytes = serializers.IntegerField()
    made_at = UtcTimeField()

    def get_path(self, remote: Mount | Subscription) -> str:
        tree = load_tree(remote.policy)
        i = tree.index_of_uid(remote.entry_uid)
        return "" if i is None else tree.path(i)

    def get_has_token(self, remote: Remote) -> bool:
        return bool(remote.sealed_token)

    def get_age_s(self, remote: Remote) -> float | None:
        at: datetime = self.context["at"]
        return age_of(remote, at)

    @extend_schema_field(TroubleSerializer(allow_null=True))
    def get_trouble(self, remote: Remote) -> dict[str, str] | None:
        return {"code": remote.error_code, "message": remote.error} if remote.error_code else None


class MountSerializer(RemoteSerializer):
    publication = serializers.CharField()
    version = serializers.IntegerField(help_text="The newest that was found good; 0: none yet")
    landed_version = serializers.IntegerField(help_text="The current one; 0: none yet")
    held = serializers.IntegerField(source="held_id", allow_null=True, help_text="Change set that waits for a decision")
    issuers = serializers.ListField(child=serializers.CharField(), help_text="Authorities that it has mounted in turn")
    most_points = serializers.FloatField()
    most_entries = serializers.IntegerField()
    most_levels = serializers.IntegerField()
    keep_usage = serializers.BooleanField(help_text="Accounts of removed entries are mapped to the mount's entry")


class SubscriptionSerializer(RemoteSerializer):
    feed = serializers.CharField()
    number = serializers.IntegerField(help_text="How far it was read; 0: nothing yet")
    source = serializers.CharField(source="source.slug")  # type: ignore[assignment]  # a name of ours
    capacity_cores = serializers.FloatField(help_text="As agreed: more can't have been used")
    reported_capacity_cores = serializers.FloatField(allow_null=True, help_text="As declared now")
    enforced_version = serializers.IntegerField(allow_null=True, help_text="Of our publication, active there")
    running_held = serializers.BooleanField(help_text="More runs there at once than it has: none of it counts")
    is_left_behind = serializers.BooleanField(help_text="There is more than one document holds")
    n_held_hours = serializers.SerializerMethodField(help_text="Hours with more than it can have used")

    def get_n_held_hours(self, remote: Subscription) -> int:
        return remote.held_hours.count()


class SettingsSerializer(serializers.Serializer[Any]):
    """Types only: which ranges there are, the room of federation says."""

    every_s = serializers.IntegerField(required=False)
    max_age_s = serializers.IntegerField(required=False)
    stale_action = serializers.ChoiceField(Remote.StaleAction.choices, required=False)
    most_bytes = serializers.IntegerField(required=False)


class MountSettingsSerializer(SettingsSerializer):
    most_points = serializers.FloatField(required=False)
    most_entries = serializers.IntegerField(required=False)
    most_levels = serializers.IntegerField(required=False)
    keep_usage = serializers.BooleanField(
        required=False, help_text="Map accounts of removed entries to the mount's entry, so that their usage counts"
    )


class ActionSerializer(serializers.Serializer[Any]):
    reason = serializers.CharField(max_length=LONGEST_REASON)


class FetchSerializer(serializers.Serializer[Any]):
    id = serializers.IntegerField(source="pk")
    at = UtcTimeField()
    outcome = serializers.ChoiceField(Fetch.Outcome.choices)
    version = serializers.IntegerField(allow_null=True, help_text="Of the document, or number of the feed")
    n_bytes = serializers.IntegerField()
    duration_s = serializers.FloatField()
    code = serializers.CharField()
    message = serializers.CharField()


class PageSerializer(serializers.Serializer[Any]):
    cursor = serializers.CharField(max_length=200, required=False)
    limit = serializers.IntegerField(min_value=1, max_value=200, required=False, default=50)


def split_settings(given: dict[str, Any], kind: type[SettingsSerializer]) -> dict[str, Any]:
    """The settings of what was sent; the rest stays in it."""
    names: list[str] = list(kind().get_fields())
    return {name: given.pop(name) for name in names if name in given}


def token_field() -> serializers.CharField:
    return serializers.CharField(
        max_length=4000,
        required=False,
        default="",
        allow_blank=True,
        help_text="What the other side gave us to read it; kept sealed, never shown again",
    )
