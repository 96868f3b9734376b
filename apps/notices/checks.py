"""Kinds of notices that packages bring: what is refused is named at start and in `check`."""

from __future__ import annotations

from typing import Any

from django.core.checks import CheckMessage

from apps.notices.kinds import installed_kinds
from apps.priorities.checks import refused_warnings


def check_notice_kinds(**_more: Any) -> list[CheckMessage]:
    """One warning for each entry point that is refused."""
    return refused_warnings(installed_kinds())
