"""`fairshare` against a live site: fetched from it, and run as people run it."""

from __future__ import annotations

import hashlib
import json
import os
import pty
import re
import subprocess
import sys
import urllib.request
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from syrupy.assertion import SnapshotAssertion

from apps.accounts.actor import SYSTEM
from apps.accounts.models import Token
from apps.accounts.services import revoke_token
from apps.policies.publishing.direct import publish_operations
from apps.priorities.local_only import fall_back
from apps.priorities.sentences import build_message
from tests.examples import first
from tests.grants import make_grant
from tests.instants import AT
from tests.terminal.conftest import Terminal


def lines_of(text: str) -> list[list[str]]:
    """Cells, where two spaces or more are between them."""
    return [re.split(r"\s{2,}", line.strip()) for line in text.splitlines() if line.strip()]


def plain(text: str) -> str:
    """Without the number of the snapshot, the last one: it differs from one run to the next."""
    head, _newline, last = text.rstrip().rpartition("\n")
    return head + "\n" + re.sub(r"\d+(?=\D*$)", "N", last) if "2026-11-20" in last else text


def test_the_site_serves_the_program_with_its_address_and_checksum(terminal: Terminal) -> None:
    with urllib.request.urlopen(f"{terminal.url}/fairshare") as answer:
        headers, content = answer.headers, answer.read()
    assert f"SITE = {terminal.url!r}" in content.decode()
    assert headers["Content-Disposition"] == 'attachment; filename="fairshare"'
    assert headers["Content-Type"].startswith("text/x-python")
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Cache-Control"] == "public, no-cache"
    client = Client(headers={"host": terminal.url.removeprefix("http://")})
    client.force_login(terminal.site.alice, backend="django.contrib.auth.backends.ModelBackend")
    page = client.get("/me/tokens/").content.decode()
    assert hashlib.sha256(content).hexdigest() in page
    again = client.get("/fairshare", headers={"if-none-match": headers["ETag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert terminal.run("--help", token=None).out.count(terminal.url) == 1


def test_the_line_of_the_page_installs_it(terminal: Terminal) -> None:
    client = Client(headers={"host": terminal.url.removeprefix("http://")})
    client.force_login(terminal.site.alice, backend="django.contrib.auth.backends.ModelBackend")
    context: Any = client.get("/me/tokens/").context
    environment = {"HOME": str(terminal.home), "PATH": os.environ["PATH"]}
    done = subprocess.run(["sh", "-c", context["terminal"]["install"]], env=environment, capture_output=True)
    assert done.returncode == 0, done.stderr
    assert (terminal.home / "bin" / "fairshare").stat().st_mode & 0o777 == 0o755
    kept = subprocess.run(["sh", "-c", context["terminal"]["keep"]], env=environment, input=b"fsh_a_b\n", check=True)
    assert kept.returncode == 0
    assert (terminal.home / ".config/fairshare/token").stat().st_mode & 0o777 == 0o600
    wrong = context["terminal"]["install"].replace(context["terminal"]["digest"], "0" * 64)
    (terminal.home / "bin" / "fairshare").unlink()
    done = subprocess.run(["sh", "-c", wrong], env=environment, capture_output=True)
    assert done.returncode != 0
    assert not (terminal.home / "bin" / "fairshare").exists(), "what isn't what the page says becomes no program"


def test_the_token_link_preselects_the_scope_and_creates_nothing(terminal: Terminal) -> None:
    client = Client()
    client.force_login(terminal.site.alice, backend="django.contrib.auth.backends.ModelBackend")
    found = re.findall(
        r'value="([\w:]+)"( checked)?', client.get("/me/tokens/?scope=self:read&scope=admin").content.decode()
    )
    assert [name for name, checked in found if checked] == ["self:read"]
    assert not Token.objects.filter(user=terminal.site.alice).exists()


def test_the_client_shows_rank_and_main_reason(terminal: Terminal, alice: str) -> None:
    done = terminal.run("me", token=alice)
    assert (done.status, done.err) == (0, "")
    first, entry, *_, last = done.out.splitlines()
    assert re.findall(r"alice|physics|Grid|\d[\d.]*", first) == ["alice", "physics", "Grid", "3", "3", "0.3333"]
    assert entry.strip() == "/physics/alice"
    assert re.findall(r"\d[\d.:-]*", last)[:4] == ["2026-11-20", "12:00", "0", "2"], "when, how long ago, revision"
    why = terminal.run("why", token=alice)
    (physics,) = [row for row in lines_of(why.out) if row[0] == "* physics"]
    assert physics[1] == "60.0 %"
    assert re.fullmatch(r"\+\d+\.\d", physics[3])
    (own,) = [row for row in lines_of(why.out) if row[0] == "alice" and len(row) == 6]
    assert re.findall(r"\d+", own[5]) == ["1", "1"]
    accounts = terminal.run("rank", token=alice)
    (row,) = lines_of(accounts.out)[1:]
    assert (row[:3], re.findall(r"\d+", row[3]), row[4]) == (["grid", "alice", "/physics/alice"], ["3", "3"], "0.3333")


@pytest.mark.product  # advice has the dates of forecasts
def test_the_client_shows_rank_reason_and_advice(terminal: Terminal, alice: str, snapshot: SnapshotAssertion) -> None:
    assert [plain(terminal.run(name, token=alice).out) for name in ("me", "why", "rank")] == snapshot


def test_why_marks_levels_compared_by_local_usage_only(terminal: Terminal, alice: str) -> None:
    reason = "R2 wasn’t heard for a day."
    assert reason not in terminal.run("why", token=alice).out
    shared = {"op": "set_scope", "entry": "/physics", "scope": "global"}
    publish_operations(policy_slug="grid", operations=[shared], reason="Shared.", at=AT, actor=SYSTEM)
    fall_back(terminal.site.policy, terminal.site.uid("/physics"), reason=reason, at=AT)
    terminal.site.recompute()
    done = " ".join(terminal.run("why", token=alice).out.split())
    text = " ".join(build_message("walk.local_only", at=AT, reason=reason).text.split())
    assert "Fri 20 Nov 2026, 12:00" in text
    assert reason in text
    assert done.count(f"alice: {text}") == 1
    assert done.count(text) == 1, "at that level alone"
    assert "Compared by local usage: physics, alice." in done, "what it was compared by, not what is stated"


def test_the_usage_scope_of_levels_is_shown(terminal: Terminal, alice: str) -> None:
    assert "local usage: physics, alice." in terminal.run("why", token=alice).out
    scope = {"op": "set_scope", "entry": "/physics", "scope": "global", "sources": ["cluster-a"]}
    publish_operations(policy_slug="grid", operations=[scope], reason="Shared.", at=AT, actor=SYSTEM)
    terminal.site.recompute()
    why = " ".join(terminal.run("why", token=alice).out.split())
    assert "local usage: physics; global usage, only of cluster-a: alice." in why
    tree = terminal.run("group", token=alice).out
    assert "Entries below / are compared by local usage." in tree
    assert "Entries below /physics are compared by global usage, only of cluster-a." in tree
    (below,) = re.findall(r"Entries below /physics/alice.*", terminal.run("group", "/physics/alice", token=alice).out)
    assert "global usage, only of cluster-a" in below, "from above"


def test_json_equals_the_response_of_the_site(terminal: Terminal, alice: str) -> None:
    for command in ("me", "rank", "why", "group"):
        done = terminal.run(command, "--json", token=alice)
        assert done.status == 0, done.err
        found = json.loads(done.out, parse_constant=pytest.fail)
        assert (found["policy"] == "grid") if command == "group" else [one["account"] for one in found["accounts"]]
    assert json.loads(terminal.run("--json", "me", token=alice).out)["username"] == "alice"


def test_the_tree_shows_the_own_path_and_visible_entries(
    terminal: Terminal, alice: str, snapshot: SnapshotAssertion
) -> None:
    own = terminal.run("group", token=alice)
    assert own.status == 0, own.err
    assert [row[0] for row in lines_of(own.out)][1:4] == ["grid", "physics", "alice"]
    assert "bob" not in own.out
    assert "60.0 %" in own.out
    assert plain(own.out) == snapshot
    pia = terminal.site.token("self:read", "policies:read", user=terminal.site.pia)
    whole = terminal.run("group", "/physics", "--policy", "grid", token=pia)
    assert [row[0] for row in lines_of(whole.out)][1:4] == ["physics", "alice", "bob"]
    assert terminal.run("group", "--policy=grid", "--depth=0", token=pia).out.count("physics") == 0


def test_two_entries_are_compared_as_far_as_visible(
    terminal: Terminal, alice: str, snapshot: SnapshotAssertion
) -> None:
    pia = terminal.site.token("self:read", "policies:read", user=terminal.site.pia)
    done = terminal.run("why", "/physics/bob", "/physics/alice", "--policy", "grid", token=pia)
    assert (done.status, done.err) == (0, "")
    assert re.findall("alice|bob|grid", done.out.splitlines()[0]) == ["alice", "bob", "grid"]
    assert "/physics/bob" in {row[0] for row in lines_of(done.out)}
    assert plain(done.out) == snapshot
    assert max(map(len, done.out.splitlines())) <= 80
    assert json.loads(terminal.run("why", "bob", "alice", "--policy=grid", "--json", token=pia).out)["of"] == 3
    answers = [terminal.run("why", name, "alice", token=alice) for name in ("bob", "xyz")]
    assert [answer.status for answer in answers] == [1, 1]
    assert answers[0].err.replace("bob", "X") == answers[1].err.replace("xyz", "X")


def test_hidden_and_unknown_entries_are_answered_alike(terminal: Terminal, alice: str) -> None:
    refusals = set()
    for command, name in (("why", "bob"), ("why", "nobody-at-all"), ("why", "/physics/bob"), ("why", "/nothing")):
        done = terminal.run(command, name, token=alice)
        assert (done.status, done.out) == (1, "")
        assert name in done.err
        assert "`fairshare rank`" in done.err
        refusals.add(done.err.replace(name, "X"))
    assert len(refusals) == 1
    hidden, missing = (terminal.run("group", path, token=alice) for path in ("/physics/bob", "/physics/xyz"))
    assert (hidden.status, hidden.err) == (missing.status, missing.err) == (1, hidden.err)
    other, none = (terminal.run("group", "--policy", slug, token=alice) for slug in ("other", "nope"))
    assert (other.status, other.err) == (none.status, none.err) == (1, none.err)


def test_why_explains_a_visible_name_that_is_no_own_account_by_comparison(terminal: Terminal, alice: str) -> None:
    everybody = terminal.site.token("self:read", "policies:read", user=terminal.site.alice)
    make_grant(terminal.site.alice, terminal.site.uid("/physics"), policy=terminal.site.policy, at=AT, reason="test")
    done = terminal.run("why", "bob", token=everybody)
    assert (done.status, done.err) == (0, "")
    assert re.findall("alice|bob|grid", done.out.splitlines()[0]) == ["alice", "bob", "grid"]
    assert terminal.run("why", "bob", "alice", token=everybody).out == done.out


FORMER = {"accounts": ("rank",), "tree": ("group",), "compare": ("why", "/physics/alice", "/physics/alice")}


@pytest.mark.parametrize("name", FORMER)
def test_a_former_command_says_its_present_name_and_answers(terminal: Terminal, alice: str, name: str) -> None:
    now, *more = FORMER[name]
    former, present = (terminal.run(command, *more, "--json", token=alice) for command in (name, now))
    assert former.err == f"fairshare: `{name}` has become `fairshare {now}`.\n" + present.err
    assert (former.status, former.out) == (present.status, present.out)
    assert "has become" not in terminal.run("--policy", name, now, token=alice).err, "a policy may have that name"


def test_check_names_what_is_not_in_order(terminal: Terminal, alice: str) -> None:
    fine = terminal.run("check", token=alice)
    assert (fine.status, fine.err) == (0, "")
    assert terminal.url in fine.out
    assert "alice, whose token has self:read." in fine.out
    (row,) = [row for row in lines_of(fine.out) if row[0] == "grid"]
    assert row[:3] == ["grid", "alice", "/physics/alice"]
    nobody = terminal.run("check", token=terminal.site.token("self:read", user=terminal.site.nobody))
    assert (nobody.status, nobody.err) == (1, "fairshare: nobody in other has no rank.\n")
    assert terminal.run("check", "--at", "2", token=alice).status == 2


def test_an_invalid_token_is_refused_with_a_link_to_a_new_one(terminal: Terminal, alice: str) -> None:
    other = terminal.site.token("policies:read", user=terminal.site.alice)
    done = terminal.run("me", token=other)
    assert (done.status, "self:read" in done.err) == (1, True)
    revoke_token(token_id=Token.objects.get(public_id=alice.split("_")[1]).pk, at=AT, actor=SYSTEM)
    done = terminal.run("me", token=alice)
    assert (done.status, done.out) == (1, "")
    assert f"{terminal.url}/me/tokens/" in done.err


def test_past_instants_show_their_numbers(terminal: Terminal, alice: str) -> None:
    then = (AT + timedelta(hours=1)).strftime("%Y-%m-%d %H:%M")
    done = terminal.run("me", "--at", then, token=alice)
    assert done.status == 0, done.err
    assert re.findall(r"\d[\d.]*", done.out.splitlines()[0]) == ["3", "3", "0.3333"]
    assert "as computed at the time" in " ".join(done.out.split()), "where the numbers are from"
    now = terminal.run("me", token=alice)
    assert "computed at the time" not in " ".join(now.out.split())
    assert not re.search(r"\b\d+ (s|min|h)\b", done.out.splitlines()[-1]), "no age"
    assert re.search(r"\b\d+ (s|min|h)\b", now.out.splitlines()[-1])
    assert terminal.run("why", "--at", "2", "--policy", "grid", token=alice).status == 0
    for when in ("2", "yesterday-ish", "2026-11-20T12:00:00"):
        bad = terminal.run("me", "--at", when, token=alice)
        if when != "2026-11-20T12:00:00":  # that is a time of here
            assert (bad.status, bad.out) == (2, ""), when
            assert "at" in bad.err


@pytest.mark.parametrize("width", first(2, [None, 60, 40, 120]))
def test_lines_fit_eighty_columns_or_the_given_width(terminal: Terminal, alice: str, width: int | None) -> None:
    for command in ("me", "accounts", "why", "tree"):
        more = () if width is None else ("--width", str(width))
        done = terminal.run(command, *more, token=alice)
        longest = max(map(len, done.out.splitlines()))
        assert longest <= max(width or 80, 56), (command, done.out)
        assert "\x1b" not in done.out, "no colour in a pipe"


def on_a_terminal(terminal: Terminal, token: str, **more: str) -> str:
    main, other = pty.openpty()
    environment = {
        "HOME": str(terminal.home),
        "PATH": os.environ["PATH"],
        "LANG": "C.UTF-8",
        "FAIRSHARE_TOKEN": token,
        "TERM": "xterm",
        "COLUMNS": "70",
        **more,
    }
    done = subprocess.run(
        [sys.executable, str(terminal.program), "why"], stdout=other, stderr=other, env=environment, timeout=60
    )
    os.close(other)
    text = b""
    while True:
        try:
            piece = os.read(main, 65536)
        except OSError:  # the other end is closed
            break
        if not piece:
            break
        text += piece
    os.close(main)
    assert done.returncode == 0, text
    return text.decode()


def test_colour_is_used_only_on_terminals_that_want_it(terminal: Terminal, alice: str) -> None:
    text = on_a_terminal(terminal, alice)
    assert "\x1b[33mover" in text
    assert max(len(re.sub(r"\x1b\[[0-9;]*m", "", line)) for line in text.splitlines()) <= 70
    assert "\x1b" not in on_a_terminal(terminal, alice, NO_COLOR="1")
    assert "\x1b" not in on_a_terminal(terminal, alice, TERM="dumb")


def test_a_closed_pipe_ends_the_client_silently(terminal: Terminal, alice: str) -> None:
    environment = {"HOME": str(terminal.home), "PATH": os.environ["PATH"], "FAIRSHARE_TOKEN": alice}
    command = f"'{sys.executable}' '{terminal.program}' group --json | true"
    done = subprocess.run(["sh", "-c", command], env=environment, capture_output=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, b"")
