"""System check of notice kinds that packages bring."""

from __future__ import annotations

from typing import Any

from django.core.checks import CheckMessage

from apps.notices.kinds import installed_kinds
from apps.priorities.checks import refused_warnings


def check_notice_kinds(**_more: Any) -> list[CheckMessage]:
    """One warning for each rejected entry point."""
    return refused_warnings(installed_kinds())
