"""How long jobs would wait if something that is tried was published: what plug-ins add to the page that tries it."""

from __future__ import annotations

from datetime import datetime

from apps.core.plugins import DrawnPart, plugins
from apps.policies.models import Policy
from apps.policies.settings import PolicySettings
from apps.policies.tree.columns import TreeColumns


def list_tried_waits(policy: Policy, tree: TreeColumns, settings: PolicySettings, at: datetime) -> list[DrawnPart]:
    """Of all plug-ins that plan queues. The caller has checked that its reader sees all numbers of the policy."""
    return [
        part
        for plugin in plugins()
        for part in plugin.waits_if_published(policy=policy, tree=tree, settings=settings, at=at)
    ]
