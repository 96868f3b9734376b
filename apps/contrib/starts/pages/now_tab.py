"""Who is shown the tab of the page of now."""

from __future__ import annotations

from apps.web.shell.requests import Visitor


def is_shown(visitor: Visitor) -> bool:
    """Managers of the shown policy, and leads of a group, whose group the page then opens."""
    return visitor.policy is not None and (visitor.manages_policy or visitor.leads)
