"""Why a command refused: the code of what its service raised, whatever the sentence says."""

from __future__ import annotations

from apps.core.errors import DomainError


def code_of(refusal: BaseException) -> str:
    cause = refusal.__cause__
    assert isinstance(cause, DomainError), repr(refusal)
    return cause.code
