"""Slurm's associations of one partition: an entry of its own each, with the numbers of sshare."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from django.core.files.base import ContentFile

from apps.accounts.actor import COMMAND
from apps.contrib.onboarding.first_policy_draft import LogFile, confirm_log, read_tree, send_log
from apps.contrib.onboarding.models import FirstPolicyDraft
from apps.contrib.onboarding.sshare_comparison import compare_with_sshare
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


@pytest.mark.parametrize("name", ["26.05.5/partition"])
def test_ranks_of_a_captured_site_are_those_of_its_sshare(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = CAPTURED / name
    if not folder.exists():
        pytest.skip(f"{folder} is not on this machine")
    outputs = (folder / "outputs.txt").read_text()
    printed_s = int(split_outputs(outputs).config.partition("as of ")[2].partition("\n")[0])
    at = datetime.fromtimestamp(printed_s + 60, UTC)
    monkeypatch.setenv("FAIRSHARE_CLOCK", at.isoformat())
    found = compare_with_sshare(begin(outputs, (folder / "sacct.txt").read_bytes(), at), at=at, actor=COMMAND)
    assert found is not None
    assert (found.factors.n_equal, len(found.factors.differences)) == (11, 11)
    assert found.factors.largest <= 1e-6
