"""A scheduler is connected in three steps: kind and name, one command with a bounded token, and turning it on."""

from __future__ import annotations

import re
import shlex

import pytest
from django.test import Client

from apps.accounts.actor import COMMAND, Actor
from apps.accounts.models import AuditEvent, Token
from apps.accounts.services import MOST_TOKEN_DAYS, NewToken, make_token, verify_token
from apps.contrib.schedulers.agent_tokens import make_agent_token
from apps.contrib.schedulers.models import Scheduler
from apps.contrib.schedulers.pages.presenters import connecting_command
from apps.core.errors import NotAllowed, Unauthenticated
from tests.contrib.schedulers.reports import job, report
from tests.grants import make_grant
from tests.instants import AT
from tests.pages.page import Page, read
from tests.rest_site import Caller
from tests.sign_in import sign_in
from tests.small_site import Site

pytestmark = pytest.mark.django_db
PASSWORD = "an own long word"
NEW, STEPS = "/schedulers/new/", "/schedulers/c2/connect/"
HTMX = {"HX-Request": "true"}
QUEUE = [job("101", site=20_000, value=99_000), job("102", "bob", site=90_000, value=1_000)]


@pytest.fixture
def admin(site: Site, client: Client) -> Client:
    site.admin.set_password(PASSWORD)
    site.admin.save()
    return sign_in(client, site.admin)


def _fields(client: Client, path: str = NEW, **typed: str) -> dict[str, str]:
    (ticket,) = read(client.get(path)).each("input[name=ticket]", "value")
    return {"ticket": ticket, "password": PASSWORD, **typed}


def _connect(client: Client, **typed: str) -> Page:
    answer = client.post(NEW, _fields(client, **{"kind": "slurm", "name": "c2", "policy": "grid", **typed}))
    assert answer.status_code == 200, answer.content
    assert "no-store" in answer["Cache-Control"]
    return read(answer)


def _token_of(page: Page) -> str:
    return str(re.findall(r"fsh_\w+", page.text("#command"))[0])


def _state(client: Client, path: str = STEPS) -> str:
    (key,) = read(client.get(path)).each("[data-testid=first-report]", "data-key")
    return key


def test_kind_and_name_are_enough_and_the_rest_has_defaults(admin: Client) -> None:
    form = read(admin.get(NEW))
    every = form.each("form.connecting input:not([type=hidden]):not([hidden]), form.connecting select", "name")
    advanced = form.each("#advanced input, #advanced select", "name")
    basic = [name for name in dict.fromkeys(every) if name not in advanced]
    assert basic == ["kind", "name", "policy", "password"]
    assert {"weight", "step", "canary_partition", "snapshot_age_s", "updates_per_min"} <= set(advanced)
    page = _connect(admin, kind="gridengine")
    made = Scheduler.objects.get(name="c2")
    blank = Scheduler(kind="gridengine", knob="override_tickets", mode="shadow", name="c2", policy=made.policy)
    for name in ("kind", "knob", "mode", "weight", "step", "every_s", "partitions", "snapshot_age_s", "reach"):
        assert getattr(made, name) == getattr(blank, name), name
    command = page.text("#command")
    assert f"echo {_token_of(page)} | sudo python3 fairshare-agent.pyz install" in command
    assert "--server http://testserver --scheduler c2" in command
    words = shlex.split(connecting_command("http://[::1]:8000", made, "fsh_a_b"))
    assert {"http://[::1]:8000/fairshare-agent.pyz", "http://[::1]:8000"} <= set(words)
    assert "'http://[::1]:8000' --scheduler c2" in connecting_command("http://[::1]:8000", made, "fsh_a_b")


def test_the_token_is_for_this_scheduler_alone_and_made_with_it_or_not_at_all(site: Site, admin: Client) -> None:
    page = _connect(admin)
    token = Token.objects.get(scheduler_name="c2")
    assert (sorted(token.scopes), token.policy_slug) == (["priorities:read", "schedulers"], "grid")
    assert (token.expires_at - token.created_at).days == MOST_TOKEN_DAYS
    verbs = AuditEvent.objects.filter(verb__in=("scheduler.connected", "token.made")).order_by("-id")[:2]
    assert {each.verb for each in verbs} == {"scheduler.connected", "token.made"}
    assert "fsh_" not in read(admin.get(STEPS)).text("body"), "it is shown once"
    Caller(token=site.token("policies:write")).post("schedulers", {"name": "c3", "policy": "grid"})
    agent = Caller(token=_token_of(page))
    assert agent.get("schedulers/c2/orders").status_code == 200
    assert agent.post("policies/grid/priorities/lookup", {"accounts": [{"user": "alice"}]}).status_code == 200
    refused = {
        "schedulers/c3/orders": 404, "schedulers/c3": 403, "policies/other/priorities?account=x": 404, "tokens": 403,
        "policies/grid/tree": 403, "schedulers/c2/queue": 403, "schedulers": 403,
    }  # fmt: skip
    assert {path: agent.get(path).status_code for path in refused} == refused
    assert agent.post("schedulers/c3/passes", report()).status_code == 404


@pytest.mark.parametrize("scopes", [["admin"], ["policies:read", "policies:write", "self:read"]])
def test_scopes_beside_those_of_an_agent_reach_no_other_scheduler(site: Site, admin: Client, scopes: list[str]) -> None:
    """Only the command makes such a token: the bound is of its rights, and not of the routes that an agent asks."""
    _connect(admin)
    Caller(token=site.token("policies:write")).post("schedulers", {"name": "c3", "policy": "grid"})
    for name in ("c2", "c3"):
        Caller(token=site.token("schedulers")).post(f"schedulers/{name}/passes", report(mode="shadow", queue=QUEUE))
    new = NewToken("a", scopes, site.admin, policy_slug="grid", scheduler_name="c2")
    bound = Caller(token=make_token(new, at=AT, actor=COMMAND)[1])
    reads = ("{}", "{}/queue", "{}/why?job=101", "{}/starts", "{}/passes", "{}/differences")
    assert [bound.get(f"schedulers/{each.format('c2')}").status_code for each in reads] == [200] * len(reads)
    assert [bound.get(f"schedulers/{each.format('c3')}").status_code for each in reads] == [404] * len(reads)
    assert [each["name"] for each in bound.get("schedulers").json()["results"]] == ["c2"]
    assert bound.get("policies/grid/why?job=101").json()["scheduler"] == "c2", "the other one's job isn't in the way"
    assert bound.patch("schedulers/c3", {"step": 7}, If_Match="*").status_code == 404
    assert bound.client.delete("/api/v1/schedulers/c3?reason=x", headers=bound.headers).status_code == 404
    assert bound.post("schedulers", {"name": "c4", "policy": "grid"}).status_code == 404
    assert not Scheduler.objects.filter(name="c4").exists()


@pytest.mark.parametrize(
    ("typed", "field"),
    [
        ({"password": "wrong"}, "password"),
        ({"name": "c 2"}, "name"),
        ({"step": "9999999"}, "step"),
        ({"kind": "x"}, "kind"),
    ],
)
def test_a_refused_form_makes_neither_scheduler_nor_token(admin: Client, typed: dict[str, str], field: str) -> None:
    fields = {**_fields(admin, kind="slurm", name="c2", policy="grid"), **typed}
    page = read(admin.post(NEW, fields), 422)
    assert page.each(".err", "id") == [f"id_{field}_error"]
    assert page.has("#advanced[open]") == (field == "step")
    assert not Scheduler.objects.filter(name="c2").exists()
    assert not Token.objects.exclude(scheduler_name="").exists()


def test_a_form_sent_twice_connects_once(admin: Client) -> None:
    fields = _fields(admin, kind="slurm", name="c2", policy="grid")
    assert admin.post(NEW, fields).status_code == 200
    assert admin.post(NEW, {**fields, "name": "c3"}).status_code == 422
    assert Token.objects.exclude(scheduler_name="").count() == 1


def test_the_page_waits_and_goes_on_with_the_first_report(site: Site, admin: Client) -> None:
    agent = Caller(token=_token_of(_connect(admin)))
    assert _state(admin) == "waiting"
    now = admin.get(f"{STEPS}_now?step=2", headers=HTMX)
    assert "HX-Redirect" not in now
    assert read(now).has("[data-poll]")
    agent.get("schedulers/c2/orders")
    assert _state(admin) == "asked"
    frozen = report(mode="shadow", queue=QUEUE, frozen={"code": "snapshot_too_old", "detail": "2000 s"})
    assert agent.post("schedulers/c2/passes", frozen).status_code == 200
    assert admin.get(f"{STEPS}_now?step=2", headers=HTMX)["HX-Redirect"] == STEPS
    page = read(admin.get(STEPS))
    assert page.each("[data-testid=first-report]", "data-key") == ["frozen"]
    assert page.has("[data-poll]"), "it may go on by itself"
    assert not page.has("button[name=everything]")
    check = {"code": "double_counting", "severity": "error", "found": "Weight=1", "remedy": "Set 0"}
    agent.post("schedulers/c2/passes", report(mode="shadow", queue=QUEUE, checks=[check]))
    page = read(admin.get(STEPS))
    assert (_state(admin), page.each("[data-testid=check]", "data-key")) == ("blocked", ["double_counting"])
    counts = {"pending": 2, "mapped": 2, "unmapped": 0, "due": 2, "sent": 0, "failed": 0, "calls": 3}
    agent.post("schedulers/c2/passes", report(mode="shadow", queue=QUEUE, checks=[], jobs=counts))
    page = read(admin.get(STEPS))
    assert page.each("[data-testid=first-report]", "data-key") == ["ready"]
    assert re.findall(r"\d+", page.text("[data-testid=first-report]")) == ["2", "2"], "jobs read, and those that move"
    assert not page.has("[data-poll]")
    (tag,) = page.each("input[name=tag]", "value")
    assert admin.post("/schedulers/c2/shadow/on/", {"tag": tag, "everything": "1"}).status_code == 303
    assert Scheduler.objects.get(name="c2").mode == "on"
    assert _state(admin) == "on"


def test_another_command_ends_tokens_that_nobody_used_and_removal_ends_all(site: Site, admin: Client) -> None:
    first = _token_of(_connect(admin))
    Caller(token=first).get("schedulers/c2/orders")
    tokens = [_token_of(read(admin.post(STEPS, _fields(admin, STEPS)))) for _n in range(2)]

    def works(text: str) -> bool:
        try:
            verify_token(text, at=AT)
        except Unauthenticated:
            return False
        return True

    assert [works(text) for text in (first, *tokens)] == [True, False, True]
    (tag,) = read(admin.get("/schedulers/c2/remove/")).each("input[name=tag]", "value")
    admin.post("/schedulers/c2/remove/", {"tag": tag, "reason": "moved"})
    assert [works(text) for text in (first, *tokens)] == [False, False, False]


def test_a_manager_without_administration_connects_but_makes_no_token(site: Site, client: Client) -> None:
    make_grant(site.nobody, site.uid("/"), policy=site.policy, at=AT, reason="test", role="manager")
    sign_in(client, site.nobody)
    assert not read(client.get(NEW)).has("input[name=password]")
    answer = client.post(NEW, {"kind": "slurm", "name": "c2", "policy": "grid"})
    assert (answer.status_code, answer["Location"]) == (303, STEPS)
    page = read(client.get(STEPS))
    assert page.has("[data-testid=not-allowed]")
    assert not page.has("#command")
    assert client.post(STEPS, {}).status_code == 403
    with pytest.raises(NotAllowed):
        make_agent_token(name="c2", at=AT, actor=Actor(user=site.nobody, via="page"))
    assert not Token.objects.filter(scheduler_name="c2").exists()


def test_a_scheduler_whose_commands_are_here_needs_no_token(admin: Client) -> None:
    answer = admin.post(NEW, _fields(admin, kind="slurm", name="c2", policy="grid", reach="commands"))
    assert answer.status_code == 303
    page = read(admin.get(STEPS))
    assert page.text("#command").endswith("agent run c2")
    assert not Token.objects.filter(scheduler_name="c2").exists()


def test_one_that_is_off_says_so(admin: Client) -> None:
    _connect(admin, mode="off")
    assert _state(admin) == "off"
