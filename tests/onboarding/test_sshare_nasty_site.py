"""A Slurm site whose charges depend on QOS, weights, running jobs and a short half-life: our numbers are sshare's."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from django.core.files.base import ContentFile

from apps.accounts.actor import COMMAND
from apps.onboarding.first_policy_draft import LogFile, confirm_log, read_tree, send_log
from apps.onboarding.models import Beginning
from apps.onboarding.sshare_comparison import SshareComparison, compare_with_sshare
from apps.policies.settings import PolicySettings
from apps.runs.services import work_run_now

pytestmark = pytest.mark.django_db
READ_AT = datetime.fromtimestamp(1_795_716_424, UTC)


@pytest.fixture(autouse=True)
def _clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAIRSHARE_CLOCK", READ_AT.isoformat())


@pytest.fixture
def folder(golden_dir: Path) -> Path:
    return golden_dir / "slurm/nasty"


def begin(folder: Path, *, config: str | None = None) -> Beginning:
    outputs = (folder / "dump.cfg").read_text() + (folder / "sshare.txt").read_text()
    config = (folder / "config.txt").read_text() if config is None else config
    begun = read_tree(
        content=outputs.encode(),
        slurm_config=config.encode(),
        file_name="slurm.txt",
        format="auto",
        at=READ_AT,
        actor=COMMAND,
    )
    log = LogFile(ContentFile((folder / "sacct.txt").read_bytes()), "sacct.txt", "auto", "c1", "")
    sent = send_log(log, version=begun.version, at=READ_AT, actor=COMMAND)
    assert sent.dry_run is not None
    work_run_now(sent.dry_run.run_id)
    begun = confirm_log(version=sent.version, at=READ_AT, actor=COMMAND)
    assert begun.usage_import is not None
    work_run_now(begun.usage_import.run_id)
    return begun


def compared(begun: Beginning, settings: PolicySettings | None = None) -> SshareComparison:
    found = compare_with_sshare(begun, settings=settings, at=READ_AT, actor=COMMAND)
    assert found is not None
    return found


def test_every_number_of_sshare_comes_out(folder: Path) -> None:
    begun = begin(folder)
    found = compared(begun)
    different = [(row.group, row.user, row.ours, row.theirs) for row in found.usage.rows if int(row.ours) != row.theirs]
    assert different == [], "RawUsage is cut to whole numbers"
    assert found.usage.n_different == 0
    assert (found.factors.n_equal, len(found.factors.differences)) == (16, 16)
    assert found.factors.largest <= 1e-6
