"""Listings read back: every cell in its place, checks that notice what doesn't follow, and no crash on any text."""

from __future__ import annotations

from math import isfinite
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from apps.contrib.jobs.algorithms.gridengine.config import AS_SHIPPED
from apps.contrib.jobs.algorithms.listing_check import (
    PRESET_WEIGHTS,
    fitting_weights,
    follow_grid_engine,
    follow_slurm,
    normalise,
    priorities,
)
from apps.contrib.jobs.algorithms.listings import PENDING, RUNNING, PrintedJob, read_printed
from apps.engine.errors import BadCase

WEIGHTS = {"weight_urgency": 0.3, "weight_ticket": 0.5, "weight_priority": 0.2}
HEADER = "JOBID PARTITION USER ACCOUNT PRIORITY SITE AGE ASSOC FAIRSHARE JOBSIZE PARTITION QOSNAME QOS NICE TRES"


@pytest.fixture
def samples(golden_dir: Path) -> Path:
    return golden_dir


def test_each_qstat_column_is_read_by_name(samples: Path) -> None:
    jobs = {
        job.job: job for job in read_printed((samples / "gridengine/samples/qstat-ext-urg-pri.txt").read_text()).jobs
    }
    assert list(jobs) == ["587", "588", "590", "592", "595", "594.1-4:1", "589", "591", "593"]
    running, held = jobs["588"], jobs["593"]
    assert (running.user, running.state, running.role) == ("gec", "r", RUNNING)
    assert (held.state, held.role) == ("hqw", "aside")
    assert running.numbers == {
        "prior": 0.66003,
        "nurg": 0.20011,
        "npprior": 0.5,
        "ntckts": 1.0,
        "urg": 2003,
        "rrcontr": 2000,
        "wtcontr": 3,
        "dlcontr": 0,
        "ppri": 0,
        "tckts": 633333,
        "ovrts": 0,
        "otckt": 0,
        "ftckt": 233333,
        "stckt": 400000,
        "share": 0.63,
    }
    assert jobs["591"].numbers["ovrts"] == 1000
    assert jobs["589"].numbers["ppri"] == -5
    assert jobs["595"].submitted == "2026-11-20 06:45:20"


@pytest.mark.parametrize("name", ["qstat-ext.txt", "qstat-pri.txt", "qstat-urg.txt"])
def test_each_qstat_option_is_read(samples: Path, name: str) -> None:
    whole = {
        job.job: job for job in read_printed((samples / "gridengine/samples/qstat-ext-urg-pri.txt").read_text()).jobs
    }
    part = read_printed((samples / "gridengine/samples" / name).read_text()).jobs
    assert len(part) == 9
    for job in part:
        assert (job.user, job.state) == (whole[job.job].user, whole[job.job].state)
        assert job.numbers.items() <= whole[job.job].numbers.items()
    assert not any(each.doubts for each in follow_grid_engine(part, WEIGHTS))


URG_OF_2011 = """job-ID prior nurg urg rrcontr wtcontr dlcontr name user state submit/start at deadline queue slots
 66622 0.25000 0.00000 1000 1000 0 0 j ann qw 04/06/2011 10:00:00 1
 67652 0.46429 0.42857 4000 4000 0 0 j ann qw 04/06/2011 10:00:00 4
 63285 0.75000 1.00000 8000 8000 0 0 j bob qw 04/06/2011 10:00:00 8
"""


def test_terms_missing_in_urg_are_the_unexplained_part() -> None:
    rows = follow_grid_engine(read_printed(URG_OF_2011).jobs, PRESET_WEIGHTS[AS_SHIPPED])
    assert [(row.left, row.not_listed, row.doubts) for row in rows] == [(0.25, ("ntckts",), ())] * 3
    assert rows[2].lines[0] == ("priority 0.75000 as printed = 0.5 × 1 (urgency) + 0.25 (tickets: not in this listing)")


def test_an_unexplained_part_beyond_the_possible_range_is_marked() -> None:
    weights = {"weight_urgency": 0.5, "weight_ticket": 0.2, "weight_priority": 0.0}
    rows = follow_grid_engine(read_printed(URG_OF_2011).jobs, weights)
    assert [len(row.doubts) for row in rows] == [1, 1, 1]
    assert "0.25000 of it would be tickets" in rows[0].doubts[0]
    too_heavy = follow_grid_engine(
        read_printed(URG_OF_2011).jobs, {**weights, "weight_urgency": 0.9, "weight_ticket": 1.0}
    )
    assert [bool(row.doubts) for row in too_heavy] == [False, False, True]  # 0.9 × 1 is more than 0.75


def test_terms_without_weight_leave_no_unexplained_part(samples: Path) -> None:
    jobs = read_printed((samples / "gridengine/samples/qstat-ext.txt").read_text()).jobs
    rows = follow_grid_engine(jobs, {"weight_urgency": 0.0, "weight_ticket": 1.0, "weight_priority": 0.0})
    assert {row.not_listed for row in rows} == {()}


def test_text_and_xml_agree(samples: Path) -> None:
    text, xml = (
        read_printed((samples / f"gridengine/samples/qstat-ext-urg-pri.{kind}").read_text()).jobs
        for kind in ("txt", "xml")
    )
    assert [job.job for job in text] == [job.job for job in xml]
    for one, other in zip(text, xml, strict=True):
        same = [name for name in one.numbers if name not in ("share", "urg")]
        assert {name: one.numbers[name] for name in same} == {name: other.numbers[name] for name in same}
        assert one.numbers["urg"] == pytest.approx(other.numbers["urg"], abs=1)  # a sum of rounded parts


def test_weights_are_inferred_only_from_informative_rows(samples: Path) -> None:
    jobs = read_printed((samples / "gridengine/samples/qstat-ext-urg-pri.txt").read_text()).jobs
    assert fitting_weights(jobs) == WEIGHTS
    assert fitting_weights(jobs[:2]) is None
    alike = [job for job in jobs if job.numbers["npprior"] == 0.5]
    assert fitting_weights([PrintedJob(job.job, 1, {**job.numbers, "nurg": 0.5}) for job in alike]) is None


def test_priorities_follow_from_urgency_tickets_and_posix_priority(samples: Path) -> None:
    jobs = read_printed((samples / "gridengine/samples/qstat-ext-urg-pri.txt").read_text()).jobs
    found = priorities(jobs, WEIGHTS, [])
    for job in jobs:
        assert found[job.job] == pytest.approx(job.numbers["prior"], abs=1e-4)


def test_amendments_change_ranges_as_documented() -> None:
    jobs = [
        PrintedJob("1", 1, {"urg": 100.0, "tckts": 10.0, "ppri": 0.0}, role=RUNNING),
        PrintedJob("2", 2, {"urg": 50.0, "tckts": 5.0, "ppri": 512.0}, role=PENDING),
        PrintedJob("3", 3, {"urg": 40.0, "tckts": 0.0, "ppri": -512.0}, role=PENDING),
    ]

    def values(*variant: str) -> list[dict[str, float]]:
        return [{name: value for name, (value, _) in each.items()} for each in normalise(jobs, variant).values()]

    assert values() == [
        {"nurg": 1.0, "ntckts": 1.0, "npprior": 0.5},
        {"nurg": 10 / 60, "ntckts": 0.5, "npprior": 0.75},
        {"nurg": 0.0, "ntckts": 0.0, "npprior": 0.25},
    ]
    assert [each["nurg"] for each in values("exclude_running")] == [1.0, 1.0, 0.0]
    assert [each["ntckts"] for each in values("exclude_running")] == [1.0, 1.0, 0.0]
    assert [each["nurg"] for each in values("linear_urgency")] == [1.0, 0.5, 0.4]
    assert [each["npprior"] for each in values("default_zero")] == [0.0, 0.5, -0.5]


def test_a_manually_set_priority_is_reported() -> None:
    text = "JOBID PARTITION USER PRIORITY SITE AGE FAIRSHARE NICE\n 18 debug carol 5555 0 0 0 0\n"
    (row,) = follow_slurm(read_printed(text))
    assert row.doubts == ()
    assert "set to 5555 by hand" in row.lines[-1]


def test_a_sum_that_differs_from_its_terms_is_marked() -> None:
    text = "JOBID PARTITION USER PRIORITY SITE AGE FAIRSHARE NICE\n 18 debug carol 5555 0 100 2000 0\n"
    (row,) = follow_slurm(read_printed(text))
    assert row.doubts == ("PRIORITY is printed as 5555, and the terms give 2100",)


def test_newer_sprio_columns_and_resources_are_read() -> None:
    rows = " 7 debug ann hep 2635 10 100 0 2000 500 20 normal 0 5 cpu=8,mem=2\n"
    rows += " 8 debug bob hep 100 0 0 0 100 0 0 normal 0 0\n"
    weights = "JOBID PARTITION PRIORITY SITE AGE FAIRSHARE TRES\n Weights 1 1000 4000 cpu=10,mem=20\n"
    printed = read_printed(f"{HEADER}\n{rows}{weights}")
    assert printed.jobs[0].numbers["tres"] == 10
    assert printed.weights == {"age": 1000, "fairshare": 4000}
    assert [row.doubts for row in follow_slurm(printed)] == [(), ()]


def test_windows_line_ends_and_blank_lines_are_accepted() -> None:
    text = "\r\n\r\nJOBID PARTITION USER PRIORITY SITE NICE\r\n\r\n 1 p u 7 7 0\r\n"
    assert read_printed(text).jobs[0].line == 5


PIECES = st.sampled_from(
    [
        "job-ID",
        "prior",
        "nurg",
        "name",
        "user",
        "state",
        "submit/start",
        "at",
        "tckts",
        "slots",
        "JOBID",
        "PRIORITY",
        "SITE",
        "TRES",
        "Weights",
        "PARTITION",
        "0.5",
        "7",
        "-1",
        "1e400",
        "nan",
        "qw",
        "hqw",
        "r",
        "11/20/2026 06:45:20",
        "0:00:00:00",
        "1-4:1",
        "\n",
        "\n",
        "\n",
        "---",
        "<job_list>",
        "</job_list>",
        "<state>",
        "</state>",
        "&a;",
        "é",
    ]
)


HEADS = st.sampled_from(
    ["", "JOBID PARTITION USER PRIORITY SITE NICE\n", "job-ID prior nurg name user state submit/start at slots\n---\n"]
)


@example("JOBID PARTITION USER PRIORITY SITE NICE\n 1 p u 7 7 0\n")
@example("job-ID prior nurg name user state submit/start at slots\n---\n 7 0.5 0.5 a ann qw 11/20/2026 06:45:20 1\n")
@given(st.builds("".join, st.tuples(HEADS, st.lists(PIECES, max_size=60).map(" ".join))) | st.text(max_size=200))
def test_any_text_is_parsed_or_rejected_with_its_location(text: str) -> None:
    printed, place = None, ""
    try:
        printed = read_printed(text)
    except BadCase as refused:
        place = refused.place
    if printed is None:
        assert place == "text" or place.startswith("line ")
    elif printed.scheduler == "slurm":
        assert len(follow_slurm(printed)) == len(printed.jobs)
    else:
        found = follow_grid_engine(printed.jobs, fitting_weights(printed.jobs) or WEIGHTS)
        assert all(isfinite(each.total) for each in found)
