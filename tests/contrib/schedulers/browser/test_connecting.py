"""A scheduler is connected from its name to its first values, its agent being the program itself."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from playwright.sync_api import expect

from agent.commands import Commands
from agent.install import TOKEN_FILE
from agent.loop import Agent
from agent.rest import Rest, read_token
from agent.state import open_table
from apps.contrib.schedulers.models import Scheduler
from tests.agent.fakes import FakeScheduler
from tests.browser.conftest import Open
from tests.pages.grid import PASSWORD, Grid
from tests.worlds import fresh_process  # noqa: F401 - fixture

_TOKEN = re.compile(r"echo (fsh_\S+) \| sudo python3 (.*)")


@pytest.mark.deep
def test_a_scheduler_is_connected_from_its_name_to_the_first_pass(
    grid: Grid, visit: Open, live_server: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    window = visit()
    window.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    window.sign_in()
    page = window.go("/schedulers/new/")
    page.get_by_role("radio", name="Slurm").check()
    page.get_by_label("Short name").fill("c1")
    page.get_by_label("Password").fill(PASSWORD)
    page.keyboard.press("Enter")
    command = page.locator("#command")
    expect(command).to_be_visible()
    page.locator("[data-copy=command]").click()
    expect(page.locator("[data-copy=command]")).to_have_text("Copied")
    report = page.get_by_test_id("first-report")
    expect(report).to_have_attribute("data-key", "waiting")
    window.look()

    # On the scheduler's host: the copied command, with --root in place of sudo.
    match = _TOKEN.search(page.evaluate("navigator.clipboard.readText()"))
    assert match is not None
    program = tmp_path / "fairshare-agent.pyz"
    program.write_bytes(page.request.get(f"{live_server}/fairshare-agent.pyz").body())
    words = [sys.executable, str(program), *match[2].split()[1:], "--root", str(tmp_path / "root")]
    subprocess.run(words, input=match[1], text=True, check=True, capture_output=True, timeout=60)
    expect(report).to_have_attribute("data-key", "asked")

    scheduler = FakeScheduler(tmp_path / "bin")
    scheduler.jobs = {str(n): {"user": user, "group": "atlas"} for n, user in enumerate(("alice", "bob"), 1)}
    monkeypatch.setenv("PATH", f"{scheduler.folder}:/usr/bin:/bin")
    token = read_token(str(tmp_path / "root") + TOKEN_FILE)
    agent = Agent(
        Rest(str(live_server), "c1", token),
        Commands(),
        open_table(str(tmp_path / "state")),
        "head1",
        print,
        clock=grid.at.timestamp,
    )
    agent.run_pass()
    expect(report).to_have_attribute("data-key", "ready")
    assert page.url.endswith("/schedulers/c1/connect/")
    assert re.findall(r"\d+", report.inner_text())[0] == "2", "jobs read"
    assert scheduler.calls("scontrol", "update") == []
    window.look()
    window.follow("button[name=everything]")
    assert Scheduler.objects.get(name="c1").mode == "on"
    agent.run_pass()
    assert set(scheduler.values()) == {"1", "2"}
