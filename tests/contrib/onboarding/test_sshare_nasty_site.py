"""A Slurm site whose charges depend on QOS, weights, running jobs and a short half-life: our numbers are sshare's."""

from __future__ import annotations

import io
import json
import re
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.core.files.base import ContentFile
from django.core.management import CommandError, call_command
from django.test import Client

from apps.accounts.actor import COMMAND
from apps.accounts.models import User
from apps.contrib.onboarding.first_policy_draft import (
    LogFile,
    confirm_log,
    proposed_settings,
    read_tree,
    send_log,
    use_source,
)
from apps.contrib.onboarding.models import FirstPolicyDraft
from apps.contrib.onboarding.pages.forms import read_days, typed_days
from apps.contrib.onboarding.shadow_setup import FirstPolicy, ShadowSetup, publish_first_policy
from apps.contrib.onboarding.sshare_comparison import SshareComparison, compare_with_sshare
from apps.contrib.schedulers.models import Scheduler
from apps.core.errors import Invalid
from apps.policies.models import Policy
from apps.policies.selectors import get_revision
from apps.policies.settings import PolicySettings
from apps.runs.services import work_run_now
from apps.usage.models import Overlap, Record, Source
from tests.pages.page import read
from tests.sign_in import sign_in

pytestmark = pytest.mark.django_db
READ_AT = datetime.fromtimestamp(1_795_718_700, UTC)


@pytest.fixture(autouse=True)
def _clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAIRSHARE_CLOCK", READ_AT.isoformat())


@pytest.fixture
def folder(golden_dir: Path) -> Path:
    return golden_dir / "slurm/nasty"


def begin(
    folder: Path, *, config: str | None = None, sshare: str = "", log: str = "", at: datetime = READ_AT
) -> FirstPolicyDraft:
    outputs = (folder / "dump.cfg").read_text() + (sshare or (folder / "sshare.txt").read_text())
    config = (folder / "config.txt").read_text() if config is None else config
    begun = read_tree(
        content=outputs.encode(),
        slurm_config=config.encode(),
        file_name="slurm.txt",
        format="auto",
        at=at,
        actor=COMMAND,
    )
    content = ContentFile(log.encode() or (folder / "sacct.txt").read_bytes())
    file = LogFile(content, "sacct.txt", "auto", "c1", "")
    sent = send_log(file, version=begun.version, at=at, actor=COMMAND)
    assert sent.dry_run is not None
    work_run_now(sent.dry_run.run_id)
    begun = confirm_log(version=sent.version, at=at, actor=COMMAND)
    assert begun.usage_import is not None
    work_run_now(begun.usage_import.run_id)
    return begun


def compared(
    begun: FirstPolicyDraft, settings: PolicySettings | None = None, *, at: datetime = READ_AT
) -> SshareComparison:
    found = compare_with_sshare(begun, settings=settings, at=at, actor=COMMAND)
    assert found is not None
    return found


@pytest.mark.parametrize("version", ["", "24.11.5", "26.05.5"])
def test_every_number_of_sshare_comes_out(golden_dir: Path, version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = golden_dir / "slurm" / version / "nasty"
    at = taken_at(golden_dir, version)
    monkeypatch.setenv("FAIRSHARE_CLOCK", at.isoformat())
    begun = begin(folder, at=at)
    found = compared(begun, at=at)
    different = [(row.group, row.user, row.ours, row.theirs) for row in found.usage.rows if int(row.ours) != row.theirs]
    assert different == [], "RawUsage is cut to whole numbers"
    assert found.usage.differences == []
    assert (found.factors.n_equal, len(found.factors.differences)) == (16, 16)
    assert found.factors.largest <= 1e-6


def publish(begun: FirstPolicyDraft, *, at: datetime = READ_AT, **wanted: Any) -> ShadowSetup:
    first = FirstPolicy(slug="c1", name="c1", reason="As Slurm has it", scheduler="c1", **wanted)
    return publish_first_policy(version=begun.version, wanted=first, at=at, actor=COMMAND)


def test_the_setup_goes_on_collecting_into_the_source_of_the_log(folder: Path, settings: Any, client: Client) -> None:
    begun = begin(folder)
    sign_in(client, User.objects.create_superuser("eva"))
    assert read(client.get("/setup/")).has("a[href='/usage/sources/c1/settings/?kind=command']")
    settings.FAIRSHARE_COLLECT_COMMANDS = ["/usr/bin/sacct" if Path("/usr/bin/sacct").exists() else "/bin/sacct"]
    page = read(client.get("/setup/"))
    assert page.has("#id_collects[checked]")
    settings.FAIRSHARE_COLLECT_COMMANDS = []
    with pytest.raises(Invalid):
        publish(begun, collects=True)
    assert not Policy.objects.exists()
    settings.FAIRSHARE_COLLECT_COMMANDS = [str(program(folder))]
    publish(begun, collects=True)
    (source,) = Source.objects.all()
    assert (source.kind, source.collect_every_s, source.collect_due_at) == ("command", 300, READ_AT)
    assert source.collecting["command"][:4] == ["sacct", "-a", "-X", "-P"]
    collected = io.StringIO()
    call_command("collect_usage", "--source", "c1", "--json", stdout=collected)
    assert json.loads(collected.getvalue())["new"] == 0, "jobs of the log are known"
    assert Record.objects.values("job", "restart", "submit_at").distinct().count() == Record.objects.count()
    assert not Overlap.objects.exists()


def test_collecting_is_added_to_a_policy_that_is_there_already(folder: Path, settings: Any, tmp_path: Path) -> None:
    outputs = tmp_path / "slurm.txt"
    outputs.write_text("".join((folder / name).read_text() for name in ("dump.cfg", "sshare.txt", "config.txt")))
    settings.FAIRSHARE_COLLECT_COMMANDS = [str(program(folder))]
    words = ("setup", "c1", "--outputs", str(outputs), "--sacct", str(folder / "sacct.txt"))
    for more in ((), ("--collect",), ("--collect",)):
        call_command("scheduler", *words, "--publish", "--reason", "x", *more, stdout=io.StringIO())
        assert (Policy.objects.get().slug, Policy.objects.get().head_number) == ("c1", 1)
    assert Scheduler.objects.get().policy == Policy.objects.get()
    assert Source.objects.get().kind == "command"
    assert not FirstPolicyDraft.objects.filter(is_open=True).exists()
    with pytest.raises(CommandError, match="c1"):
        call_command("scheduler", *words, "--publish", "--reason", "x", stdout=io.StringIO())


def program(folder: Path) -> Path:
    """A sacct that prints the log of the site."""
    made = Path(tempfile.mkdtemp()) / "sacct"
    made.write_text(f"#!/bin/sh\ncat {folder / 'sacct.txt'}\n")
    made.chmod(0o755)
    return made


def test_a_half_life_of_hours_is_shown_as_hours(folder: Path, client: Client) -> None:
    begun = begin(folder)
    sign_in(client, User.objects.create_superuser("eva"))
    page = read(client.get("/setup/"))
    assert page.has("#id_half_life_days[value='2 h']")
    form = {"version": str(begun.version), "name": "c1", "algorithm": "slurm-fair-tree", "half_life_days": "2 h"}
    assert client.post("/setup/publish/", form).status_code == 303
    window = get_revision(policy=Policy.objects.get()).settings["window"]
    assert (window["half_life_s"], window["calc_period_s"], window["phase_s"]) == (7200, 60, 34)


@pytest.mark.parametrize(
    ("seconds", "typed"),
    [(604_800, "7"), (43_200, "0.5"), (7_200, "2 h"), (131_400, "36.5 h"), (5_400, "1.5 h"), (7_201, "7201 s")],
)
def test_each_half_life_is_read_as_it_is_shown(seconds: int, typed: str) -> None:
    shown = typed_days(seconds)
    assert round(read_days(shown) * 86_400) == seconds
    assert shown == typed


def reasons(found: SshareComparison) -> dict[str, set[str]]:
    """Users, as group/user, by the reason of their difference."""
    made: dict[str, set[str]] = {}
    for row in found.usage.rows:
        if row.reason != "same":
            made.setdefault(row.reason, set()).add(f"{row.group}/{row.user}")
    return made


def hints(found: SshareComparison) -> set[str]:
    """Hints of all differences, none of which is explained."""
    assert {row.reason for row in found.usage.differences} == {"unexplained"}
    assert all(row.predicted is None for row in found.usage.differences)
    named = {str(hint) for row in found.usage.differences for hint in row.hints}
    return named - {"running", "log_begins_late"}


WITH_QOS = {"hep/ann", "hep/cat", "science/dan", "atlas/ivy", "bio/fay", "astro/eve", "industry/jon", "lab/gus"}


def test_without_the_qos_their_users_are_named_and_no_others(folder: Path) -> None:
    config = (folder / "config.txt").read_text()
    begun = begin(folder, config=config[: config.index("Name|UsageFactor")])
    assert any(line["name"] == "UsageFactor" and not line["is_carried"] for line in lines_of(begun))
    assert reasons(compared(begun)) == {"qos_unknown": WITH_QOS}


def lines_of(begun: FirstPolicyDraft) -> list[dict[str, Any]]:
    lines: list[dict[str, Any]] = begun.facts["slurm_config"]["lines"]
    return lines


def test_without_the_partitions_their_weights_are_missing(folder: Path) -> None:
    config = (folder / "config.txt").read_text()
    qos = config[config.index("Name|UsageFactor") :]
    found = compared(begin(folder, config=config[: config.index("PartitionName")] + qos))
    assert hints(found) == {"weights_unknown"}


def test_without_a_configuration_nothing_is_explained(folder: Path) -> None:
    assert hints(compared(begin(folder, config=""))) == {"config_unknown"}


def test_chosen_settings_that_slurm_has_otherwise_are_the_reason(folder: Path) -> None:
    begun = begin(folder)
    proposed = proposed_settings(begun)
    historical = PolicySettings.from_json({"approach": {"global": "historical"}}, base=proposed)
    assert reasons(compared(begun, historical)) == {"running_left_out": {"industry/jon", "atlas/ann"}}
    for window in ({"half_life_s": 604_800}, {"aging": "exponential"}):
        found = compared(begun, PolicySettings.from_json({"window": window}, base=proposed))
        assert reasons(found).keys() == {"decay"}


def test_billing_that_the_records_cut_is_a_hint(folder: Path) -> None:
    call_command(
        "import_usage", "--source", "c1", str(folder / "sacct.txt"), stdout=io.StringIO(), stderr=io.StringIO()
    )
    outputs = "".join((folder / name).read_text() for name in ("dump.cfg", "sshare.txt", "config.txt"))
    begun = read_tree(content=outputs.encode(), file_name="x", format="auto", at=READ_AT, actor=COMMAND)
    begun = use_source(version=begun.version, source_slug="c1", at=READ_AT, actor=COMMAND)
    assert hints(compared(begun)) == {"billing_cut"}
    call_command(
        "import_usage", "--source", "c1", str(folder / "sacct.txt"), stdout=io.StringIO(), stderr=io.StringIO()
    )
    assert reasons(compared(begun)) == {}, "the source has the weights now: importing again corrects"


def test_jobs_that_are_missing_in_the_log_are_unexplained(folder: Path) -> None:
    begun = begin(folder)
    Record.objects.filter(account__user_name="kim").delete()
    assert begun.source is not None
    found = compared(begun)
    assert reasons(found) == {"unexplained": {"bio/kim"}}
    (kim,) = found.usage.differences
    assert (kim.ours, kim.difference) == (0.0, -kim.theirs)


@pytest.mark.parametrize("late_s", [-1, 2, 5])
def test_periods_that_start_some_seconds_later_are_found(folder: Path, late_s: int) -> None:
    """Under load the controller calculates later after its start than usual."""
    config = (folder / "config.txt").read_text()
    moved = config.replace("18:42:33", f"18:42:{33 - late_s}")
    assert moved != config
    begun = begin(folder, config=moved)
    found = compared(begun)
    assert (found.usage.differences, found.factors.n_equal) == ([], 16)
    publish(begun)
    window = get_revision(policy=Policy.objects.get()).settings["window"]
    assert window["phase_s"] == 34


@pytest.mark.parametrize("late_s", [-1, 0, 2])
def test_periods_of_a_controller_that_starts_before_a_whole_minute_are_found(folder: Path, late_s: int) -> None:
    """The same site some seconds later, so that its periods are expected at second 0."""
    moved_s = 60 + late_s - 34
    config = (folder / "config.txt").read_text().replace("18:42:33", "18:42:59")
    log = re.sub(r"\b1795\d{6}\b", lambda at: str(int(at[0]) + moved_s), (folder / "sacct.txt").read_text())
    at = READ_AT + timedelta(seconds=moved_s)
    begun = begin(folder, config=config, log=log, at=at)
    comparison = compared(begun, at=at)
    assert (comparison.usage.differences, comparison.factors.n_equal) == ([], 16)
    publish(begun, at=at)
    window = get_revision(policy=Policy.objects.get()).settings["window"]
    assert window["phase_s"] == {-1: 59, 0: 60, 2: 2}[late_s]


@pytest.mark.parametrize("late_s", [0, 1, 2])
def test_a_job_that_ends_while_the_outputs_are_read_is_over_in_sshare(folder: Path, late_s: int) -> None:
    """The configuration's time is a whole second, and sshare runs just after it."""
    (jon,) = (row for row in compared(begin(folder)).usage.rows if row.user == "jon")
    config, log = (folder / "config.txt").read_text(), (folder / "sacct.txt").read_text()
    printed = config.replace(config.splitlines()[0], f"Configuration data as of {READ_AT.timestamp():.0f}")
    ended_s = READ_AT.timestamp() + late_s
    lasts_s = (ended_s - 34) % 60  # since the last calculation
    charged_s = lasts_s * (1 - 0.693 / 7_200) ** lasts_s
    usage = jon.ours + 0.5 * (8 + 0.25 * 2_500 / 1_024) * charged_s
    sshare = (folder / "sshare.txt").read_text().replace("|486|", f"|{usage:.0f}|")
    begun = begin(
        folder,
        config=printed,
        sshare=sshare,
        log=log.replace("|1795718560|Unknown|129|RUNNING|8|", f"|1795718560|{ended_s:.0f}|{140 + late_s}|COMPLETED|8|"),
    )
    found = compared(begun, at=READ_AT + timedelta(minutes=5))
    assert [(row.user, row.ours, row.theirs) for row in found.usage.rows if abs(row.ours - row.theirs) > 1] == []
    assert found.usage.differences == []
    assert found.as_of == READ_AT + timedelta(seconds=late_s + 1)
    publish(begun)
    assert get_revision(policy=Policy.objects.get()).settings["window"]["phase_s"] == 34


@pytest.mark.parametrize("late_s", [-1, 2, 5])
def test_one_job_that_accounting_reports_late_leaves_the_periods_fitted(folder: Path, late_s: int) -> None:
    """It runs in the log and is over in sshare: its user differs, and nobody else does."""
    config = (folder / "config.txt").read_text().replace("18:42:33", f"18:42:{33 - late_s}")
    begun = begin(folder, config=config, sshare=(folder / "sshare.txt").read_text().replace("|486|", "|560|"))
    assert [row.user for row in compared(begun).usage.rows if row.reason != "same"] == ["jon"]
    publish(begun)
    assert get_revision(policy=Policy.objects.get()).settings["window"]["phase_s"] == 34


def test_the_time_of_sshare_is_that_of_the_configuration_with_it(folder: Path) -> None:
    config = (folder / "config.txt").read_text()
    first = config.splitlines()[0]
    outputs = (folder / "dump.cfg").read_text() + (folder / "sshare.txt").read_text()
    text = outputs + config.replace(first, "Configuration data as of 1795718700")
    begun = read_tree(
        content=text.encode(), file_name="x", format="auto", at=READ_AT + timedelta(minutes=7), actor=COMMAND
    )
    assert begun.sshare_at == READ_AT


@pytest.mark.parametrize("version", ["24.11.5", "26.05.5"])
def test_the_configuration_of_each_release_proposes_what_that_of_22_05_does(golden_dir: Path, version: str) -> None:
    """The controllers of the three calculate at other seconds of a minute."""
    before, today = (
        begin(golden_dir / "slurm" / each / "nasty", at=READ_AT if not each else taken_at(golden_dir, each))
        for each in ("", version)
    )
    one, other = (proposed_settings(begun).to_json() for begun in (before, today))
    for settings in (one, other):
        settings["window"].pop("phase_s")
    assert one == other
    assert config_lines(before) == config_lines(today) != []


def config_lines(begun: FirstPolicyDraft) -> list[dict[str, Any]]:
    """Of the configuration, but when the controller started; later releases count two more resources of a GPU."""
    lines = [line for line in lines_of(begun) if line["name"] != "BOOT_TIME"]
    return [{**line, "value": line["value"].removesuffix(",gres/gpumem,gres/gpuutil")} for line in lines]


def taken_at(golden_dir: Path, version: str) -> datetime:
    return datetime.fromtimestamp(int((golden_dir / "slurm" / version / "nasty/taken-at-s.txt").read_text()), UTC)
