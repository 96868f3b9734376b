from __future__ import annotations

import io
import re
from datetime import UTC, datetime
from unittest.mock import patch

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from apps.accounts.actor import COMMAND
from apps.policies.services import make_policy
from apps.priorities.models import Snapshot
from apps.priorities.recompute import pipeline as assembly
from apps.runs.models import Run

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _policy() -> None:
    make_policy(slug="grid", name="grid", at=datetime(2005, 1, 1, tzinfo=UTC), actor=COMMAND)


def _recompute(*arguments: str) -> str:
    out = io.StringIO()
    call_command("recompute", *arguments, stdout=out, stderr=io.StringIO())
    return out.getvalue()


def test_the_command_prints_the_snapshot_when_ready() -> None:
    printed = _recompute("grid", "--wait")
    snapshot = Snapshot.objects.get()
    found, instant, ranked = printed.partition(snapshot.as_of.isoformat())
    assert instant
    assert re.findall(r"\d+", found) == [str(snapshot.pk), "1"]
    assert re.findall(r"\d+", ranked) == ["0"]
    assert snapshot.is_live


def test_without_wait_the_command_prints_the_run() -> None:
    printed = _recompute("grid")
    assert re.findall(r"\d+", printed) == [str(Run.objects.get().pk)]
    assert not Snapshot.objects.exists()


def test_a_past_instant_is_accepted_with_its_zone() -> None:
    assert " 2005-12-01T11:00:00+00:00" in _recompute("grid", "--wait", "--as-of", "2005-12-01T12:00:00+01:00")
    assert not Snapshot.objects.get().is_live


def test_limits_of_a_reconstruction_are_printed() -> None:
    printed = _recompute("grid", "--wait", "--as-of", "2005-12-01T12:00:00Z")
    assert printed.splitlines()[1:] == [
        "No usage is known at that time.",
        "No account was mapped at that time, so no usage counts.",
    ]


def test_a_failed_run_is_one_line_and_status_one() -> None:
    with (
        patch.object(assembly, "compute", side_effect=MemoryError("none left")),
        patch("apps.runs.services.BACK_OFF_S", 0.0),
        pytest.raises(CommandError, match="MemoryError: none left") as failed,
    ):
        _recompute("grid", "--wait")
    assert failed.value.returncode == 1


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (("nothing",), 1),
        (("grid", "--as-of", "2005-12-01T12:00:00"), 2),
        (("grid", "--as-of", "yesterday"), 2),
        (("grid", "--as-of", "0001-01-01T00:00:00+14:00"), 2),
        (("grid", "--as-of", "2999-01-01T00:00:00Z"), 2),
        (("grid", "--as-of", "2004-12-31T23:59:59Z"), 2),
        (("grid", "--as-of", "0001-01-01T00:00:00Z"), 2),
    ],
)
def test_bad_input_has_its_own_exit_status(arguments: tuple[str, ...], status: int) -> None:
    with pytest.raises(CommandError) as refused:
        _recompute(*arguments)
    assert refused.value.returncode == status
