"""A refusal says why."""

from __future__ import annotations

from apps.core.errors import DomainError


def check_refusal(refusal: Exception) -> None:
    """Raise AssertionError for a refusal without a code or a reason."""
    assert len(str(refusal)) > 10, "refused without a reason"
    assert not isinstance(refusal, DomainError) or refusal.code
