"""POST /jobs/explain: the engine's answer, refusals with the place, and a bound on what one call may ask."""

from __future__ import annotations

from typing import Any

import pytest

from apps.contrib.jobs import job_cases
from apps.web.rest import parsing
from tests.rest_site import Caller, refused
from tests.small_site import Site
from tests.worlds import fresh_process  # noqa: F401 - fixture

SAM: dict[str, Any] = {
    "id": "sam",
    "algorithm": {"name": "sam"},
    "shares": {"g1": 0.5, "g2": 0.5},
    "benefit": {"g1": 23, "g2": 26},
    "jobs": [{"id": "j1", "group": "g1", "benefit": 1}],
}
SLURM: dict[str, Any] = {
    "id": "slurm",
    "algorithm": {"name": "slurm-multifactor"},
    "weights": {"fairshare": 100000, "jobsize": 100},
    "jobs": [{"id": "38", "fairshare": 0.6, "jobsize": 0.875, "site": 4321}],
}
BAD = {**SLURM, "jobs": [{"id": "38", "fairshare": 1.5}]}


def test_one_case_returns_an_object_and_a_list_a_list(admin: Caller) -> None:
    one = admin.post("jobs/explain", SLURM)
    assert one.status_code == 200
    assert one.headers["Cache-Control"] == "private, no-store"
    assert one.json()["jobs"]["38"]["priority"] == 64408
    assert one.json()["jobs"]["38"]["explain"][0] == "priority 64408 (the sum without its fraction)"
    both = admin.post("jobs/explain", [SAM, SLURM])
    assert [answer["id"] for answer in both.json()] == ["sam", "slurm"]
    assert admin.post("jobs/explain", []).json() == []


def test_any_token_is_sufficient_and_anonymous_requests_are_refused(site: Site, admin: Caller) -> None:
    by_token = Caller(token=site.token("priorities:read")).post("jobs/explain", SAM)
    assert (by_token.status_code, by_token.json()) == (200, admin.post("jobs/explain", SAM).json())
    assert refused(Caller().post("jobs/explain", SAM)) == (401, "not_authenticated", [])


def test_an_invalid_case_is_a_problem_with_the_location(admin: Caller) -> None:
    answer = admin.post("jobs/explain", [SAM, BAD])
    assert answer.status_code == 422
    assert answer.headers["Content-Type"] == "application/problem+json"
    problem = answer.json()
    assert problem["code"] == "bad_case"
    assert problem["fields"] == [
        {"where": "jobs.38.fairshare", "message": "1.5 can't be used; a number from 0 to 1 is allowed"}
    ]
    assert problem["detail"].startswith("Case slurm: jobs.38.fairshare: ")


def test_an_unknown_name_is_a_problem_with_the_nearest_one(admin: Caller) -> None:
    case = {"algorithm": {"name": "gridengine"}, "config": {"weight_tiket": 1}, "jobs": []}
    answer = admin.post("jobs/explain", case)
    assert refused(answer) == (422, "bad_case", ["config"])
    assert answer.json()["fields"][0]["message"].endswith('"weight_tiket"; the nearest allowed name is weight_ticket')


def test_the_response_has_excess_jobs_and_ticket_sums(admin: Caller) -> None:
    config = {"preset": "6.2", "weight_tickets_functional": 100, "auto_user_fshare": 1}
    case = {
        "config": {**config, "max_functional_jobs_to_schedule": 1},
        "jobs": [{"id": n, "user": "ann"} for n in "abc"],
    }
    answer = admin.post("jobs/explain", case).json()
    assert answer["beyond_limit"]["jobs"] == ["b", "c"]
    assert answer["totals"]["pending"]["tckts"] == sum(row["ftckt"] for row in answer["jobs"].values()) > 0
    assert len(answer["notes"]) == 2  # the automatic user, the limit


@pytest.mark.parametrize(
    ("body", "where"),
    [
        (7, "case"),
        ("null", "case"),
        ([[]], "case"),
        ([None], "case"),
        ({"jobs": {}}, "algorithm"),
        ({"algorithm": "sam", "jobs": []}, "algorithm"),
    ],
)
def test_input_that_is_not_a_case_is_refused(admin: Caller, body: Any, where: str) -> None:
    answer = admin.post("jobs/explain", body)
    assert refused(answer) == (422, "bad_case", [where])
    assert answer.json()["detail"].startswith(f"Case 0: {where}: ")


def test_invalid_json_is_refused_with_the_location(admin: Caller) -> None:
    assert refused(admin.post("jobs/explain", "text")) == (400, "bad_json", ["line 1, column 1"])


def test_nan_and_duplicate_keys_are_refused(admin: Caller) -> None:
    for text, code in [('{"jobs": [NaN]}', "not_finite"), ('{"jobs": [], "jobs": []}', "duplicate_key")]:
        answer = admin.post("jobs/explain", text)
        assert (answer.status_code, answer.json()["code"]) == (400, code)


def test_too_many_requested_jobs_are_refused(admin: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_cases, "MOST_CASE_JOBS", 2)
    three = {**SLURM, "jobs": [{"id": str(i)} for i in range(2)], "hidden_jobs": [{"id": "x", "urg": 1}]}
    answer = admin.post("jobs/explain", three)
    assert (answer.status_code, answer.json()["code"]) == (413, "too_large")
    assert "3 jobs in one call; the limit is 2" in answer.json()["detail"]
    assert answer.headers["Retry-After"]
    monkeypatch.setattr(job_cases, "MOST_CASES", 1)
    assert admin.post("jobs/explain", [SAM, SAM]).status_code == 413


def test_too_many_jobs_are_refused_before_they_are_read_strictly(
    admin: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(body: bytes) -> None:
        raise AssertionError("read strictly")

    monkeypatch.setattr(parsing, "loads", read)
    answer = admin.post(
        "jobs/explain", {**SLURM, "jobs": [{"id": str(i)} for i in range(job_cases.MOST_CASE_JOBS + 1)]}
    )
    assert refused(answer) == (413, "too_large", [])


def test_ten_thousand_jobs_fit_in_one_request(admin: Caller) -> None:
    many = [{"id": str(i), "fairshare": (i % 100) / 100, "nice": i} for i in range(job_cases.MOST_CASE_JOBS)]
    answer = admin.post("jobs/explain", {**SLURM, "jobs": many})
    assert answer.status_code == 200
    assert len(answer.json()["jobs"]) == 10_000
