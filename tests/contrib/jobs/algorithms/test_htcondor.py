"""HTCondor's user priorities against what a running negotiator printed, by hand, and what the contract refuses."""

from __future__ import annotations

import json
import re
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.contrib.jobs.algorithms import solve_job_case
from apps.contrib.jobs.algorithms.htcondor import JOB_PRIOS, TIE, decay
from apps.engine.errors import EngineError
from tests.contrib.jobs.algorithms.userprio_ads import case_of_step, read_userprio
from tests.each_case import each_case
from tests.oracles.jobs import htcondor_priority

STORED = 0.5e-6  # HTCondor stores real priorities with six decimals


def solved(**case: Any) -> dict[str, Any]:
    answer: dict[str, Any] = solve_job_case({"algorithm": {"name": "htcondor"}, "jobs": [], **case})
    json.dumps(answer, allow_nan=False)
    return answer


@pytest.mark.parametrize("name", ["used", "idle"])
def test_a_step_of_the_decay_is_the_one_of_the_negotiator(golden_dir: Path, name: str) -> None:
    before, after = ((golden_dir / f"htcondor/samples/userprio-{name}-{number}.txt").read_text() for number in (1, 2))
    case = case_of_step(before, after, 60)
    assert case["passed_s"] == 15
    ours, (_, theirs) = solve_job_case(case)["submitters"], read_userprio(after)
    assert set(ours) == set(theirs) == {f"{user}@example.org" for user in ("ann", "bob", "cat")}
    for submitter, row in theirs.items():
        factor = float(row["PriorityFactor"])
        assert ours[submitter]["effective"] == pytest.approx(float(row["Priority"]), rel=0, abs=16 * STORED * factor)
        assert ours[submitter]["factor"] == factor


@pytest.mark.parametrize("number", [1, 2])
def test_slices_are_the_shares_of_the_negotiator(golden_dir: Path, number: int) -> None:
    text = (golden_dir / f"htcondor/samples/userprio-used-{number}.txt").read_text()
    _, theirs = read_userprio(text)
    case = case_of_step(text, text, 60)
    waiting = [job for job in case["jobs"] if job["submitter"] == "cat@example.org"]
    ours = solve_job_case({**case, "jobs": waiting})["submitters"]
    for submitter, row in theirs.items():
        assert ours[submitter]["slice"] == pytest.approx(float(row["SubmitterShare"]), rel=1e-9)


def test_every_submitter_of_a_pool_has_the_printed_priority(golden_dir: Path) -> None:
    text = (golden_dir / "htcondor/samples/userprio-l.txt").read_text()
    _, theirs = read_userprio(text)
    answer = solve_job_case(case_of_step(text, text, 86400))
    assert len(theirs) == 5
    for submitter, row in theirs.items():
        assert answer["submitters"][submitter]["effective"] == pytest.approx(float(row["Priority"]), rel=1e-15)
        assert answer["submitters"][submitter]["real"] == float(row["Priority"]) / 1000
    order = [answer["jobs"][job]["effective"] for job in answer["pending_order"]]
    assert order == sorted(order)
    assert answer["notes"] == [TIE]  # two at 500


def test_the_examples_of_the_manual() -> None:
    """RUP 10 without jobs is 5 a day later and 2.5 after two; 100 cores for 48 hours make about 75."""
    for days, real in ((1, 5.0), (2, 2.5), (5, 0.5)):
        rows = solved(passed_s=86400 * days, submitters=[{"name": "a", "real": 10}])["submitters"]
        assert rows["a"]["real"] == real
    rows = solved(passed_s=2 * 86400, submitters=[{"name": "a", "real": 0.5, "cores": 100}])["submitters"]
    assert rows["a"]["real"] == 75.125
    effective = {"a": 5, "b": 10, "c": 20}
    rows = solved(
        default_factor=1,
        submitters=[{"name": name, "effective": value, "cores": 1} for name, value in effective.items()],
    )["submitters"]
    assert [row["slice"] for row in rows.values()] == pytest.approx([4 / 7, 2 / 7, 1 / 7])


def test_terms_by_hand() -> None:
    answer = solved(
        half_life_s=100,
        passed_s=100,
        submitters=[{"name": "a", "effective": 4000, "factor": 2000, "cores": 3, "uncharged_core_s": 200}],
        jobs=[{"id": "7.0", "submitter": "a", "job_prio": 4}],
    )
    lines = answer["jobs"]["7.0"].pop("explain")
    assert answer["jobs"] == {
        "7.0": {"submitter": "a", "real": 3.5, "factor": 2000, "effective": 7000, "slice": 1, "job_prio": 4}
    }
    assert lines == [
        "effective priority 7000 = 3.5 (real priority) × 2000 (factor)",
        "real priority 3.5 = 0.5 × 2 + (1 − 0.5) × 5 (cores in use)",
        "decay 0.5 = 0.5 ^ (100 / 100) (seconds since the last update, half-life)",
        "real priority before 2 = 4000 / 2000 (factor)",
        "cores in use 5 = 3 + 200 / 100 (core seconds of claims that ended, by the seconds)",
        "number 1 of the submitter's 1 (job_prio 4; then by id)",
    ]


def test_a_new_submitter_begins_at_one_half_with_the_default_factor() -> None:
    jobs = [{"id": "1.0", "submitter": "new"}]
    assert solved(jobs=jobs)["jobs"]["1.0"]["effective"] == 500
    answer = solved(jobs=jobs, default_factor=1, passed_s=30)["jobs"]["1.0"]
    assert (answer["real"], answer["factor"], answer["effective"], answer["slice"]) == (0.5, 1, 0.5, 1)
    assert "real priority before 0.5 (a new submitter)" in answer["explain"]
    listed = solved(jobs=jobs, submitters=[{"name": "new"}])["jobs"]["1.0"]
    assert (listed["real"], listed["factor"]) == (0.5, 1000)


def test_a_real_priority_is_never_below_one_half() -> None:
    entries: list[dict[str, Any]] = [{"real": 0}, {"effective": 1}, {"real": 0.4, "factor": 3}]
    for entry in entries:
        answer = solved(submitters=[{"name": "a", **entry}], jobs=[{"id": "1", "submitter": "a"}])["jobs"]["1"]
        assert answer["real"] == 0.5
        assert any(line.startswith("real priority before 0.5 (the least") for line in answer["explain"])
    tiny = solved(passed_s=60, submitters=[{"name": "a", "real": 0.5, "cores": 0.4}])["submitters"]["a"]
    assert tiny["real"] == 0.5


def test_without_time_nothing_decays_and_an_endless_time_leaves_the_cores() -> None:
    entry = {"name": "a", "real": 8, "cores": 3}
    assert solved(submitters=[entry])["submitters"]["a"]["real"] == 8
    assert solved(submitters=[entry], passed_s=1e300, half_life_s=1)["submitters"]["a"]["real"] == 3
    assert decay(0.0, 1.0) == 1.0


def test_jobs_are_in_the_order_of_submitters_then_of_their_own_priorities() -> None:
    jobs: list[dict[str, Any]] = [
        {"id": "10.0", "submitter": "a"},
        {"id": "9.10", "submitter": "a"},
        {"id": "9.9", "submitter": "a"},
        {"id": "11.0", "submitter": "a", "job_prio": 1, "post_job_prio1": 9},
        {"id": "12.0", "submitter": "a", "pre_job_prio2": 1, "job_prio": -5},
        {"id": "13.0", "submitter": "a", "job_prio": -1},
        {"id": "14.0", "submitter": "a", "post_job_prio2": 1},
        {"id": "99.0", "submitter": "b", "job_prio": -9},
    ]
    answer = solved(jobs=jobs, submitters=[{"name": "a", "real": 2}, {"name": "b", "real": 1}])
    assert answer["pending_order"] == ["99.0", "12.0", "11.0", "14.0", "9.9", "9.10", "10.0", "13.0"]
    assert list(answer["jobs"]) == [job["id"] for job in jobs]
    assert answer["notes"] == []


def test_jobs_of_equal_submitters_stay_together_and_the_tie_is_named() -> None:
    jobs = [{"id": f"{at}.0", "submitter": name} for at, name in enumerate("baba")]
    for some in (jobs, jobs[::-1]):
        answer = solved(jobs=some)
        assert answer["pending_order"] == ["1.0", "3.0", "0.0", "2.0"]
        assert answer["notes"] == [TIE]


def test_a_submitter_without_cores_or_jobs_has_no_slice() -> None:
    rows = solved(submitters=[{"name": "a", "real": 2}, {"name": "b", "real": 2, "cores": 1}])["submitters"]
    assert (rows["a"]["slice"], rows["b"]["slice"]) == (None, 1)
    assert solved()["submitters"] == {}


@each_case(
    ("case", "place"),
    [
        ({"half_life_s": 0}, "half_life_s"),
        ({"half_life_s": -60}, "half_life_s"),
        ({"half_life_s": float("inf")}, "half_life_s"),
        ({"passed_s": -1}, "passed_s"),
        ({"passed_s": 0.5}, "passed_s"),
        ({"passed_s": float("nan")}, "passed_s"),
        ({"default_factor": 0.5}, "default_factor"),
        ({"algorithm": {"name": "htcondor", "k": 1}}, "algorithm"),
        ({"submitter": []}, "case"),
        ({"submitters": {"a": 1}}, "submitters"),
        ({"submitters": ["a"]}, "submitters[0]"),
        ({"submitters": [{}]}, "submitters[0].name"),
        ({"submitters": [{"name": 7}]}, "submitters[0].name"),
        ({"submitters": [{"name": "a"}, {"name": "a"}]}, "submitters.a"),
        ({"submitters": [{"name": "a", "used": 1}]}, "submitters.a"),
        ({"submitters": [{"name": "a", "real": -1}]}, "submitters.a.real"),
        ({"submitters": [{"name": "a", "real": 1, "effective": 1}]}, "submitters.a.effective"),
        ({"submitters": [{"name": "a", "factor": 0}]}, "submitters.a.factor"),
        ({"submitters": [{"name": "a", "cores": -1}]}, "submitters.a.cores"),
        ({"submitters": [{"name": "a", "cores": True}]}, "submitters.a.cores"),
        ({"submitters": [{"name": "a", "uncharged_core_s": 1}]}, "submitters.a.uncharged_core_s"),
        ({"jobs": [{"id": "1.0"}]}, "jobs.1.0.submitter"),
        ({"jobs": [{"id": "1.0", "submitter": ""}]}, "jobs.1.0.submitter"),
        ({"jobs": [{"id": "x", "submitter": "a"}]}, "jobs.x.id"),
        ({"jobs": [{"id": "01.0", "submitter": "a"}]}, "jobs.01.0.id"),
        ({"jobs": [{"id": "1.0", "submitter": "a", "job_prio": 0.5}]}, "jobs.1.0.job_prio"),
        ({"jobs": [{"id": "1.0", "submitter": "a", "job_prio": 2**31}]}, "jobs.1.0.job_prio"),
        ({"jobs": [{"id": "1.0", "submitter": "a", "prio": 1}]}, "jobs.1.0"),
    ],
)
def test_invalid_input_is_rejected_with_its_location(case: dict[str, Any], place: str) -> None:
    with pytest.raises(EngineError) as refused:
        solved(**case)
    assert refused.value.place == place


AMOUNTS = st.integers(min_value=0, max_value=10_000).map(lambda n: Fraction(n, 8))


@given(
    submitters=st.lists(
        st.tuples(AMOUNTS, AMOUNTS, st.integers(min_value=1, max_value=10**10)), min_size=1, max_size=5
    ),
    half_lives=st.integers(min_value=0, max_value=20),
    prios=st.lists(st.integers(min_value=-(2**31), max_value=2**31 - 1), min_size=5, max_size=5),
)
def test_the_oracle_in_fractions_agrees_and_the_lines_add_up(
    submitters: list[tuple[Fraction, Fraction, int]], half_lives: int, prios: list[int]
) -> None:
    entries = [
        {"name": f"s{at}", "real": float(real), "cores": float(cores), "factor": factor}
        for at, (real, cores, factor) in enumerate(submitters)
    ]
    jobs: list[dict[str, Any]] = [
        {"id": f"{at}.0", "submitter": each["name"], **dict(zip(JOB_PRIOS, prios, strict=True))}
        for at, each in enumerate(entries)
    ]
    answer = solved(half_life_s=60, passed_s=60 * half_lives, submitters=entries, jobs=jobs)
    for at, (real, cores, factor) in enumerate(submitters):
        row = answer["submitters"][f"s{at}"]
        exact = htcondor_priority(real, cores, factor, half_lives)
        assert row["effective"] == pytest.approx(float(exact), rel=1e-14)
        assert_lines_add_up(answer["jobs"][f"{at}.0"]["explain"])
    assert sum(row["slice"] for row in answer["submitters"].values()) == pytest.approx(1)


def assert_lines_add_up(lines: list[str]) -> None:
    """Every calculation gives the number before it."""
    n_calculated = 0
    for line in lines:
        result, is_calculated, calculation = re.sub(r" \([A-Za-z][^()]*\)", "", line).partition(" = ")
        if is_calculated:
            n_calculated += 1
            number = float(result.rpartition(" ")[2])
            assert evaluate(calculation) == pytest.approx(number, rel=1e-12, abs=1e-12), line
    assert n_calculated


def evaluate(calculation: str) -> float:
    """Numbers with + − × / ^ and parentheses."""
    plain = calculation.replace("×", "*").replace("−", "-").replace("^", "**")
    assert re.fullmatch(r"[-+*/() 0-9.e]+", plain), calculation
    return float(eval(plain))  # noqa: S307 - only digits and signs of calculation get here
