"""Owners of tokens for `priorities:read` get the sight that their tokens had: from now on a token reads what its owner
sees, and a scheduler that went without an answer would be worse than a grant that is listed.
"""

from __future__ import annotations

from typing import Any

from django.db import migrations
from django.db.models import Q

from apps.core import clock

SEES = "view_members"


def let_owners_read(apps: Any, _editor: Any) -> None:
    """As `reader_grants` does for new tokens; nothing is written to the audit log, whose chain is the service's."""
    Token, Policy = apps.get_model("accounts", "Token"), apps.get_model("policies", "Policy")
    now = clock.now()
    live = Token.objects.filter(revoked_at=None, expires_at__gt=now, scopes__contains=["priorities:read"])
    for token in live.filter(user__is_active=True, user__is_superuser=False).order_by("pk"):
        wanted = Policy.objects.exclude(visibility="tree")
        for policy in wanted.filter(slug=token.policy_slug) if token.policy_slug else wanted:
            _let_read(apps, policy, token, now)


def _let_read(apps: Any, policy: Any, token: Any, now: Any) -> None:
    Entry, Grant = apps.get_model("policies", "Entry"), apps.get_model("policies", "Grant")
    root = Entry.objects.filter(policy=policy, parent_uid=None, until=None).values_list("uid", flat=True).first()
    uid = token.subtree_uid or root
    if uid is None:
        return
    lasting = Q(expires_at=None) | Q(expires_at__gte=token.expires_at)
    held = Grant.objects.filter(lasting, policy=policy, user_id=token.user_id, entry_uid__in=[uid, root])
    if held.filter(verbs__contains=[SEES]).exists():
        return
    twin = Grant.objects.filter(policy=policy, user_id=token.user_id, entry_uid=uid, role="viewer", people="").first()
    if twin is None:
        Grant.objects.create(
            policy=policy, user_id=token.user_id, entry_uid=uid, role="viewer", verbs=[SEES], created_at=now,
            expires_at=token.expires_at, reason=f"Reads priorities with the token {token.name}"[:512],
        )  # fmt: skip
        return
    twin.verbs = [*dict.fromkeys([*twin.verbs, SEES])]
    twin.expires_at = None if twin.expires_at is None else max(twin.expires_at, token.expires_at)
    twin.save(update_fields=["verbs", "expires_at"])


class Migration(migrations.Migration):
    dependencies = [("policies", "0008_reach_of_rules"), ("accounts", "0006_pseudonyms")]
    operations = [
        # Going back leaves the grants, which nothing tells from others that people gave.
        migrations.RunPython(let_owners_read, migrations.RunPython.noop)
    ]
