"""Usage records in, sources and sums out."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest

from apps.accounts.account_keys import AccountKey
from apps.accounts.actor import SYSTEM, Actor
from apps.mapping.attachments import attach_account
from apps.mapping.rules.rule import Rule
from apps.mapping.services import set_rules
from apps.priorities.selectors import unmapped
from tests.instants import AT
from tests.rest_site import Caller, refused
from tests.small_site import Site, record
from tests.worlds import fresh_process  # noqa: F401 - fixture

PUSH = "usage/records?source=cluster-a"
JOB = record("77", "bob", "physics", 2, at=AT)


@pytest.fixture
def meter(site: Site) -> Caller:
    return Caller(token=site.token("usage:write", source_slug="cluster-a"))


def total(caller: Caller, **asked: str) -> float:
    rows, cursor = [], None
    while True:
        page = caller.get("usage/buckets", {**asked, **({"cursor": cursor} if cursor else {})}).json()
        rows += page["results"]
        cursor = page["next"]
        if cursor is None:
            return float(sum(row["cpu_s"] for row in rows))


def test_a_repeated_record_counts_once(meter: Caller) -> None:
    before = total(meter, source="cluster-a")
    first = meter.post(PUSH, [JOB])
    assert first.status_code == 200, first.content
    assert first.json() == {"new": 1, "duplicate": 0, "corrected": 0, "late": 0, "rejected": [], "unmapped": 0}
    assert meter.post(PUSH, [JOB]).json()["duplicate"] == 1
    assert total(meter, source="cluster-a") == before + 2 * 3600


def test_unmapped_accounts_are_counted_at_once(meter: Caller) -> None:
    strangers = [record(str(i), name, "chemistry", 1, at=AT) for i, name in enumerate(["zoe", "zoe", "max"], 200)]
    nameless = {**record("300", "ida", "", 1, at=AT), "group": None}
    assert meter.post(PUSH, [*strangers, nameless]).json()["unmapped"] == 3  # zoe once
    assert meter.post(PUSH, [JOB]).json()["unmapped"] == 0


def test_an_attached_account_is_not_unmapped(site: Site, meter: Caller) -> None:
    stranger = [record("201", "zoe", "chemistry", 1, at=AT)]
    assert meter.post(PUSH, stranger).json()["unmapped"] == 1
    attach_account(
        policy_slug="grid",
        entry_uid=site.uid("/physics/bob"),
        account=AccountKey("a", "zoe", "chemistry"),
        reason="A guest",
        at=AT,
        actor=Actor(user=site.admin, via="page"),
    )
    assert meter.post(PUSH, stranger).json()["unmapped"] == 0


def test_what_a_served_snapshot_maps_is_not_resolved_again_while_its_mapping_holds(
    site: Site, meter: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.recompute()
    with monkeypatch.context() as patch:
        patch.setattr(unmapped, "load_current_trees", None)
        assert meter.post(PUSH, [JOB]).json()["unmapped"] == 0
    rules = [Rule(kind="glob", target_uid=site.uid("/"), group_pattern="biology", suffix="/{group}/{user}")]
    set_rules(policy_slug="grid", rules=rules, at=AT, actor=SYSTEM)
    assert meter.post(PUSH, [JOB]).json()["unmapped"] == 1
    site.recompute()
    assert meter.post(PUSH, [JOB]).json()["unmapped"] == 1


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("content_type", ["application/json", "application/x-ndjson"])
def test_lists_lines_and_gzip_are_accepted(meter: Caller, content_type: str, packed: bool) -> None:
    lines = [record(str(i), "bob", "physics", 1, at=AT) for i in range(100, 103)]
    text = json.dumps(lines) if content_type == "application/json" else "\n".join(map(json.dumps, lines))
    body = gzip.compress(text.encode()) if packed else text.encode()
    headers = {"Content_Encoding": "gzip"} if packed else {}
    answer = meter.post(PUSH, body, content_type=content_type, **headers)
    assert (answer.status_code, answer.json()["new"]) == (200, 3), answer.content


def test_an_invalid_line_is_reported_and_the_others_are_accepted(meter: Caller) -> None:
    answer = meter.post(PUSH, [JOB, {**JOB, "job": "78", "end": "2026-01-01T00:00:00Z"}, {**JOB, "job": "79", "x": 1}])
    data = answer.json()
    assert (answer.status_code, data["new"]) == (200, 1)
    assert [(line["line"], bool(line["message"])) for line in data["rejected"]] == [(2, True), (3, True)]
    assert data["rejected"][0]["code"] == "end_before_start"


def test_atomic_accepts_all_or_nothing(meter: Caller) -> None:
    before = total(meter, source="cluster-a")
    answer = meter.post(PUSH + "&atomic=1", [JOB, {**JOB, "job": "78", "cpus": -1}])
    assert answer.status_code == 422, answer.content
    assert answer.json()["fields"]
    assert total(meter, source="cluster-a") == before


def test_a_retry_with_its_key_gets_the_first_response(meter: Caller) -> None:
    before = total(meter, source="cluster-a")
    first = meter.post(PUSH, [JOB], Idempotency_Key="batch-1")
    again = meter.post(PUSH, [JOB], Idempotency_Key="batch-1")
    assert first.json()["new"] == again.json()["new"] == 1
    other = meter.post(PUSH, [{**JOB, "job": "80"}], Idempotency_Key="batch-1")
    assert refused(other) == (409, "idempotency_key_reused", [])
    assert total(meter, source="cluster-a") == before + 2 * 3600, "the job of the other body isn't counted"


@pytest.mark.parametrize(
    ("body", "headers", "answer"),
    [
        (b"", {}, (400, "bad_json", ["body"])),
        (b"{}", {}, (400, "invalid", ["body"])),
        (b"[" * 100_000, {}, (400, "bad_json", ["body"])),
        (b"[NaN]", {}, (400, "bad_json", ["body"])),
        (gzip.compress(b"[]", mtime=0)[:-4], {"Content_Encoding": "gzip"}, (400, "corrupt_gzip", ["body"])),
        (gzip.compress(b"[]", mtime=0) + b"[]", {"Content_Encoding": "gzip"}, (400, "corrupt_gzip", ["body"])),
        (b"no gzip", {"Content_Encoding": "gzip"}, (400, "corrupt_gzip", ["body"])),
        (gzip.compress(b" " * 40_000_000, mtime=0), {"Content_Encoding": "gzip"}, (413, "expands_too_much", [])),
        (b"[]", {"Content_Encoding": "br"}, (415, "unsupported_encoding", [])),
        (b"x" * (32 * 1024**2 + 1), {}, (413, "too_large", [])),
    ],
)
def test_adversarial_bodies_are_refused(
    meter: Caller, body: bytes, headers: dict[str, str], answer: tuple[int, str, list[str]]
) -> None:
    before = total(meter, source="cluster-a")
    assert refused(meter.post(PUSH, body, **headers)) == answer
    assert total(meter, source="cluster-a") == before


def test_only_usage_tokens_and_administrators_write(site: Site, meter: Caller) -> None:
    before = total(meter, source="cluster-a")
    reader = Caller(token=site.token("priorities:read"))
    assert refused(Caller(user=site.pia).post(PUSH, [JOB])) == (403, "not_allowed", [])
    assert refused(reader.post(PUSH, [JOB])) == (403, "insufficient_scope", [])
    assert refused(meter.post("usage/records?source=elsewhere", [JOB])) == (404, "not_found", [])
    assert refused(meter.post("usage/records", [JOB])) == (400, "invalid", ["source"])
    assert total(meter, source="cluster-a") == before
    assert Caller(user=site.admin).post(PUSH, [JOB]).json()["new"] == 1


def test_the_first_valid_record_creates_its_source(site: Site) -> None:
    token = Caller(token=site.token("usage:write", source_slug="cluster-b"))
    bad = token.post("usage/records?source=cluster-b", [{**JOB, "cpus": -1}])
    assert (bad.status_code, bad.json()["code"]) == (404, "not_found")
    assert token.post("usage/records?source=cluster-b", [JOB]).json()["new"] == 1
    assert token.post("usage/records?source=cluster-b", [JOB]).json()["duplicate"] == 1
    assert Caller(user=site.admin).get("usage/sources/cluster-b").json()["counts"]["records"] == 1
    assert token.post("usage/records?source=cluster-c", [JOB]).status_code == 404
    assert Caller(user=site.pia).post("usage/records?source=cluster-d", [JOB]).status_code == 403
    odd = Caller(user=site.admin).post("usage/records?source=no%20slug", [JOB])
    assert (odd.status_code, odd.json()["fields"][0]["where"]) == (400, "source")


def test_sources_have_their_freshness(site: Site) -> None:
    (found,) = Caller(user=site.nobody).get("usage/sources").json()["results"]
    assert (found["slug"], found["counts"]["records"], found["lag_s"]) == ("cluster-a", 3, 3600.0)
    single = Caller(user=site.nobody).get("usage/sources/cluster-a").json()
    assert single == found
    assert Caller(user=site.nobody).get("usage/sources/none").status_code == 404


def test_buckets_add_up_by_account_and_by_site(admin: Caller) -> None:
    assert total(admin, source="cluster-a") == 10 * 3600
    assert total(admin, source="cluster-a", account="alice") == 6 * 3600
    by_site = admin.get("usage/buckets", {"source": "cluster-a", "step": "day", "by": "site"}).json()["results"]
    assert {row["site"] for row in by_site} == {"s1"}
    assert all(row["account"] is None for row in by_site)
    assert sum(row["cpu_s"] for row in by_site) == 10 * 3600
    assert total(admin, source="cluster-a", to="2026-11-20T08:00:00Z") < 10 * 3600


def test_paged_buckets_lose_no_rows(admin: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("apps.pages.sources.api.views._PAGE", 2)
    assert total(admin, source="cluster-a") == 10 * 3600
    assert total(admin, source="cluster-a", by="site", step="day") == 10 * 3600


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        ({"from": "2026-01-01"}, "invalid"),
        ({"step": "week"}, "invalid"),
        ({"cursor": "zzz"}, "bad_cursor"),
        ({"cursor": "WzFd"}, "bad_cursor"),
        ({"frm": "x"}, "unknown_field"),
    ],
)
def test_invalid_bucket_queries_are_refused(admin: Caller, asked: dict[str, Any], code: str) -> None:
    assert refused(admin.get("usage/buckets", asked)) == (400, code, list(asked))


def test_buckets_of_others_are_not_visible(site: Site) -> None:
    assert total(Caller(user=site.pia), source="cluster-a") == 0
    assert total(Caller(user=site.pia), source="cluster-a", account="alice") == 0
