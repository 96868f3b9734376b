"""`fairshare-callout` against a live site: its numbers are those of REST."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.terminal.conftest import Terminal
from tests.terminal.test_callout import DONE, REFUSED, SOURCE


def run(terminal: Terminal, *arguments: str, names: str = "") -> tuple[int, str, str]:
    command = [sys.executable, str(SOURCE), "--site", terminal.url, "--policy", "grid", "--wait-s", "60", *arguments]
    environment = {"HOME": str(terminal.home), "PATH": os.environ["PATH"]}
    done = subprocess.run(command, input=names.encode(), env=environment, capture_output=True, timeout=100)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def test_numbers_equal_those_of_the_site(terminal: Terminal) -> None:
    terminal.keep(terminal.site.token("priorities:read"))
    status, out, err = run(terminal, "--stdin", "--format", "json", names="alice\nbob\tphysics\ncarol\nmallory\n")
    assert (status, err) == (DONE, "")
    document = json.loads(out)
    factors = [each["factor"] for each in document["results"]]
    assert factors == pytest.approx([1 / 3, 2 / 3, 1.0, 0.5], abs=1e-9)
    assert [each.get("error") for each in document["results"]] == [None, None, None, "unmapped"]
    terminal.site.recompute()
    assert run(terminal, "alice", "--fresh-s", "0")[:2] == (DONE, f"{factors[0]!r}\n")


def test_a_token_of_another_scope_is_refused(terminal: Terminal) -> None:
    terminal.keep(terminal.site.token("usage:write"))
    status, out, err = run(terminal, "alice")
    assert (status, out) == (REFUSED, "0.5\n")
    assert "priorities:read" in err
