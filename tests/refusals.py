"""A refusal as tests know it: by its class, its code and the field that it names, never by its sentence."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from apps.core.errors import DomainError


@contextmanager
def refused(kind: type[DomainError], code: str = "", *, field: str = "", naming: str = "") -> Iterator[None]:
    """code: the class's own unless given. field: the one that is wrong. naming: data that the sentence has to show."""
    with pytest.raises(kind) as refusal:
        yield
    error = refusal.value
    assert error.code == (code or kind.code), error.message
    if field:
        assert [problem.where for problem in error.fields] == [field], error.message
    assert naming in error.message, error.message
    assert error.message, "a refusal says what to do"
