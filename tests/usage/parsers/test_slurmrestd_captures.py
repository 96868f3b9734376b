"""Jobs as a real slurmrestd of 24.11 and 26.05 answered them, by each parser that it has."""

from __future__ import annotations

import io
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
import pytest

from apps.usage.parsers.base import Reading, concatenate_batches
from apps.usage.parsers.registry import FORMATS
from apps.usage.parsers.sluids import sluid_of
from apps.usage.parsers.slurm_values import read_tres

AT = datetime(2027, 1, 1, tzinfo=UTC)
PARSERS = [("24.11.5", f"v0.0.{n}") for n in (40, 41, 42)] + [("26.05.5", f"v0.0.{n}") for n in (42, 43, 44, 45)]


def jobs_of(golden_dir: Path, release: str, family: str, parser: str) -> list[dict[str, Any]]:
    text = (golden_dir / "slurm" / release / "rest" / f"{family}-{parser}-jobs.json").read_bytes()
    jobs: list[dict[str, Any]] = orjson.loads(text)["jobs"]
    return jobs


def read(jobs: list[dict[str, Any]], format: str) -> list[tuple[Any, ...]]:
    document = orjson.dumps({"jobs": jobs, "errors": []})
    pieces = list(FORMATS[format].parse(io.BytesIO(document), Reading(AT)))
    assert [each.rejections for each in pieces] == [[]] * len(pieces)
    batch = concatenate_batches([each.batch for each in pieces])
    users = [batch.people[code] for code in batch.who.tolist()]
    columns = (batch.job, batch.state, batch.submit_us, batch.start_us, batch.end_us, batch.cpus, batch.mem_mb)
    return list(zip(*(column.tolist() for column in columns), users, strict=True))


@pytest.mark.parametrize(("release", "parser"), PARSERS)
@pytest.mark.parametrize(("family", "format"), [("slurmdb", "sacct-json"), ("slurm", "squeue-json")])
def test_each_parser_of_each_release_is_read_whole(
    release: str, parser: str, family: str, format: str, golden_dir: Path
) -> None:
    jobs = jobs_of(golden_dir, release, family, parser)
    rows = read(jobs, format)
    assert sorted({row[0] for row in rows}) == sorted({str(job["job_id"]).encode() for job in jobs})


@pytest.mark.parametrize(("family", "format"), [("slurmdb", "sacct-json"), ("slurm", "squeue-json")])
@pytest.mark.parametrize("release", ["24.11.5", "26.05.5"])
def test_the_parsers_of_a_release_agree_about_a_job(release: str, family: str, format: str, golden_dir: Path) -> None:
    """The captures of older parsers are shorter: what they have, the newest has, too."""
    parsers = [parser for of, parser in PARSERS if of == release]
    newest = {row[0] for row in read(jobs_of(golden_dir, release, family, parsers[-1]), format)}
    for parser in parsers[:-1]:
        older = read(jobs_of(golden_dir, release, family, parser), format)
        assert older
        assert {row[0] for row in older} <= newest


def test_26_05_names_the_job_in_accounting_and_in_the_queue_by_one_sluid(golden_dir: Path) -> None:
    """Also the one that was resized, whose row of accounting has another of its own."""
    accounted = jobs_of(golden_dir, "26.05.5", "slurmdb", "v0.0.45")
    runs = {job["job_id"]: job for job in accounted if "REQUEUED" not in job["state"]["current"]}
    shared = [job for job in jobs_of(golden_dir, "26.05.5", "slurm", "v0.0.45") if job["job_id"] in runs]
    of_both = [(job["step_id"]["sluid"], runs[job["job_id"]]["original_sluid"]) for job in shared]
    assert any(job["sluid"] != job["original_sluid"] for job in runs.values())
    assert of_both
    assert all(sluid_of(listed) == sluid_of(stored) != 0 for listed, stored in of_both)


def test_several_qos_and_partitions_of_a_job_that_waits_are_its_class_until_it_starts(golden_dir: Path) -> None:
    waits = next(
        job for job in jobs_of(golden_dir, "26.05.5", "slurm", "v0.0.45") if job["job_state"] == ["PENDING"]
    ) | {"qos": "normal,high", "partition": "batch,gpu", "priority_by_partition": [{"partition": "batch"}]}
    document = orjson.dumps({"jobs": [waits], "errors": []})
    (parsed,) = FORMATS["squeue-json"].parse(io.BytesIO(document), Reading(AT))
    assert parsed.rejections == []
    assert [tuple(key) for key in parsed.batch.job_classes] == [("", "batch,gpu", "normal,high")]


@pytest.mark.parametrize(
    ("text", "kinds", "ignored"),
    [
        ("cpu=2,mem=4G,license/power=30", (("license/power", 30.0),), ()),
        ("cpu=2,mem=4G,license/natural=3,hres/flat=7", (("hres/flat", 7.0), ("license/natural", 3.0)), ()),
        ("cpu=2,mem=4G,license/matlab@srv=2", (("license/matlab@srv", 2.0),), ()),
        ("cpu=2,mem=4G,hres/flat=many,odd=x", (), ("hres/flat", "odd")),
    ],
)
def test_licences_and_hierarchical_resources_have_their_names_and_change_no_other_amount(
    text: str, kinds: tuple[tuple[str, float], ...], ignored: tuple[str, ...]
) -> None:
    amounts, of_text, unreadable = read_tres(text)
    assert (amounts.cpus, amounts.mem_mb) == (2.0, 4096.0)
    assert (tuple(sorted(of_text)), tuple(sorted(unreadable))) == (kinds, ignored)
