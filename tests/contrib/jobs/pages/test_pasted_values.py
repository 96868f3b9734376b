"""A pasted case with too many values is refused before it is parsed."""

from __future__ import annotations

from typing import Any

import pytest

from apps.contrib.jobs.pages import pasted_jobs
from apps.core.errors import TooLarge


def test_a_pasted_case_of_too_many_values_is_refused_before_it_is_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    def parse(_text: str) -> Any:
        raise AssertionError("parsed")

    monkeypatch.setattr(pasted_jobs, "read_cases", parse)
    with pytest.raises(TooLarge):
        pasted_jobs.read_table('{"jobs":[' + "{}," * 80_001 + "{}]}", weights={}, variants=())
