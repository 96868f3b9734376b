"""A site with large trees starts with the machine code that its pages need."""

from __future__ import annotations

import pytest

from apps.accounts.actor import COMMAND
from apps.cli.stack import prepare
from apps.core.clock import now
from apps.engine import algorithms, arrays
from apps.policies.models import Entry
from apps.policies.services import make_policy


@pytest.mark.django_db
@pytest.mark.parametrize(("n_more", "n_loads"), [(0, 1), (1, 0)])
def test_machine_code_is_made_before_the_start_of_a_site_with_as_many_entries(
    monkeypatch: pytest.MonkeyPatch, n_more: int, n_loads: int
) -> None:
    make_policy(slug="grid", name="Grid", at=now(), actor=COMMAND)
    loads: list[None] = []
    monkeypatch.setattr(algorithms, "load_machine_code", lambda: loads.append(None))
    monkeypatch.setattr(arrays, "FEWEST_FOR_MACHINE_CODE", Entry.objects.filter(until=None).count() + n_more)
    prepare._compile_for_large_trees()
    assert len(loads) == n_loads
