"""The same jobs as nine outputs of Slurm's releases list and account for them (tests/golden/slurm/README.md)."""

from __future__ import annotations

import json
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from apps.core.errors import Unavailable
from apps.usage.parsers.registry import AUTO, format_of
from tests.usage.parsers.slurm_files import READING, facts, read
from tests.usage.parsers.slurm_releases import RELEASES, built, jobs_of_22_05, written

KINDS = {"squeue": "squeue-json", "sacct": "sacct-json"}


def jobs_of(text: bytes) -> list[Any]:
    """Every fact of each record that is read, by the format that is recognised."""
    found = read(text, collector=format_of(AUTO, text))
    assert found.rejections == []
    return facts(found.batch)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("release", RELEASES)
def test_every_release_gives_the_records_of_a_real_22_05(golden_dir: Path, release: str, kind: str) -> None:
    real = json.dumps({"jobs": jobs_of_22_05(kind), "errors": []}).encode()
    text = (golden_dir / f"slurm/releases/{release}-{kind}.json").read_bytes()
    assert format_of(AUTO, text).name == KINDS[kind]
    assert jobs_of(text) == jobs_of(real) != []
    assert text.decode() == written(built(release, kind))


@pytest.mark.parametrize("release", RELEASES)
def test_ended_rows_without_a_base_are_flagged_pending(golden_dir: Path, release: str) -> None:
    jobs = json.loads((golden_dir / f"slurm/releases/{release}-sacct.json").read_text(encoding="utf-8"))["jobs"]
    found = [job["state"]["current"] for job in jobs if "RE" in str(job["state"]["current"])]
    words = ["REQUEUED", "RESIZING", "RESIZING", "REVOKED"]
    lists = [["PENDING", word] for word in words]
    assert found == (words if RELEASES[release] < 40 else lists)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("release", [*RELEASES, "22.05"])
def test_no_jobs_give_an_empty_listing_in_every_release(golden_dir: Path, release: str, kind: str) -> None:
    name = f"site/{kind}-empty.json" if release == "22.05" else f"releases/{release}-{kind}-empty.json"
    text = (golden_dir / "slurm" / name).read_bytes()
    assert format_of(AUTO, text).name == KINDS[kind]
    assert jobs_of(text) == []


@pytest.mark.parametrize("name", ["slurmctld-squeue.json", "slurmctld-slurmrestd-jobs.json"])
def test_a_listing_of_an_unavailable_controller_is_retried(golden_dir: Path, name: str) -> None:
    """Its list of jobs is empty, and its error has no number of its own."""
    text = (golden_dir / "slurm/site/down" / name).read_bytes()
    assert json.loads(text)["jobs"] == []
    with pytest.raises(Unavailable, match="can't be reached") as refusal:
        list(format_of(AUTO, text).parse(BytesIO(text), READING))
    assert refusal.value.code == "slurm_unreachable"
