"""Shadow mode by page, REST and command: the same differences, a figure over time, and switching on."""

from __future__ import annotations

import io
import json
from datetime import timedelta

import pytest
from django.core.management import call_command
from django.http import QueryDict
from django.test import Client

from apps.contrib.schedulers.figures import agreement_figure
from apps.contrib.schedulers.models import Scheduler
from apps.contrib.schedulers.records import AgreementDays, AgreementPoint
from tests.contrib.schedulers.reports import report
from tests.instants import AT
from tests.pages.page import read
from tests.rest_site import Caller, refused
from tests.sign_in import sign_in
from tests.small_site import Site
from tests.web.figures.schema import check_schema

pytestmark = pytest.mark.django_db
ROWS = [("root", None, None), ("physics", None, "root"), ("biology", None, "root"),
        ("physics", "alice", None), ("physics", "bob", None), ("biology", "carol", None)]  # fmt: skip


@pytest.fixture
def listed(agent: Caller) -> Scheduler:
    values = [
        {"cluster": "c1", "group": group, "user": user, "parent": parent, "raw_shares": 1, "raw_usage": 10 * n,
         "fairshare": None if user is None else n / 10}
        for n, (group, user, parent) in enumerate(ROWS)
    ]  # fmt: skip
    assert agent.post("schedulers/c1/passes", report(values=values)).status_code == 200
    return Scheduler.objects.get(name="c1")


def test_rest_command_and_page_have_the_same_differences(
    listed: Scheduler, manager: Caller, client: Client, site: Site
) -> None:
    found = manager.get("schedulers/c1/differences").json()["comparison"]
    assert (found["users"], found["scale"]) == (3, "position")
    for one in found["differences"]:
        assert one["by_usage"] + one["by_tree"] + one["by_rule"] == pytest.approx(one["difference"], abs=1e-12)
    out = io.StringIO()
    call_command("scheduler", "differences", "c1", "--json", stdout=out)
    assert json.loads(out.getvalue()) == found
    sign_in(client, site.admin)
    page = read(client.get("/schedulers/c1/shadow/"))
    assert [one.attributes["data-key"] for one in page.items("difference")] == [
        one["reason"] for one in found["differences"]
    ]


def test_partitions_are_enabled_one_by_one(listed: Scheduler, manager: Caller) -> None:
    def on(**body: object) -> dict[str, object]:
        tag = manager.get("schedulers/c1").headers["ETag"]
        answer = manager.post("schedulers/c1/on", body, If_Match=tag)
        assert answer.status_code == 200, answer.content
        return answer.json()  # type: ignore[no-any-return]

    Scheduler.objects.update(mode="shadow")
    assert [on(partitions=["batch"])[name] for name in ("mode", "partitions")] == ["on", ["batch"]]
    assert on(partitions=["gpu", "batch"], subtree="/physics")["partitions"] == ["batch", "gpu"]
    out = io.StringIO()
    call_command("scheduler", "switch-on", "c1", "--all", stdout=out)
    assert out.getvalue() == "c1 is on: all partitions, /\n"
    tag = manager.get("schedulers/c1").headers["ETag"]
    assert refused(manager.post("schedulers/c1/on", {}, If_Match=tag))[1] == "no_scope"


def test_check_findings_are_listed_first(listed: Scheduler, client: Client, site: Site) -> None:
    Scheduler.objects.update(mode="shadow", checks=[{"code": "double_counting", "severity": "error"}])
    sign_in(client, site.admin)
    tag = str(listed.revision)
    answer = client.post("/schedulers/c1/shadow/on/", {"partition": "batch", "tag": tag})
    assert answer.status_code == 409
    assert "double_counting. It checks again at its next pass, within 30 s" in answer.content.decode()
    assert Scheduler.objects.get().mode == "shadow"


def test_the_figure_shows_the_last_tau_and_its_start() -> None:
    points = [AgreementPoint(AT + timedelta(hours=n), 40, 0.9 + n / 50, 0.95, 0.5) for n in range(5)]
    figure = agreement_figure(AgreementDays("c1", "grid", points), QueryDict(""))
    check_schema(figure)
    assert "99 of 100 pairs of 40 users have the same order. Fewer than 98 last at" in figure.sentence
    assert [row[2] for row in figure.table.rows] == ["0.980", "0.960", "0.940", "0.920", "0.900"]
    nothing = agreement_figure(AgreementDays("c1", "grid", []), QueryDict(""))
    assert (nothing.empty != "", list(nothing.traces)) == (True, [])
