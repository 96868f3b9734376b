"""The first steps: a scheduler's tree, its log, 90 days, and a policy made of both."""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from apps.accounts.actor import COMMAND, SYSTEM
from apps.accounts.models import AuditEvent, User
from apps.contrib.onboarding.models import FirstPolicyDraft
from apps.core import clock
from apps.mapping.models import MappingRule
from apps.policies.files.exports import export_policy
from apps.policies.models import Policy, Revision
from apps.policies.settings import PolicySettings
from apps.policies.tree.stored import load_tree
from apps.priorities.recompute.staleness import request_recompute
from apps.priorities.selectors import open_view
from apps.priorities.selectors.overview import overview_of
from apps.priorities.serving import store
from apps.priorities.slurm_config import read_slurm_config
from apps.runs.models import Run
from apps.runs.services import work_run_now
from apps.usage.models import Record, Source
from tests.examples import first
from tests.pages.page import Page, read, text_of
from tests.sign_in import sign_in

pytestmark = pytest.mark.django_db
PAGE = "/setup/"
DUMP = """\
Cluster - 'demo':Fairshare=1:QOS='normal'
Parent - 'root'
Account - 'physics':Description='p':Organization='o':Fairshare=60:GrpTRES=cpu=6
Account - 'biology':Description='b':Organization='o':Fairshare=40
Parent - 'physics'
User - 'ada':DefaultAccount='physics':Fairshare=1
Account - 'hep':Description='h':Organization='o':Fairshare=3
Parent - 'hep'
User - 'bo':DefaultAccount='hep':Fairshare=parent
Parent - 'biology'
User - 'carol':DefaultAccount='biology':Fairshare=1
"""
HEADER = "JobIDRaw|User|Account|Partition|State|Submit|Start|End|ElapsedRaw|AllocCPUS\n"


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """At noon of the day of the samples: what is a day ago depends on no midnight."""
    monkeypatch.setenv("FAIRSHARE_CLOCK", "2026-11-20T12:00:00Z")
    store.forget()
    yield
    store.forget()


@pytest.fixture
def admin(client: Client) -> Client:
    sign_in(client, User.objects.create_superuser("eva"))
    return client


def log_of(*jobs: tuple[str, str, datetime, int], local: bool = False) -> str:
    """(user, account, end, cores), an hour each."""
    lines = []
    for n, (user, account, end, cores) in enumerate(jobs, 1):
        start = end - timedelta(hours=1)
        times = [f"{at:%Y-%m-%dT%H:%M:%S}" if local else str(int(at.timestamp())) for at in (start, start, end)]
        lines.append(f"{n}|{user}|{account}|normal|COMPLETED|{'|'.join(times)}|3600|{cores}\n")
    return HEADER + "".join(lines)


def version() -> int:
    return FirstPolicyDraft.objects.get(is_open=True).version


def send_tree(client: Client, content: str | bytes = DUMP, name: str = "tree.cfg", config: bytes = b"") -> Any:
    data = content if isinstance(content, bytes) else content.encode()
    more = {"slurm_config": SimpleUploadedFile("slurm.txt", config)} if config else {}
    return client.post(PAGE + "tree/", {"file": SimpleUploadedFile(name, data), "format": "auto", **more})


def send_log(client: Client, content: str | bytes, **more: str) -> Any:
    data = content if isinstance(content, bytes) else content.encode()
    form = {"file": SimpleUploadedFile("jobs.txt", data), "format": "auto", "source_name": "demo", "time_zone": ""}
    return client.post(PAGE + "log/", {**form, "version": version(), **more})


def work() -> None:
    for run in Run.objects.filter(state=Run.State.QUEUED, kind="usage_import"):
        work_run_now(run.pk)


def press(client: Client, what: str, **more: Any) -> Any:
    return client.post(f"{PAGE}{what}/", {"version": version(), **more})


def shown(client: Client) -> Page:
    return read(client.get(PAGE))


def context(client: Client) -> Any:
    return client.get(PAGE).context


def facts(page: Page) -> dict[str, str]:
    """What was read of the tree: the numbers of each fact."""
    return {str(one.attributes["data-key"]): str(one.attributes["data-value"]) for one in page.items("fact")}


def fact(page: Page, key: str) -> str:
    return page.text(f'[data-testid="fact"][data-key="{key}"]')


def verdict(page: Page) -> tuple[str | None, str | None]:
    """Key, and how many groups of how many on how many days."""
    found = page.one("#verdict").attributes
    return found["data-key"], found["data-value"]


def bring_in(client: Client, *jobs: tuple[str, str, datetime, int]) -> None:
    """Tree and log, up to the comparison."""
    assert send_tree(client).status_code == 303
    assert send_log(client, log_of(*jobs)).status_code == 303
    work()
    assert press(client, "confirm").status_code == 303
    work()


def days_ago(n: float) -> datetime:
    return clock.now() - timedelta(days=n)


def test_from_a_dump_and_a_log_to_a_published_policy(admin: Client, golden_dir: Path) -> None:
    samples = golden_dir / "slurm" / "samples"
    answer = send_tree(admin, (samples / "sacctmgr-dump-demo.cfg").read_bytes(), "sacctmgr-dump-demo.cfg")
    assert answer.status_code == 303
    page = shown(admin)
    found = facts(page)
    assert found["tree"].split()[:2] == ["5", "3"]  # users, groups
    assert found["inherit"] == "1"
    assert "/physics/bobby" in fact(page, "inherit")
    assert "grptres (1 ×)" in fact(page, "ignored")
    assert "sacctmgr-dump-demo.cfg" in fact(page, "tree")
    assert page.one("#id_source_name").attributes["value"] == "demo"  # the source is called like the cluster

    log = (samples / "sacct-X-P.txt").read_bytes()
    assert send_log(admin, log).status_code == 303
    work()
    assert context(admin)["state"] == "no_zone"
    nowhere = press(admin, "zone", time_zone="Europe/Nowhere")
    assert read(nowhere, 422).has("#id_time_zone_error")
    assert nowhere.context["zone_form"].has_error("time_zone", code="no_such_zone")
    assert press(admin, "zone", time_zone="UTC").status_code == 303
    work()
    asked = context(admin)
    assert (asked["state"], asked["report"].n_wanted) == ("decide", 39)
    assert shown(admin).has(f'form[action="{PAGE}confirm/"]')
    assert not Record.objects.exists()
    assert press(admin, "confirm").status_code == 303
    work()
    page = shown(admin)
    assert verdict(page) == ("none_kept", "0 2 1")
    assert page.has('[data-testid="all-placed"]')
    assert page.has(f'form[action="{PAGE}publish/"]')
    assert not Policy.objects.exists()

    answer = press(admin, "publish", name="Demo", algorithm="slurm-fair-tree", half_life_days="7")
    assert (answer.status_code, answer["Location"]) == (303, "/policy/demo/")
    policy = Policy.objects.get()
    assert (policy.slug, policy.name, policy.head_number) == ("demo", "Demo", 1)
    tree = load_tree(policy)
    assert {"/physics/hep/alice", "/biology/carol"} <= {tree.path(i) for i in range(len(tree))}
    settings = Revision.objects.get().settings
    assert settings["algorithm"]["name"] == "slurm-fair-tree"
    assert settings["window"]["half_life_s"] == 7 * 86_400
    assert settings["window"]["length_s"] is None
    work_run_now(request_recompute(policy_slug="demo", at=clock.now(), actor=COMMAND).pk)
    overview = overview_of(open_view(policy_slug="demo", actor=SYSTEM))
    assert overview.n_unmapped == 0
    assert overview.usage
    assert admin.get("/policy/demo/").status_code == 200
    export = export_policy(policy_slug="demo", format="sacctmgr", at=clock.now(), actor=COMMAND)
    assert export.text() == (samples / "sacctmgr-dump-demo.cfg").read_text()
    page = shown(admin)  # the next beginning starts from nothing
    assert page.has(f'form[action="{PAGE}tree/"] input[name=file]')
    assert facts(page) == {}


@pytest.mark.parametrize("name", first(1, ["fair-tree", "classic", "depth-oblivious"]))
def test_a_configuration_of_slurm_decides_algorithm_decay_and_metric(
    admin: Client, golden_dir: Path, name: str
) -> None:
    config = (golden_dir / f"slurm/config/{name}.txt").read_bytes()
    assert send_tree(admin, config=config).status_code == 303
    bring_in(admin, ("ada", "physics", days_ago(1), 1))  # the tree is sent again, and the configuration stays
    collected = [text_of(one) for one in shown(admin).items("fact")]
    assert any("PriorityDecayHalfLife=" in line for line in collected)
    form = context(admin)["policy_form"]
    answer = press(admin, "publish", **{key: form.initial[key] for key in ("name", "algorithm", "half_life_days")})
    assert answer.status_code == 303
    settings = PolicySettings.from_json(Revision.objects.get().settings)
    wanted = PolicySettings.from_json(read_slurm_config(config.decode()).settings)
    keys = ("aging", "length_s", "calc_period_s") + (("half_life_s",) if wanted.window["aging"] == "slurm" else ())
    assert {key: settings.window.get(key) for key in keys} == {key: wanted.window.get(key) for key in keys}
    assert (settings.algorithm, settings.metric) == (wanted.algorithm, wanted.metric)
    assert [rule.kind for rule in MappingRule.objects.all()] == ["association"]


def test_without_a_configuration_slurms_algorithms_decay_as_slurm_does(admin: Client) -> None:
    bring_in(admin, ("ada", "physics", days_ago(1), 1))
    press(admin, "publish", name="C", algorithm="slurm-fair-tree", half_life_days="14")
    window = Revision.objects.get().settings["window"]
    assert (window["aging"], window["half_life_s"], window["calc_period_s"]) == ("slurm", 14 * 86_400, 300)
    assert window["length_s"] is None


def test_a_configuration_that_cant_be_read_is_refused_with_its_line(admin: Client) -> None:
    answer = send_tree(admin, config=b"PriorityType=priority/multifactor\nPriorityCalcPeriod=soon\n")
    assert answer.status_code == 422
    assert [one.where for one in answer.context["submitted"].refusal.fields] == ["line 2"]
    assert not FirstPolicyDraft.objects.exists()


def test_the_first_step_reads_a_script_of_commands_as_well(admin: Client, traces_dir: Path) -> None:
    packed = (traces_dir / "ubhpc-accounts.sacctmgr-script.gz").read_bytes()
    assert send_tree(admin, packed, "ubhpc.gz").status_code == 303
    page = shown(admin)
    found = facts(page)
    assert found["tree"].split()[:2] == ["96", "62"]
    assert found["inherit"] == "94"
    assert "qos (157 ×)" in fact(page, "ignored")
    assert page.one("#id_source_name").attributes["value"] == "ubhpc"


def test_each_group_is_compared_with_its_target(admin: Client) -> None:
    bring_in(
        admin,
        ("ada", "physics", days_ago(1), 30),
        ("bo", "hep", days_ago(2), 30),
        ("carol", "biology", days_ago(3), 40),
    )
    page = shown(admin)
    assert verdict(page) == ("kept", "2 2 4")
    assert page.values("data-path") == ["/physics", "/biology"]  # hep is in physics
    row = '[data-path="/physics"]'
    assert page.text(f"{row} .label") == "physics"
    assert page.text(f"{row} .c-target") == page.text(f"{row} .c-actual") == "60.0 %"  # of ada and bo together
    assert [line.balance.state for line in context(admin)["groups"]] == ["on", "on"]


def test_an_unmapped_account_is_listed_with_its_usage_and_mapped_manually(admin: Client) -> None:
    bring_in(
        admin,
        ("ada", "physics", days_ago(1), 60),
        ("zoe", "chem", days_ago(1), 20),
        ("Carol", "chemie", days_ago(2), 20),
    )
    page = shown(admin)
    assert page.item("unplaced").attributes["data-value"] == "2"
    assert "40" in text_of(page.item("unplaced")).split()  # core-hours
    assert text_of(page.item("unplaced-part")).startswith("40.0 %")
    assert not page.has('[data-testid="all-placed"], [data-testid="placed"]')
    row = '#accounts tr:has([name="account-user"][value="Carol"])'
    assert page.one(f"{row} [name=account-entry]").attributes["value"] == "/biology/carol"  # proposed, by the name
    assert page.one(f'{row} [data-testid="proposed"]').attributes["data-key"] == "same_name_folded"
    fields = {"account-user": ["Carol", "zoe"], "account-group": ["chemie", "chem"], "account-fqan": ["", ""]}
    wrong = press(admin, "accounts", **fields, **{"account-entry": ["/biology/carol", "/nowhere"]})
    refusal = wrong.context["submitted"].accounts
    assert (refusal.code, [each.where for each in refusal.fields]) == ("no_such_entry", ["/nowhere"])
    assert "/nowhere" in read(wrong, 422).text('#accounts [role="alert"]')
    assert FirstPolicyDraft.objects.get().decisions == []
    placed = press(admin, "accounts", **fields, **{"account-entry": ["/biology/carol", ""]})
    assert placed.status_code == 303
    page = shown(admin)
    assert page.item("unplaced").attributes["data-value"] == "1"
    assert "20" in text_of(page.item("unplaced")).split()  # core-hours
    assert page.item("placed").attributes["data-value"] == "/biology/carol"
    for part in ("Carol", "/biology/carol"):
        assert part in text_of(page.item("placed"))
    assert press(admin, "publish", name="Demo", algorithm="aequus", half_life_days="3,5").status_code == 303
    assert Revision.objects.get().settings["window"]["half_life_s"] == 302_400
    work_run_now(request_recompute(policy_slug="demo", at=clock.now(), actor=COMMAND).pk)
    found = overview_of(open_view(policy_slug="demo", actor=SYSTEM))
    assert found.n_unmapped == 1
    biology = next(row for row in found.children if row.name == "biology")
    assert biology.has_usage
    assert MappingRule.objects.filter(kind="exact", user_pattern="Carol").count() == 1


def test_the_setup_can_be_continued_by_another_administrator(admin: Client) -> None:
    send_tree(admin)
    send_log(admin, log_of(("ada", "physics", days_ago(1), 1)))
    work()
    before = version()
    other = sign_in(Client(), User.objects.create_superuser("otto"))
    assert context(other)["report"].n_wanted == 1
    assert press(other, "confirm").status_code == 303
    late = admin.post(PAGE + "confirm/", {"version": before})
    assert (late.status_code, late.context["refusal"].code) == (412, "stale")
    work()
    assert context(admin)["here"] == "against"


def test_an_old_log_is_evaluated_at_its_own_end(admin: Client) -> None:
    bring_in(admin, ("ada", "physics", days_ago(500), 60), ("carol", "biology", days_ago(480), 40))
    span = context(admin)["against"].span
    assert (span.ends_with_log, (span.last_on - span.first_on).days) == (True, 89)
    assert span.last_on == days_ago(480).date()
    assert verdict(shown(admin)) == ("kept", "2 2 21")


def test_an_unreadable_tree_is_refused_with_every_error_location(admin: Client) -> None:
    bad = DUMP.replace("Fairshare=60", "Fairshare=many").replace("'carol'", "'ca\u200erol'")
    answer = send_tree(admin, bad)
    places = read(answer, 422).texts('section[aria-labelledby="wrong"] tbody th')
    assert [re.findall(r"\d+", place)[0] for place in places] == ["3", "11"]
    assert not FirstPolicyDraft.objects.exists()
    assert send_tree(admin, "hello").status_code == 422
    assert send_tree(admin, gzip.compress(DUMP.encode())).status_code == 303


@pytest.mark.parametrize(
    ("given", "code"),
    first(
        2,
        [
            ({"name": "!!!"}, "no_letter"),
            ({"half_life_days": "0"}, "out_of_range"),
            ({"half_life_days": "nan"}, "out_of_range"),
            ({"algorithm": "flux"}, "invalid_choice"),
            ({"name": "taken"}, "invalid"),
        ],
    ),
)
def test_an_invalid_choice_is_refused_at_its_field_and_nothing_is_published(
    admin: Client, given: dict[str, str], code: str
) -> None:
    Policy.objects.create(slug="taken", name="Taken", created_at=days_ago(1))
    bring_in(admin, ("ada", "physics", days_ago(1), 60))
    answer = press(admin, "publish", **{"name": "Demo", "algorithm": "aequus", "half_life_days": "7", **given})
    assert read(answer, 422).has('section[aria-labelledby="first"] .err')
    (field,) = given
    errors = answer.context["policy_form"].errors.as_data()
    assert {name: [error.code for error in found] for name, found in errors.items()} == {field: [code]}
    assert Policy.objects.count() == 1


def test_without_a_log_nothing_is_published(admin: Client) -> None:
    send_tree(admin)
    answer = press(admin, "publish", name="Demo", algorithm="aequus", half_life_days="7")
    assert answer.status_code == 409
    assert not Policy.objects.exists()


def test_existing_usage_is_used_without_a_file(admin: Client) -> None:
    bring_in(admin, ("ada", "physics", days_ago(1), 60))
    assert press(admin, "discard").status_code == 303
    assert not FirstPolicyDraft.objects.exists()
    assert Source.objects.get().slug == "demo"
    send_tree(admin)
    assert shown(admin).one(f'form[action="{PAGE}source/"] button[name=source]').attributes["value"] == "demo"
    assert press(admin, "source", source="nothing").status_code == 404
    assert press(admin, "source", source="demo").status_code == 303
    assert context(admin)["here"] == "against"


def test_viewing_the_setup_changes_nothing(admin: Client) -> None:
    bring_in(admin, ("ada", "physics", days_ago(1), 60))
    for path in (PAGE, PAGE + "?step=tree"):
        with CaptureQueriesContext(connection) as queries:
            admin.get(path)
        assert [q["sql"] for q in queries if q["sql"].split(" ", 1)[0] in {"INSERT", "UPDATE", "DELETE"}] == []


def test_other_users_see_whom_to_contact(admin: Client) -> None:
    send_tree(admin)
    guest = sign_in(Client(), User.objects.create_user("guest"))
    answer = guest.get(PAGE)
    assert (answer.status_code, answer.context["refusal"].code) == (403, "not_allowed")
    assert not read(answer, 403).has("main form")
    assert "tree.cfg" not in answer.content.decode()
    assert send_tree(guest).status_code == 403


def test_import_and_discard_of_a_setup_are_audited(admin: Client) -> None:
    send_tree(admin)
    press(admin, "discard")
    verbs = list(AuditEvent.objects.filter(verb__startswith="setup.").order_by("pk").values_list("verb", flat=True))
    assert verbs == ["setup.tree_read", "setup.given_up"]
    listed = [line.event.verb for line in admin.get("/audit/").context["lines"]]
    assert listed == ["setup.given_up", "setup.tree_read"]
