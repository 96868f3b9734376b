"""Slurm's associations of one partition: an entry of its own each, with the numbers of sshare."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
from django.core.files.base import ContentFile

from apps.accounts.actor import COMMAND
from apps.contrib.onboarding.first_policy_draft import (
    LogFile,
    confirm_log,
    proposed_settings,
    read_tree,
    send_log,
    tree_of,
)
from apps.contrib.onboarding.models import FirstPolicyDraft
from apps.contrib.onboarding.sshare_comparison import compare_with_sshare
from apps.engine.algorithms import compute
from apps.priorities.slurm_outputs import split_outputs
from apps.runs.services import work_run_now

pytestmark = pytest.mark.django_db

CAPTURED = Path(__file__).parents[4] / "shared/vectors/slurm"


def begin(outputs: str, log: bytes, at: datetime) -> FirstPolicyDraft:
    begun = read_tree(content=outputs.encode(), file_name="slurm.txt", format="auto", at=at, actor=COMMAND)
    file = LogFile(ContentFile(log), "sacct.txt", "auto", "fjord", "")
    sent = send_log(file, version=begun.version, at=at, actor=COMMAND)
    assert sent.dry_run is not None
    work_run_now(sent.dry_run.run_id)
    begun = confirm_log(version=sent.version, at=at, actor=COMMAND)
    assert begun.usage_import is not None
    work_run_now(begun.usage_import.run_id)
    return begun


def test_ranks_of_a_captured_site_are_those_of_its_sshare(monkeypatch: pytest.MonkeyPatch) -> None:
    """Slurm charged two jobs of synth/ann that accounting never had: their usage is taken from sshare."""
    folder = CAPTURED / "26.05.5/partition"
    if not folder.exists():
        pytest.skip(f"{folder} is not on this machine")
    outputs = (folder / "outputs.txt").read_text()
    printed_s = int(split_outputs(outputs).config.partition("as of ")[2].partition("\n")[0])
    at = datetime.fromtimestamp(printed_s + 60, UTC)
    monkeypatch.setenv("FAIRSHARE_CLOCK", at.isoformat())
    begun = begin(outputs, (folder / "sacct.txt").read_bytes(), at)
    found = compare_with_sshare(begun, at=at, actor=COMMAND)
    assert found is not None
    assert len(found.factors.differences) == 11
    assert {row.user for row in found.usage.rows if int(row.ours) != row.theirs} == {"ann"}
    assert [row.theirs for row in found.usage.rows if row.user == "svc-hep"] == [88]
    assert found.factors.n_equal == 9, "o.neil and ann change places by what the log lacks"
    tree = tree_of(begun)
    used = np.zeros(len(tree))
    for row in found.usage.rows:
        entry = next(
            each.entry for each in found.factors.differences if (each.group, each.user) == (row.group, row.user)
        )
        used[entry] = row.theirs
    result = compute(tree.engine_tree(), used, algorithm=proposed_settings(begun).algorithm)
    different = [row for row in found.factors.differences if abs(result.factor[row.entry] - row.theirs) > 1e-6]
    assert different == []
