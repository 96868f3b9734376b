"""Where ranks aren't used: what every page and answer that shows a rank says beside it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from apps.accounts.request_cache import once_per_request
from apps.core.plugins import plugins
from apps.priorities.sentences import Message

# Help text of the field in answers of REST.
RANK_USE = "Where a scheduler of the policy doesn't use these ranks; empty: all do, or none is connected"


def rank_use_of(policy_slug: str, uid: UUID | None = None) -> Sequence[Message]:
    """Of what doesn't order jobs by the ranks of a policy, or uid: of an entry; empty where all do. Cached for the
    request. The caller has checked that its reader sees the policy.
    """

    def found() -> Sequence[Message]:
        return [one for plugin in plugins() for one in plugin.rank_uses(policy_slug=policy_slug, uid=uid)]

    return once_per_request(("rank use", policy_slug, uid), found)


def rank_use_json(policy_slug: str, uid: UUID | None = None) -> list[dict[str, Any]]:
    """`rank_use_of` as JSON for REST."""
    return [message.json() for message in rank_use_of(policy_slug, uid)]
