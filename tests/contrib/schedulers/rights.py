"""Rows of the rights matrix for the addresses of this plug-in, and the objects that they name."""

from __future__ import annotations

from uuid import uuid4

from apps.accounts.actor import SYSTEM
from apps.contrib.schedulers.models import Scheduler
from apps.contrib.schedulers.orders import tag_of as tag_of_scheduler
from apps.contrib.schedulers.passes import record_pass
from apps.contrib.schedulers.services import connect_scheduler
from tests.contrib.schedulers.reports import report
from tests.instants import AT
from tests.rights_world import API, HTMX, OPEN, POLICY, Row, World

__all__ = ["MAKERS", "ROWS"]

SCHEDULER = API + "schedulers/<slug:scheduler>"
PASS = report(queue=None)
ROWS = [
    # Operators and resolution (alice sees herself and the way there)
    Row("me/priority/_waiting", "/me/priority/_waiting?policy=grid",
        "302 200 200 200 200 200 302 302 302 302 302", headers=HTMX),
    Row(API + "me/waiting-jobs", "/api/v1/me/waiting-jobs?policy=grid",
        "401 200 200 200 200 200 403 403 403 401 401"),
    # Schedulers: managers of the whole policy; agents have tokens of their own; the queue by whose numbers one sees
    Row(API + "schedulers", "/api/v1/schedulers", "401 403 403 403 403 201 403 403 403 401 401", "post",
        {"name": "c2", "policy": "grid"}, remakes="no_c2", decided_by_body="aside"),
    Row(SCHEDULER, "/api/v1/schedulers/c1", "401 404 404 404 404 200 403 403 404 401 401", "patch", {"step": 7},
        headers={"If-Match": "{of_c1}"}, remakes="scheduler"),
    Row(SCHEDULER, "/api/v1/schedulers/c1?reason=x", "401 404 404 404 404 204 403 403 404 401 401", "delete",
        headers={"If-Match": "{of_c1}"}, remakes="scheduler"),
    Row(SCHEDULER + "/on", "/api/v1/schedulers/c1/on", "401 404 404 404 404 200 403 403 404 401 401", "post",
        {"everything": True}, headers={"If-Match": "{of_c1}"}, remakes="scheduler"),
    Row(SCHEDULER + "/passes", "/api/v1/schedulers/c1/passes", "401 404 404 404 404 200 403 403 403 401 401", "post",
        PASS, remakes="scheduler"),
    Row(API + "schedulers", "/api/v1/schedulers", "401 200 200 200 200 200 403 200 200 401 401", word='"name":"c1"',
        readers="admin"),
    Row(SCHEDULER, "/api/v1/schedulers/c1", "401 404 404 404 404 200 403 404 404 401 401", word='"name":"c1"',
        readers="admin"),
    Row(SCHEDULER + "/differences", "/api/v1/schedulers/c1/differences",
        "401 404 404 404 404 200 403 404 404 401 401"),
    Row(SCHEDULER + "/orders", "/api/v1/schedulers/c1/orders", "401 404 404 404 404 200 403 403 403 401 401",
        word='"name":"c1"', readers="admin"),
    Row(SCHEDULER + "/passes", "/api/v1/schedulers/c1/passes", "401 404 404 404 404 200 403 404 404 401 401",
        word="head1", readers="admin"),
    Row(SCHEDULER + "/queue", "/api/v1/schedulers/c1/queue", "401 404 200 200 200 200 403 200 200 401 401",
        word='"user":"bob"', readers="pia admin dora reader", besides="vera 200 dora 200"),
    Row(SCHEDULER + "/why", "/api/v1/schedulers/c1/why?job=102", "401 404 404 200 404 200 403 200 404 401 401",
        word="/physics/bob", readers="pia admin dora reader", besides="dora 200"),
    Row(POLICY + "/why", "/api/v1/policies/grid/why?job=101", "401 404 200 200 404 200 403 200 404 401 401",
        word="/physics/alice", readers="alice pia admin reader"),
    Row("schedulers/", "/schedulers/", "302 403 403 403 403 200 302 302 302 302 302", word=">c1<", readers="admin"),
    Row("schedulers/new/", "/schedulers/new/", "302 403 403 403 403 200 302 302 302 302 302"),
    Row("schedulers/new/", "/schedulers/new/", "302 403 403 403 403 422 302 302 302 302 302", "post", {"name": "c1"}),
    Row("schedulers/<slug:name>/connect/", "/schedulers/c1/connect/", "302 404 404 404 404 200 302 302 302 302 302"),
    Row("schedulers/<slug:name>/connect/", "/schedulers/c1/connect/", "302 404 404 404 404 422 302 302 302 302 302",
        "post", {}),
    Row("schedulers/<slug:name>/connect/_now", "/schedulers/c1/connect/_now?step=3",
        "302 404 404 404 404 200 302 302 302 302 302", headers=HTMX),
    Row("schedulers/<slug:name>/", "/schedulers/c1/", "302 404 404 404 404 200 302 302 302 302 302", word="head1",
        readers="admin"),
    Row("schedulers/<slug:name>/shadow/", "/schedulers/c1/shadow/", "302 404 404 404 404 200 302 302 302 302 302"),
    Row("schedulers/<slug:name>/shadow/on/", "/schedulers/c1/shadow/on/",
        "302 404 404 404 404 422 302 302 302 302 302", "post", {}),
    Row("schedulers/<slug:name>/figures/agreement", "/schedulers/c1/figures/agreement",
        "302 404 404 404 404 200 302 302 302 302 302"),
    Row("schedulers/<slug:name>/figures/agreement.<str:form>", "/schedulers/c1/figures/agreement.csv",
        "302 404 404 404 404 200 302 302 302 302 302"),
    Row("schedulers/<slug:name>/figures/lag", "/schedulers/c1/figures/lag",
        "302 404 404 404 404 200 302 302 302 302 302"),
    Row("schedulers/<slug:name>/figures/lag.<str:form>", "/schedulers/c1/figures/lag.csv",
        "302 404 404 404 404 200 302 302 302 302 302"),
    Row("schedulers/<slug:name>/settings/", "/schedulers/c1/settings/", "302 404 404 404 404 200 302 302 302 302 302"),
    Row("schedulers/<slug:name>/settings/", "/schedulers/c1/settings/", "302 404 404 404 404 422 302 302 302 302 302",
        "post", {"mode": "on"}),
    Row("schedulers/<slug:name>/switch/", "/schedulers/c1/switch/", "302 404 404 404 404 303 302 302 302 302 302",
        "post", {"to": "pause"}),
    Row("schedulers/<slug:name>/remove/", "/schedulers/c1/remove/", "302 404 404 404 404 200 302 302 302 302 302"),
    Row("schedulers/<slug:name>/remove/", "/schedulers/c1/remove/", "302 404 404 404 404 412 302 302 302 302 302",
        "post", {"tag": "old", "reason": "x"}),
    Row(SCHEDULER + "/shares/orders", "/api/v1/schedulers/c1/shares/orders",
        "401 404 404 404 404 409 403 403 404 401 401", "post", {"tag": "x"}),
    Row(SCHEDULER + "/shares/orders/<int:order>", "/api/v1/schedulers/c1/shares/orders/1",
        "401 404 404 404 404 404 403 403 404 401 401", "delete"),
    Row(SCHEDULER + "/shares/take-over", "/api/v1/schedulers/c1/shares/take-over",
        "401 404 404 404 404 409 403 403 404 401 401", "post", {"tag": "x", "lines": []}),
    Row(SCHEDULER + "/shares/follow", "/api/v1/schedulers/c1/shares/follow",
        "401 404 404 404 404 409 403 403 404 401 401", "post", {}),
    Row(SCHEDULER + "/shares", "/api/v1/schedulers/c1/shares", "401 404 404 404 404 200 403 404 404 401 401"),
    Row(SCHEDULER + "/shares/orders", "/api/v1/schedulers/c1/shares/orders",
        "401 404 404 404 404 200 403 404 404 401 401"),
    Row(SCHEDULER + "/limits", "/api/v1/schedulers/c1/limits", "401 404 404 404 404 200 403 404 404 401 401"),
    Row(SCHEDULER + "/limits", "/api/v1/schedulers/c1/limits", "401 404 404 404 404 409 403 403 404 401 401", "patch",
        {"tag": "x"}),
    Row(SCHEDULER + "/limits/request", "/api/v1/schedulers/c1/limits/request",
        "401 404 404 404 404 409 403 403 404 401 401", "post", {"tag": "x"}),
    Row(SCHEDULER + "/limits/approve", "/api/v1/schedulers/c1/limits/approve",
        "401 404 404 404 404 409 403 403 404 401 401", "post", {"tag": "x"}),
    Row("schedulers/<slug:name>/limits/", "/schedulers/c1/limits/", "302 404 404 404 404 200 302 302 302 302 302"),
    Row("schedulers/<slug:name>/limits/", "/schedulers/c1/limits/", "302 404 404 404 404 422 302 302 302 302 302",
        "post", {"to": "request", "tag": "x"}),
    Row("schedulers/<slug:name>/shares/", "/schedulers/c1/shares/", "302 404 404 404 404 422 302 302 302 302 302",
        "post", {"to": "send", "tag": "x"}),
    Row("schedulers/<slug:name>/shares/", "/schedulers/c1/shares/", "302 404 404 404 404 200 302 302 302 302 302"),
    Row("fairshare-agent.pyz", "/fairshare-agent.pyz", OPEN),
    Row("fairshare-callout.py", "/fairshare-callout.py", OPEN),
    Row("policy/<slug:policy>/jobs/why/", "/policy/grid/jobs/why/", "302 200 200 200 200 200 302 302 302 302 302",
        word=">bob<", readers="pia admin dora"),
    Row("policy/<slug:policy>/jobs/why/<str:job>/", "/policy/grid/jobs/why/102/",
        "302 404 404 200 404 200 302 302 302 302 302", word="/physics/bob", readers="pia admin dora",
        besides="dora 200"),
]  # fmt: skip


def _scheduler(world: World) -> str:
    """c1, with one pass of its agent and a job of each person."""
    if not Scheduler.objects.filter(name="c1").exists():
        given = {"mode": "on", "namespace": "a"}
        connect_scheduler(policy_slug="grid", name="c1", settings=given, at=AT, actor=SYSTEM)
        came = {"started_at": AT, "ended_at": AT, "pass": uuid4()}
        record_pass(name="c1", report=report(**came), body_sha256="", at=AT, actor=SYSTEM)
    world.objects["of_c1"] = f'"{tag_of_scheduler(Scheduler.objects.get(name="c1"))}"'
    return "c1"


def _no_c2(world: World) -> None:
    Scheduler.objects.filter(name="c2").delete()


MAKERS = {"scheduler": _scheduler, "no_c2": _no_c2}
