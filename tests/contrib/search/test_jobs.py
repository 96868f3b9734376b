"""Jobs are found by number: in which list, only those that the reader may see, and by an index."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from io import BytesIO
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from apps.accounts.actor import SYSTEM, Actor, TokenBounds
from apps.accounts.models import User
from apps.contrib.schedulers.services import connect_scheduler
from apps.contrib.search.jobs import JobHit
from apps.contrib.search.selectors import Group, search_everything
from apps.priorities import charges
from apps.priorities.serving import store
from apps.usage.models import Record
from apps.usage.services import NewSource, PushedRecords, make_source, push_records
from tests.contrib.schedulers.reports import instant, job, report
from tests.instants import AT
from tests.pages.page import read
from tests.rest_site import Caller
from tests.sign_in import sign_in
from tests.small_site import Site

pytestmark = pytest.mark.django_db


@pytest.fixture
def site(computed_site: Site) -> Site:
    """Records 1 (alice), 2 (bob), 3 (carol) and the array 12 (bob); 101, 102, 103 and the array 9 wait in c1."""
    store.poll()
    new = NewSource(slug="cluster-b", name="Cluster B", namespace="a", site="s1")
    make_source(new, at=AT, actor=SYSTEM)
    push(*({"job": "12", "array_task": task, "user": "bob", "group": "physics"} for task in ("1", "3")))
    push({"job": "1", "user": "carol", "group": "biology"}, source="cluster-b")
    connect_scheduler(policy_slug="grid", name="c1", settings={"mode": "on", "namespace": "a"}, at=AT, actor=SYSTEM)
    agent = Caller(token=computed_site.token("schedulers", "priorities:read", policy_slug="grid"))
    queue = [
        job("101"),
        job("102", "bob", state="held"),
        job("103", "carol", "biology"),
        job("9", "bob", array_task="2-8:2,11%4"),
    ]
    assert agent.post("schedulers/c1/passes", report(queue=queue)).status_code == 200
    return computed_site


def push(*jobs: dict[str, Any], source: str = "cluster-a") -> None:
    times = {name: instant(AT - timedelta(hours=ago)) for name, ago in (("start", 3), ("end", 2))}
    body = json.dumps([{**times, "cpus": 1, **each} for each in jobs]).encode()
    records = PushedRecords(
        source_slug=source,
        body_stream=BytesIO(body),
        content_type="application/json",
        gzip=False,
        idempotency_key=None,
        atomic=True,
    )
    push_records(records, at=AT, actor=SYSTEM)


def group_of(query: str, user: User, **more: Any) -> Group | None:
    found = search_everything(query=query, actor=Actor(user=user, via="page"), only="jobs", **more)
    return next(iter(found.groups), None)


def jobs(query: str, user: User) -> list[tuple[str, str, str, str]]:
    group = group_of(query, user)
    hits = [] if group is None else [hit for hit in group.hits if isinstance(hit, JobHit)]
    return [(hit.title, hit.user, hit.state, hit.origin) for hit in hits]


def test_a_number_finds_the_waiting_job_or_the_record(site: Site) -> None:
    assert jobs("101", site.admin) == [("101", "alice", "pending", "c1")]
    assert jobs("102", site.admin) == [("102", "bob", "held", "c1")]
    assert [hit[1:3] for hit in jobs("1", site.admin)] == [("carol", "finished"), ("alice", "finished")]
    assert [hit[1] for hit in jobs("cluster-b:1", site.admin)] == ["carol"], "the number of one source"
    assert [hit[1] for hit in jobs("c1:101", site.admin)] == ["alice"], "or of one scheduler"
    assert jobs("nowhere:1", site.admin) == []


@pytest.mark.parametrize("query", ["12_3", "12[3]", "  12_3 "])
def test_a_task_of_an_array_is_found(site: Site, query: str) -> None:
    assert [hit[0] for hit in jobs(query, site.admin)] == ["12[3]"]
    assert [hit[0] for hit in jobs("12", site.admin)] == ["12[3]", "12[1]"]


@pytest.mark.parametrize(("query", "n"), [("9_4", 1), ("9[11]", 1), ("9_5", 0), ("9_12", 0), ("9", 1), ("9_4x", 0)])
def test_a_task_is_found_among_tasks_that_wait_together(site: Site, query: str, n: int) -> None:
    assert len(jobs(query, site.admin)) == n


@pytest.mark.parametrize(
    ("query", "title"),
    [
        ("9_[2-8:2,11%4]", "9[2-8:2,11%4]"),
        ("c1:9_[2-8:2,11%4]", "9[2-8:2,11%4]"),
        ("12_3.batch", "12[3]"),
        ("101.0", "101"),
        ("cluster-a:12[3].extern", "12[3]"),
    ],
)
def test_a_number_is_found_as_slurm_prints_it(site: Site, query: str, title: str) -> None:
    assert [hit[0] for hit in jobs(query, site.admin)] == [title]


def test_a_number_with_a_point_is_found_before_that_of_a_step(site: Site) -> None:
    push({"job": "101.0", "user": "bob", "group": "physics"})
    assert [hit[:2] for hit in jobs("101.0", site.admin)] == [("101.0", "bob")]


@pytest.mark.parametrize("query", ["", "alice", "job 101", "1" * 129, "a:", ":", "10", "1%", "1_"])
def test_what_is_no_number_of_a_job_finds_none(site: Site, query: str) -> None:
    assert jobs(query, site.admin) == []


def test_readers_find_their_own_jobs_and_those_whose_names_they_may_read(site: Site) -> None:
    everything = ("101", "102", "103", "1", "2", "3", "12", "9_4")
    found = {user.username: {one for one in everything if jobs(one, user)} for user in (site.alice, site.pia, site.ben)}
    assert found["alice"] == {"101", "1"}
    assert found["pia"] == {"101", "102", "1", "2", "12", "9_4"}
    assert found["ben"] == {"103", "1", "3"}, "1 of source b is carol's"
    assert [hit[1] for hit in jobs("1", site.ben)] == ["carol"]
    assert {one for one in everything if jobs(one, site.nobody)} == set()


def test_what_is_found_opens(site: Site) -> None:
    for user in (site.admin, site.alice, site.pia):
        client = Client()
        sign_in(client, user)
        for number in ("101", "1", "12_3", "9_4"):
            page = read(client.get("/search/", {"q": number, "in": "jobs"}))
            urls = page.each("[data-testid=hit] a", "href")
            assert len(urls) == len(jobs(number, user))
            assert [client.get(url).status_code for url in urls] == [200] * len(urls), urls


def test_a_token_of_a_subtree_finds_no_job_outside_it(site: Site) -> None:
    bounds = TokenBounds("t", frozenset({"policies:read", "self:read"}), policy_slug="grid")
    for path, n in (("/physics", 0), ("/biology", 1)):
        actor = Actor(user=site.ben, via="token", token=bounds.__class__(**_with(bounds, subtree_uid=site.uid(path))))
        found = search_everything(query="3", actor=actor, only="jobs")
        assert sum(len(group.hits) for group in found.groups) == n, path


def _with(bounds: TokenBounds, **more: Any) -> dict[str, Any]:
    return {**{name: getattr(bounds, name) for name in bounds.__dataclass_fields__}, **more}


@pytest.mark.parametrize("name", ["alice", "pia", "ben", "nobody"])
def test_a_hidden_number_asks_the_database_what_an_unknown_one_asks(site: Site, name: str) -> None:
    user = getattr(site, name)
    hidden = "3" if name in ("alice", "pia") else "2"
    asked = []
    for number in ("77777", hidden, "77777", hidden):
        with CaptureQueriesContext(
            connection,
        ) as queries:
            assert group_of(number, user) is None
        asked.append(len(queries))
    assert len(set(asked[1:])) == 1, asked


@pytest.mark.deep
def test_no_number_scans_the_records(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    Record.objects.bulk_create(
        [
            Record(source_id=record.source_id, account_id=record.account_id, job_class_id=record.job_class_id,
                   job=f"{1_000 + n}", job_number=1_000 + n, key_hash=n, state="pending", submit_at=AT)
            for record in Record.objects.all()[:1]
            for n in range(5_000)
        ]
    )  # fmt: skip
    plans = []

    def explained(execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Any) -> Any:
        if "usage_record" in sql and sql.lstrip().startswith(("SELECT", "WITH")):
            execute(f"EXPLAIN {sql}", params, many, context)
            plans.append("\n".join(row[0] for row in context["cursor"].fetchall()))
        return execute(sql, params, many, context)

    for analysed in (False, True):
        if analysed:
            with connection.cursor() as cursor:
                cursor.execute("ANALYZE usage_record")
        for user in (site.admin, site.alice, site.pia):
            with connection.execute_wrapper(explained):
                for number in ("1", "12_3", "cluster-b:1", "5000", "77777"):
                    group_of(number, user)
    assert len(plans) >= 30
    assert [plan for plan in plans if "Seq Scan on usage_record" in plan] == []


def test_a_large_array_is_cut_and_not_counted(site: Site) -> None:
    push(*({"job": "4711", "array_task": str(n), "user": "alice", "group": "physics"} for n in range(1, 151)))
    for user in (site.admin, site.alice):
        group = group_of("4711", user)
        assert group is not None
        assert (len(group.hits), group.n) == (5, None)
        group = group_of("4711", user, most=100)
        assert group is not None
        assert len(group.hits) == 100
    assert (
        charges.find_by_number(policy_slug="grid", job="4711", limit=3, actor=Actor(user=site.alice, via="page"))[
            0
        ].path
        == "/physics/alice"
    )


def test_the_palette_says_kind_state_and_origin(site: Site) -> None:
    client = Client()
    sign_in(client, site.admin)
    page = read(client.get("/search/_results", {"q": "102"}, headers={"HX-Request": "true"}))
    assert page.each("[data-testid=group]", "data-key")[0] == "jobs"
    (url,) = page.each("[data-key=jobs] [role=option]", "href")
    assert url == "/policy/grid/jobs/why/102/?scheduler=c1"
    answer = client.get("/search/_results", {"q": "102"}, headers={"HX-Request": "true"}).content.decode()
    assert "Held job of bob · c1 · grid" in answer.replace("Grid", "grid")


def test_rest_answers_jobs_in_their_own_group(site: Site) -> None:
    caller = Caller(token=site.token("policies:read"))
    (group,) = caller.get("search", {"q": "102", "only": "jobs"}).json()["groups"]
    (hit,) = group["hits"]
    assert (group["kind"], group["n"]) == ("jobs", 1)
    assert {name: hit[name] for name in ("kind", "title", "match", "policy", "state", "id")} == {
        "kind": "job", "title": "102", "match": "begins", "policy": "grid", "state": "held", "id": None,
    }  # fmt: skip
    (group,) = caller.get("search", {"q": "2", "only": "jobs"}).json()["groups"]
    assert (group["hits"][0]["state"], group["hits"][0]["path"]) == ("finished", "/physics/bob")
    assert group["hits"][0]["id"] == str(Record.objects.get(job="2").pk)
