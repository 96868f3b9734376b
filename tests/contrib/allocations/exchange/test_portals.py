"""Projects and allocations of ColdFront and Waldur: planned, imported once, and usage in their terms."""

from __future__ import annotations

import copy
import io
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, urlsplit
from zoneinfo import ZoneInfo

import pytest
from django.core.management import CommandError, call_command
from django.test import override_settings

from apps.accounts.actor import COMMAND, SYSTEM, Actor
from apps.accounts.models import AuditEvent
from apps.contrib.allocations import services
from apps.contrib.allocations.exchange import coldfront, waldur
from apps.contrib.allocations.exchange.portal_fetch import PortalFailed, fetch_coldfront, fetch_waldur
from apps.contrib.allocations.exchange.portal_import import (
    PortalImport,
    PortalOptions,
    PortalPlan,
    import_portal,
    plan_portal,
)
from apps.contrib.allocations.exchange.portal_usage import portal_usage
from apps.contrib.allocations.exchange.portals import PortalTerms, UnitRule, read_unit_rules
from apps.core.errors import Invalid, NotAllowed
from apps.policies.models import Allocation, ChangeSet, Policy
from apps.policies.services import change_settings
from apps.policies.tree.stored import load_tree
from tests.contrib.allocations.exchange.portal_answers import COLDFRONT, R1, R2, WALDUR, cf_allocation, cf_project
from tests.instants import AT
from tests.policies import conftest as policies
from tests.small_site import build_site

policy, tree, alice, bob, charlie = policies.policy, policies.tree, policies.alice, policies.bob, policies.charlie

GOLDEN = Path(__file__).parents[3] / "golden/portals"
YEAR = PortalTerms(units=read_unit_rules([]), starts_on=date(2026, 1, 1), ends_on=date(2026, 12, 31))
GPU_HOUR = {"name": "GPU-hour", "symbol": "GPU-h", "weights": {"gpu_s": 1.0}}


def plan(answers: Mapping[str, Any], terms: PortalTerms = YEAR, actor: Actor = SYSTEM, **options: Any) -> PortalPlan:
    state = coldfront.read(answers, terms) if "projects" in answers else waldur.read(answers, terms)
    return plan_portal(policy_slug="grid", state=state, options=PortalOptions(**options), at=AT, actor=actor)


def bring(
    answers: Mapping[str, Any], terms: PortalTerms = YEAR, actor: Actor = SYSTEM, publish: bool = False, **options: Any
) -> PortalImport:
    state = coldfront.read(answers, terms) if "projects" in answers else waldur.read(answers, terms)
    asked = PortalOptions(**options)
    return import_portal(
        policy_slug="grid", state=state, options=asked, publish=publish, reason="Sync", at=AT, actor=actor
    )


def current() -> list[tuple[str, float, str]]:
    rows = services.list_allocations(policy_slug="grid", at=AT, actor=SYSTEM)
    return [(path, row.amount, row.unit) for row, path in rows]


def paths(policy: Policy) -> set[str]:
    policy.refresh_from_db()
    tree = load_tree(policy)
    return {tree.path(i) for i in range(1, len(tree))}


def problems(answers: Mapping[str, Any], terms: PortalTerms = YEAR, **options: Any) -> list[str]:
    return [f"{each.where}: {each.message}" for each in plan(answers, terms, **options).problems]


def test_coldfront_becomes_a_change_set_and_audited_allocations(policy: Policy, alice: Actor) -> None:
    before = paths(policy)
    done = bring(COLDFRONT, actor=alice, publish=True)
    assert done.revision is not None
    assert paths(policy) - before == {
        "/qgp", "/qgp/cgray", "/qgp/csimmons", "/physics/dora", "/Nobody's yet", "/Nobody's yet/eve"
    }  # fmt: skip
    assert current() == [("/physics", 2500.5, "core-h"), ("/qgp", 100_000.0, "core-h")]
    assert done.plan.left_out == ("1 allocation Denied",)
    given = AuditEvent.objects.filter(verb="allocation.given")
    assert [(each.actor_name, each.reason) for each in given] == [("alice", "Sync")] * 2
    again = bring(COLDFRONT, actor=alice, publish=True)
    assert again.plan.is_empty
    assert (again.change_set, again.plan.counts["same"]) == (None, 2)


def test_the_sample_of_a_real_coldfront_is_read(policy: Policy) -> None:
    """Answers of ColdFront 1.1.10 with its own sample data; its allocations of storage and servers have no account."""
    answers = json.loads((GOLDEN / "coldfront-1.1.10.json").read_text())
    before = paths(policy)
    bring(answers, publish=True)
    quantum_hall = "/Measuring critical behavior of quantum Hall transitions"
    assert paths(policy) - before == {
        "/cgray", "/cgray/cgray", "/cgray-metered", "/cgray-metered/cgray", quantum_hall, f"{quantum_hall}/sfoster"
    }  # fmt: skip
    assert current() == [(quantum_hall, 1000.0, "core-h"), ("/cgray-metered", 150_000.0, "core-h")]
    assert bring(answers, publish=True).plan.is_empty


def test_a_draft_is_made_once_and_allocations_of_new_projects_wait_for_it(policy: Policy) -> None:
    done = bring(COLDFRONT)
    assert current() == [("/physics", 2500.5, "core-h")]
    assert done.plan.counts == {
        "entries": 6, "archived": 0, "add": 1, "change": 0, "withdraw": 0, "same": 0, "waiting": 1
    }  # fmt: skip
    assert done.change_set is not None
    assert bring(COLDFRONT).change_set == done.change_set
    assert ChangeSet.objects.filter(origin="import").count() == 1
    bring(COLDFRONT, publish=True)
    assert current() == [("/physics", 2500.5, "core-h"), ("/qgp", 100_000.0, "core-h")]


def test_waldur_limits_are_allocations_in_the_units_named(policy: Policy) -> None:
    change_settings(policy_slug="grid", settings={"units": [GPU_HOUR]}, reason="GPUs", at=AT, actor=SYSTEM)
    terms = PortalTerms(units=read_unit_rules(["cpu=core-h*1000", "gpu = GPU-h"]))
    done = bring(WALDUR, terms, publish=True)
    assert current() == [("/climate", 1000.0, "core-h"), ("/physics", 3000.0, "core-h"), ("/physics", 2.0, "GPU-h")]
    assert set(done.plan.left_out) == {"1 resource Terminated", "1 limit of ram: no unit is named"}
    assert "/physics/zoe" in paths(policy)
    days = Allocation.objects.get(amount=1000)
    assert (days.starts_on, days.ends_on) == (date(2026, 3, 5), date(2027, 6, 30))
    assert bring(WALDUR, terms, publish=True).plan.is_empty


def test_members_may_be_left_out_or_archived_when_they_left(policy: Policy) -> None:
    bring(COLDFRONT, publish=True)
    assert not plan(COLDFRONT, members=False).operations
    fewer = copy.deepcopy(COLDFRONT)
    fewer["projects"][1]["project_users"][1]["status"] = "Removed"
    assert plan(fewer).is_empty
    gone = {str(each.get("entry")) for each in plan(fewer, archive_missing=True).operations}
    policy.refresh_from_db()
    tree = load_tree(policy)
    dora = tree.index_of_path("/physics/dora")
    assert dora is not None
    assert str(tree.uuid(dora)) in gone
    assert {each["op"] for each in plan(fewer, archive_missing=True).operations} == {"archive"}


def test_amounts_of_one_project_and_days_are_added_up(policy: Policy) -> None:
    answers = {
        "projects": [cf_project(1, "physics", allocations=(1, 2))],
        "allocations": [cf_allocation(1, "physics", 100), cf_allocation(2, "physics", 100)],
    }
    bring(answers)
    assert current() == [("/physics", 200.0, "core-h")]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda a: a["allocations"][1].update(allocation_attributes=7), "must be a list of objects"),
        (lambda a: a["allocations"][1]["allocation_attributes"][0].update(value="plenty"), "'plenty' is no number"),
        (lambda a: a["allocations"][1]["allocation_attributes"][0].update(value="0"), "is 0: write an amount above 0"),
        (lambda a: a["allocations"][1]["allocation_attributes"][0].update(value="-5"), "must be above 0"),
        (lambda a: a["allocations"][1]["allocation_attributes"][0].update(value="9e99"), "at most 1e+15"),
        (lambda a: a["allocations"][1].update(end_date="2025-01-01"), "exchange them"),
        (lambda a: a["projects"][0].update(title="a/b") or a["allocations"].clear(), "rename it in the portal"),
        (lambda a: a["projects"][1]["project_users"][0].update(user="a/b"), "rename it in the portal"),
        (lambda a: a.update(projects={"results": []}), "must be a list of objects"),
    ],
)
def test_what_cannot_be_imported_is_named_with_its_place(
    policy: Policy, change: Callable[[dict[str, Any]], object], words: str
) -> None:
    answers = copy.deepcopy(COLDFRONT)
    change(answers)
    assert [each for each in problems(answers) if words in each], problems(answers)
    with pytest.raises(Invalid):
        bring(answers, publish=True)
    assert current() == []
    assert not ChangeSet.objects.filter(origin="import").exists()


def test_missing_days_and_unknown_units_are_named(policy: Policy) -> None:
    no_days = PortalTerms(units=YEAR.units)
    assert problems(COLDFRONT, no_days) == [
        f"allocation 7, Core Usage (Hours), {name}: the portal names no day: state it for all such allocations, "
        f"with {name}"
        for name in ("starts_on", "ends_on")
    ]
    service_units = PortalTerms(
        units={"Core Usage (Hours)": UnitRule("SU")}, starts_on=YEAR.starts_on, ends_on=YEAR.ends_on
    )
    assert [each.partition("'SU' is no unit of the policy")[0] for each in problems(COLDFRONT, service_units)] == [
        "allocation 7, Core Usage (Hours), unit: ",
        "allocation 8, Core Usage (Hours), unit: ",
    ], "also of projects that aren't entries yet"
    with pytest.raises(Invalid, match="there is no entry '/nowhere'"):
        plan(COLDFRONT, below="/nowhere")
    for text in ("cpu", "cpu=", "=core-h", "cpu=core-h*0", "cpu=core-h*x", "cpu=core-h*1e999"):
        with pytest.raises(Invalid):
            read_unit_rules([text])


def test_rights_hold_for_portals(policy: Policy, bob: Actor, charlie: Actor) -> None:
    for actor in (bob, charlie):
        with pytest.raises((Invalid, NotAllowed)):
            bring(COLDFRONT, actor=actor, publish=True)
    assert current() == []
    assert "/qgp" not in paths(policy)


def test_ten_thousand_projects_are_planned(policy: Policy) -> None:
    answers = {
        "projects": [cf_project(n, f"p{n}", (), (n,)) for n in range(9_000)],
        "allocations": [cf_allocation(n, f"p{n}", n + 1) for n in range(9_000)],
    }
    big = plan(answers)
    assert (big.counts["entries"], big.counts["waiting"]) == (9_000, 9_000)
    assert not big.problems
    answers["projects"] += [cf_project(n, f"p{n}") for n in range(9_000, 10_500)]
    assert "a change set holds 10,000" in problems(answers)[0]


@dataclass
class Pages:
    """A portal on this host. answer: status, headers and body for a path with its query."""

    answer: Callable[[str], tuple[int, dict[str, str], bytes]]
    asked: list[tuple[str, str]] = field(default_factory=list)
    url: str = ""


@contextmanager
def portal(answer: Callable[[str], tuple[int, dict[str, str], bytes]]) -> Iterator[Pages]:
    pages = Pages(answer)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            pages.asked.append((self.path, self.headers.get("Authorization", "")))
            status, headers, body = pages.answer(self.path)
            self.send_response(status)
            for name, value in {"Content-Length": str(len(body)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    place = f"127.0.0.1:{server.server_port}"
    pages.url = f"http://{place}"
    try:
        with override_settings(FAIRSHARE_OUTBOUND_ALLOW=[place]):
            yield pages
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def as_json(value: object, **headers: str) -> tuple[int, dict[str, str], bytes]:
    return 200, {"Content-Type": "application/json", **headers}, json.dumps(value).encode()


def test_coldfront_is_fetched_whole_or_paged(db: None) -> None:
    with portal(lambda path: as_json(COLDFRONT[path.split("/")[2]])) as pages:
        assert fetch_coldfront(pages.url + "/", "s3cret") == COLDFRONT
    assert {token for _, token in pages.asked} == {"Token s3cret"}
    assert [path for path, _ in pages.asked] == [
        "/api/projects/?project_users=true&allocations=true",
        "/api/allocations/?allocation_attributes=true&allocation_users=true",
    ]

    def one_a_page(path: str) -> tuple[int, dict[str, str], bytes]:
        whole, n = COLDFRONT[path.split("/")[2]], int(parse_qs(urlsplit(path).query).get("page", ["1"])[0])
        onward = f"{pages.url}{path.split('?')[0]}?page={n + 1}" if n < len(whole) else None
        return as_json({"count": len(whole), "next": onward, "previous": None, "results": whole[n - 1 : n]})

    with portal(one_a_page) as pages:
        assert fetch_coldfront(pages.url, "s3cret") == COLDFRONT
    assert len(pages.asked) == 7


def test_waldur_is_fetched_by_its_links_with_teams(db: None) -> None:
    def answer(path: str) -> tuple[int, dict[str, str], bytes]:
        parts = path.split("?")[0].split("/")
        if parts[4:5] == ["team"]:
            return as_json(WALDUR["teams"][parts[3]], **{"X-Result-Count": str(len(WALDUR["teams"][parts[3]]))})
        first = "page=2" not in path
        some = WALDUR["resources"][:2] if first else WALDUR["resources"][2:]
        link = f'<{pages.url}/api/x>; rel="first", <{pages.url}{path}&page=2>; rel="next"' if first else ""
        return as_json(some, Link=link, **{"X-Result-Count": "3"})

    with portal(answer) as pages:
        assert fetch_waldur(pages.url, "s3cret") == WALDUR


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ((401, {}, b"{}"), "doesn't accept the token"),
        ((403, {}, b"{}"), "view all projects"),
        ((404, {}, b"<html>"), "REST plug-in"),
        ((413, {}, b""), "too large"),
        ((429, {}, b""), "try again later"),
        ((500, {}, b""), "status 500"),
        ((302, {"Location": "https://elsewhere.example/api/"}, b""), "redirects to https://elsewhere.example"),
        ((200, {}, b'[{"id": 1}, {"id"'), "no complete JSON"),
        ((200, {"Content-Length": "500"}, b'[{"id": 1}]'), "try again"),
        ((200, {}, b"[" * 100_000), "no complete JSON"),
        ((200, {}, b"<html>sign in</html>"), "no complete JSON"),
        ((200, {}, b'{"detail": "x"}'), "no list of objects"),
        ((200, {}, b"[1, 2]"), "no list of objects"),
        ((200, {}, b'{"count": 5, "next": null, "results": [{"id": 1}]}'), "announced 5 objects"),
        ((200, {}, b'{"count": 1, "next": "http://127.0.0.1:1/", "results": []}'), "the token isn't sent"),
    ],
)
def test_a_portal_that_fails_is_named_with_the_remedy(
    db: None, answer: tuple[int, dict[str, str], bytes], words: str
) -> None:
    with portal(lambda path: answer) as pages, pytest.raises(PortalFailed, match=words):
        fetch_coldfront(pages.url, "s3cret")
    assert len(pages.asked) == 1


def test_pages_in_a_circle_end(db: None) -> None:
    def answer(path: str) -> tuple[int, dict[str, str], bytes]:
        return as_json({"next": pages.url + path, "results": [{"id": 1}]})

    with portal(answer) as pages, pytest.raises(PortalFailed, match="in a circle"):
        fetch_coldfront(pages.url, "s3cret")
    assert len(pages.asked) == 1


def test_usage_is_given_in_the_terms_of_each_portal(db: None) -> None:
    """Alice used 6 core-hours and bob 1 in physics, carol 3 in biology."""
    at = datetime(2026, 11, 20, 12, tzinfo=ZoneInfo("UTC"))
    site = build_site(at)
    zone = ZoneInfo("UTC")
    whole: dict[str, Any] = {"policy_slug": site.policy.slug, "below": "/", "zone": zone, "at": at, "actor": COMMAND}
    answers = {
        "projects": [cf_project(1, "physics", allocations=(1, 2)), cf_project(2, "biology", allocations=(3,))],
        "allocations": [
            cf_allocation(1, "physics", 300),
            cf_allocation(2, "physics", 100),
            cf_allocation(3, "biology", 50),
            cf_allocation(4, "unknown", 50),
        ],
    }
    used = portal_usage(**whole, state=coldfront.read(answers, YEAR), rules=YEAR.units)
    name = "Core Usage (Hours)"
    assert used == {("1", name): 7 * 0.75, ("2", name): 7 * 0.25, ("3", name): 3.0}
    shown = coldfront.usage_answer(answers, used)
    assert [each["id"] for each in shown] == [1, 2, 3]
    assert shown[0]["allocation_attributes"] == [{"allocation_attribute_type": name, "value": "300", "usage": 5.25}]
    terms = PortalTerms(units=read_unit_rules(["cpu=core-h*1000"]))
    resources = {
        "resources": [
            r | {"backend_id": n} for r, n in zip(WALDUR["resources"], ("physics", "biology", "x"), strict=True)
        ]
    }
    monthly = portal_usage(
        **whole, state=waldur.read(resources, terms), rules=terms.units, since=at.date().replace(day=1)
    )
    assert waldur.usage_answer(monthly) == [
        {"resource": R1, "usages": [{"type": "cpu", "amount": "0.01"}]},
        {"resource": R2, "usages": [{"type": "cpu", "amount": "0.00"}]},
    ]
    later = portal_usage(
        **whole, state=waldur.read(resources, terms), rules=terms.units, since=(at + timedelta(days=30)).date()
    )
    assert set(later.values()) == {0.0}


def test_hours_of_resources_with_other_days_are_reported_once(db: None) -> None:
    """Seven core-hours of physics: the resource that ends first pays 4, the other one 3; after today none."""
    at = datetime(2026, 11, 20, 12, tzinfo=ZoneInfo("UTC"))
    site = build_site(at)
    terms = PortalTerms(units=read_unit_rules(["cpu=core-h"]))
    ends = {R1: ("2026-11-30", 4.0), R2: ("2026-12-31", 100.0)}
    resources = [
        {"uuid": uuid, "state": "OK", "backend_id": "physics", "limits": {"cpu": n}}
        | {"start_date": "2026-01-01", "end_date": end}
        for uuid, (end, n) in ends.items()
    ]
    state = waldur.read({"resources": resources}, terms)
    for since in (None, date(2026, 11, 1), date(2026, 11, 21)):
        used = portal_usage(
            policy_slug=site.policy.slug,
            state=state,
            rules=terms.units,
            below="/",
            since=since,
            zone=ZoneInfo("UTC"),
            at=at,
            actor=COMMAND,
        )
        is_over = since == date(2026, 11, 21)
        assert used == ({(R1, "cpu"): 0, (R2, "cpu"): 0} if is_over else {(R1, "cpu"): 4, (R2, "cpu"): 3}), since


def run(*arguments: object) -> str:
    out = io.StringIO()
    call_command(*map(str, arguments), stdout=out, stderr=io.StringIO())
    return out.getvalue()


def test_the_command_fetches_previews_imports_and_prints_usage(policy: Policy, tmp_path: Path, settings: Any) -> None:
    settings.FAIRSHARE_SECRETS_DIR = str(tmp_path)
    secret = tmp_path / "campus"
    secret.write_text("s3cret\n")
    secret.chmod(0o600)
    days = ("--starts-on", "2026-01-01", "--ends-on", "2026-12-31")
    with portal(lambda path: as_json(COLDFRONT[path.split("/")[2]])) as pages:
        dumped = run("portal", "fetch", "--from", "coldfront", "--url", pages.url, "--secret", "campus")
        asked = ("--policy", "grid", "--from", "coldfront", "--url", pages.url, "--secret", "campus", *days)
        preview = run("portal", "import", *asked, "--dry-run")
        assert preview.splitlines()[0] == "dry run, grid: entries: 6, add: 1, waiting: 1"
        assert current() == []
        output = run("portal", "import", *asked, "--publish", "--reason", "Sync")
        assert output.splitlines()[-1].startswith("published as revision")
    file = tmp_path / "answers.json"
    file.write_text(dumped)
    usage = json.loads(run("portal", "usage", "--policy", "grid", "--from", "coldfront", "--file", file, *days))
    assert [each["id"] for each in usage] == [7, 8]
    with pytest.raises(CommandError, match="file or an address"):
        run("portal", "import", "--policy", "grid", "--from", "coldfront")
    with pytest.raises(CommandError, match="--reason"):
        run("portal", "import", "--policy", "grid", "--from", "coldfront", "--file", file, *days)
