"""`fairshare-callout`: the right number, within its bound, whatever the site, the disk and other processes do."""

from __future__ import annotations

import ast
import importlib.util
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import redirect_stderr
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from tests.closed_port import CLOSED_PORT
from tests.terminal.callout_site import FakeSite, factor_of, fake_site

SOURCE = Path(__file__).resolve().parents[2] / "terminal" / "fairshare_callout.py"
TOKEN = "fsh_abcd1234_" + "s" * 43
DONE, REFUSED, USAGE, UNREACHED = range(4)
PYTHONS = [
    *Path.home().glob(".pyenv/versions/3.6*/bin/python"),
    *Path("/usr/bin").glob("python3.6"),
    *Path("/usr/bin").glob("python3"),
    Path(sys.base_prefix) / "bin" / "python3",
]


def _load() -> Any:
    """The file as a module: most tests need no process of its own."""
    spec = importlib.util.spec_from_file_location("fairshare_callout", SOURCE)
    assert spec is not None
    assert spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


PROGRAM = _load()  # with this module, so that tests.mutants finds its functions


class Callout:
    """The program with a home of its own, and the shell's environment."""

    def __init__(self, home: Path, url: str) -> None:
        self.home, self.url, self.python = home, url, str(PYTHONS[0])
        self.cache = home / ".cache" / "fairshare-callout"
        self.token = home / ".config" / "fairshare" / "token"
        self.token.parent.mkdir(parents=True)
        self.token.write_text(TOKEN + "\n")
        self.token.chmod(0o600)

    @property
    def environment(self) -> dict[str, str]:
        return {"HOME": str(self.home), "PATH": os.environ["PATH"], "LANG": "C"}

    def _arguments(self, *arguments: str) -> list[str]:
        patient = ["--wait-s", "30"]  # a busy machine is no finding; a test of a limit gives its own
        return ["--site", self.url, "--policy", "grid", *patient, *arguments]

    def run(self, *arguments: str, names: str | bytes = b"") -> tuple[int, str, str]:
        """As `main` runs it, in this process."""
        given = names.encode() if isinstance(names, str) else names
        out, err = io.StringIO(), io.StringIO()
        with pytest.MonkeyPatch.context() as patch, redirect_stderr(err):
            patch.setattr(os, "environ", self.environment)
            try:
                status = PROGRAM.run(self._arguments(*arguments), io.BytesIO(given), out)
            except PROGRAM.Failure as failure:
                status = failure.status
                err.write(failure.message)
            except SystemExit as end:
                status = int(str(end.code))
        return status, out.getvalue(), err.getvalue()

    def execute(self, *arguments: str) -> tuple[int, str, str]:
        """As a scheduler runs it: a process, of the oldest Python there is."""
        done = subprocess.run(self._command(*arguments), capture_output=True, env=self.environment, timeout=60)
        return done.returncode, done.stdout.decode(), done.stderr.decode()

    def _command(self, *arguments: str) -> list[str]:
        return [self.python, str(SOURCE), *self._arguments(*arguments)]

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            self._command(*arguments), stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=self.environment
        )

    def age(self, seconds: float) -> None:
        """As if what is cached had been fetched that much earlier, and the last failure, too."""
        for path in [*self.cache.glob("*.names"), *self.cache.glob("*.failure"), *self.cache.glob("*.quota")]:
            found = json.loads(path.read_text())
            for each in [found, *found.get("groups", {}).values()]:
                for name in ("checked_at", "at"):
                    if each.get(name, -1) > 0:
                        each[name] -= seconds
            path.write_text(json.dumps(found))


@pytest.fixture
def site() -> Iterator[FakeSite]:
    with fake_site() as found:
        yield found


@pytest.fixture
def callout(tmp_path: Path, site: FakeSite) -> Callout:
    return Callout(tmp_path, site.url)


@pytest.mark.paper("4.23")
def test_one_account_is_one_number(callout: Callout, site: FakeSite) -> None:
    assert callout.execute("ann") == (DONE, f"{factor_of('ann')!r}\n", "")
    (seen,) = site.seen
    assert seen["path"] == "/api/v1/policies/grid/priorities/lookup"
    assert seen["headers"]["Authorization"] == f"Bearer {TOKEN}"
    assert seen["body"] == {"accounts": ["ann"]}
    assert callout.run("ann", "--weight", "100000")[1] == f"{round(factor_of('ann') * 100000)}\n"
    assert len(site.seen) == 1, "the second one comes from the cache"


def test_group_namespace_and_project_are_sent_and_cached_separately(callout: Callout, site: FakeSite) -> None:
    plain = callout.run("ann")[1]
    grouped = callout.run("ann", "--group", "physics", "--namespace", "a")[1]
    assert site.seen[-1]["body"] == {"accounts": [{"user": "ann", "group": "physics", "namespace": "a"}]}
    assert (plain, grouped) == (f"{factor_of('ann')!r}\n", f"{factor_of('annphysics')!r}\n")
    names = "ann\t\t\tp1\nann\t\t\tp2\nann\nann\tphysics\ta\n"
    found = callout.run("--stdin", names=names)
    assert found == (DONE, "".join(f"{factor_of(each)!r}\n" for each in ("annp1", "annp2", "ann", "annphysics")), "")


def test_the_best_of_several_entries_or_the_fallback_factor_is_printed(callout: Callout) -> None:
    status, out, err = callout.run("--stdin", "--format", "json", names="both1\nstranger\nboth2\n")
    document = json.loads(out)
    assert (status, err) == (DONE, "")
    assert [each["factor"] for each in document["results"]] == [factor_of("both1"), 0.25, factor_of("both2")]
    assert [each.get("error") for each in document["results"]] == [None, "unmapped", None]
    assert (document["snapshot"], document["failure"], document["policy"]) == (1, None, "grid")
    assert 5 <= document["age_s"] < 30


def test_lines_keep_their_order_and_invalid_ones_get_the_fallback(callout: Callout, site: FakeSite) -> None:
    names = b"zoe\n\nann\n\xff\xfe\nann\n" + b"x" * 1025 + b"\nbo\x07b\n\xc3\xa5sa\n"
    status, out, err = callout.run("--stdin", "--format", "columns", "--fallback", "0.125", names=names)
    rows = [line.split("\t") for line in out.splitlines()]
    assert status == UNREACHED
    assert [row[4] for row in rows] == [
        *(repr(factor_of("zoe")), "0.125", repr(factor_of("ann")), "0.125", repr(factor_of("ann"))),
        *("0.125", "0.125", repr(factor_of("åsa"))),
    ]
    assert [row[7] for row in rows] == ["-", "bad_name", "-", "bad_name", "-", "bad_name", "bad_name", "-"]
    assert "\x07" not in out
    assert "4 of 8" in err
    assert site.seen[0]["body"] == {"accounts": ["zoe", "ann", "åsa"]}


def test_ten_thousand_names_are_one_request(callout: Callout, site: FakeSite) -> None:
    users = [f"u{number}" for number in range(10_000)]
    names = "".join(f"{user}\n" for user in users)
    expected = "".join(f"{factor_of(user)!r}\n" for user in users)
    assert callout.run("--stdin", "--wait-s", "30", names=names) == (DONE, expected, "")
    assert callout.run("--stdin", names=names) == (DONE, expected, "")
    assert len(site.seen) == 1
    assert callout.run("--stdin", "--wait-s", "30", names=names + "more\n")[0] == DONE
    assert site.seen[1]["body"] == {"accounts": ["more"]}, "of the same snapshot, so nothing else is looked up"


def test_an_old_cache_is_renewed_or_confirmed_by_one_request(callout: Callout, site: FakeSite) -> None:
    callout.run("--stdin", names="ann\nbob\n")
    callout.age(60)
    assert callout.run("ann")[0] == DONE
    assert site.seen[-1]["headers"]["If-None-Match"] == '"1"'
    site.snapshot, site.factor = 2, lambda user: 0.75
    assert callout.run("ann")[1] == f"{factor_of('ann')!r}\n", "confirmed a moment ago"
    n_before = len(site.seen)
    callout.age(60)
    assert callout.run("ann")[1] == "0.75\n"
    assert site.seen[-1]["body"] == {"accounts": ["ann", "bob"]}
    assert callout.run("bob")[1] == "0.75\n"
    assert len(site.seen) == n_before + 1


def test_a_new_name_of_a_newer_snapshot_renews_the_others(callout: Callout, site: FakeSite) -> None:
    callout.run("--stdin", names="ann\nbob\n")
    site.snapshot, site.factor = 2, lambda user: 0.75
    assert callout.run("zoe")[1] == "0.75\n"
    assert [seen["body"]["accounts"] for seen in site.seen[1:]] == [["zoe"], ["ann", "bob"]]
    assert callout.run("ann", "--wait-s", "0")[1] == "0.75\n"


def test_refresh_renews_what_is_cached_and_prints_nothing(callout: Callout, site: FakeSite) -> None:
    callout.run("--stdin", names="ann\nbob\n")
    site.snapshot, site.factor = 2, lambda user: 0.75
    assert callout.run("--refresh") == (DONE, "", "")
    assert callout.run("bob", "--wait-s", "0") == (DONE, "0.75\n", "")
    site.behave = site.hang
    assert callout.run("--refresh", "--wait-s", "0.2")[0] == UNREACHED


def test_names_unused_for_a_week_are_removed_from_the_cache(callout: Callout, site: FakeSite) -> None:
    callout.run("--stdin", names="ann\nbob\n")
    (path,) = callout.cache.glob("*.names")
    found = json.loads(path.read_text())
    for key, each in found["names"].items():
        each[2] -= 8 if key.startswith("bob") else 6
    path.write_text(json.dumps(found))
    callout.age(60)
    site.snapshot = 2
    callout.run("zoe")
    assert {key.split("\t")[0] for key in json.loads(path.read_text())["names"]} == {"ann", "zoe"}


def half_a_document(handler: BaseHTTPRequestHandler) -> None:
    text = b'{"snapshot": 2, "age_s": 1, "results": [{"account": "ann", "fac'
    handler.send_response(200)
    handler.send_header("Content-Length", str(len(text)))
    handler.end_headers()
    handler.wfile.write(text)


def breaks_off(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.send_header("Content-Length", "100000")
    handler.end_headers()
    handler.wfile.write(b'{"snapshot": 2')


def no_http(handler: BaseHTTPRequestHandler) -> None:
    handler.wfile.write(b"SSH-2.0-OpenSSH_9.2\r\n")


def refuses(handler: BaseHTTPRequestHandler) -> None:
    text = b'{"code": "invalid_token", "detail": "The token has ended."}'
    handler.send_response(401)
    handler.send_header("Content-Length", str(len(text)))
    handler.end_headers()
    handler.wfile.write(text)


def broken(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(503)
    handler.send_header("Content-Length", "0")
    handler.end_headers()


BAD: dict[str, Any] = {
    "half a JSON": half_a_document,
    "breaks off": breaks_off,
    "no HTTP": no_http,
    "hang": FakeSite.hang,
    "trickle": FakeSite.trickle,
    "broken": broken,
}


@pytest.mark.parametrize("how", BAD)
def test_a_failing_site_costs_one_timeout_and_cached_numbers_stay(callout: Callout, site: FakeSite, how: str) -> None:
    first = callout.run("ann")[1]
    callout.age(60)
    site.behave = getattr(site, how, BAD[how])
    started_s = time.monotonic()
    status, out, _ = callout.run("ann", "--wait-s", "0.5")
    took_s = time.monotonic() - started_s
    assert (status, out) == (DONE, first), "of the cache"
    assert took_s < 2.0, "half a second, on a busy machine"
    n_before = len(site.seen)
    assert callout.run("zoe", "--fallback", "0.25")[:2] == (UNREACHED, "0.25\n")
    assert len(site.seen) == n_before, "nobody tries again for ten seconds"
    callout.age(11)
    site.behave = None
    assert callout.run("zoe")[0] == DONE


def test_the_process_respects_its_timeout_while_the_site_hangs(callout: Callout, site: FakeSite) -> None:
    site.behave = site.hang
    status, out, err = callout.execute("ann", "--wait-s", "0.5")
    assert (status, out) == (UNREACHED, "0.5\n")
    assert "Traceback" not in err
    site.behave = None
    callout.age(60)
    assert callout.execute("--refresh")[0] == DONE, "no lock is left, and no thread held the process"


def test_cached_numbers_have_an_age_and_an_expiry(callout: Callout, site: FakeSite) -> None:
    callout.run("ann")
    site.behave = broken
    callout.age(3600)
    status, out, _ = callout.run("ann", "--format", "json")
    assert (status, json.loads(out)["results"][0]["source"]) == (DONE, "cache")
    assert 3605 <= json.loads(out)["age_s"] < 3700
    assert callout.run("ann", "--stale-s", "1800", "--fallback", "0.3")[:2] == (UNREACHED, "0.3\n")


def test_a_clock_reset_renews_the_cache_and_keeps_the_number(callout: Callout, site: FakeSite) -> None:
    first = callout.run("ann")[1]
    callout.age(-86400)
    site.behave = broken
    assert callout.run("ann")[:2] == (DONE, first)
    assert len(site.seen) == 2, "a time that is still to come is not fresh"


def test_refused_connections_and_unknown_hosts_fail_at_once(tmp_path: Path) -> None:
    callout = Callout(tmp_path, f"http://127.0.0.1:{CLOSED_PORT}")
    assert callout.run("ann")[:2] == (UNREACHED, "0.5\n")
    assert callout.run("ann", "--format", "value", "--quiet") == (UNREACHED, "0.5\n", "")


def test_a_refusal_exits_with_1_and_the_reason(callout: Callout, site: FakeSite) -> None:
    site.behave = refuses
    status, out, err = callout.run("ann")
    assert (status, out) == (REFUSED, "0.5\n")
    assert "The token has ended." in err


def test_a_redirect_is_not_followed(callout: Callout, site: FakeSite) -> None:
    with fake_site() as elsewhere:

        def redirect(handler: BaseHTTPRequestHandler) -> None:
            handler.send_response(307)
            handler.send_header("Location", elsewhere.url + handler.path)
            handler.send_header("Content-Length", "0")
            handler.end_headers()

        site.behave = redirect
        assert callout.run("ann")[:2] == (UNREACHED, "0.5\n")
        assert elsewhere.seen == []


@pytest.mark.parametrize(
    "results",
    [
        [],
        [{"account": "bob", "factor": 0.5}],
        [{"account": "ann", "factor": 1.5}],
        [{"account": "ann", "factor": True}],
        [{"account": "ann", "factor": None}],
        [{"account": "ann", "factor": "0.5"}],
        ["ann"],
        None,
    ],
)
def test_an_invalid_response_is_not_a_number(callout: Callout, site: FakeSite, results: Any) -> None:
    def answer(handler: Any) -> None:
        handler.send(200, {"snapshot": 3, "age_s": 1.0, "results": results})

    site.behave = answer
    assert callout.run("ann", "--fallback", "0.375")[:2] == (UNREACHED, "0.375\n")


def test_one_of_many_processes_sends_the_request(callout: Callout, site: FakeSite) -> None:
    started = [callout.start("ann", "--wait-s", "20") for _ in range(12)]
    outs = {process.communicate(timeout=60)[0] for process in started}
    assert outs == {f"{factor_of('ann')!r}\n".encode()}
    assert len(site.seen) == 1


def test_a_cached_number_needs_no_wait_for_the_renewal(callout: Callout, site: FakeSite) -> None:
    first = callout.run("ann")[1]
    callout.age(60)
    site.behave = site.hang
    one = callout.start("ann", "--wait-s", "20")
    while len(site.seen) < 2:
        assert one.poll() is None
        time.sleep(0.01)
    started_s = time.monotonic()
    assert callout.run("ann", "--wait-s", "20")[:2] == (DONE, first)
    assert time.monotonic() - started_s < 5
    assert len(site.seen) == 2
    one.send_signal(signal.SIGKILL)
    one.communicate()
    site.behave = None
    assert callout.run("bob", "--wait-s", "20")[0] == DONE, "a killed process leaves no lock behind"


def test_a_process_that_hangs_with_the_lock_blocks_no_other(callout: Callout, site: FakeSite) -> None:
    site.behave = site.hang
    one = callout.start("ann", "--wait-s", "20")
    while not site.seen:
        assert one.poll() is None
        time.sleep(0.01)
    site.behave = None
    assert callout.run("bob", "--wait-s", "2") == (DONE, f"{factor_of('bob')!r}\n", "")
    one.kill()
    one.communicate()


def test_the_cache_directory_is_private(callout: Callout, site: FakeSite) -> None:
    callout.run("ann")
    assert callout.cache.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in callout.cache.iterdir()} == {0o600}
    callout.cache.chmod(0o755)
    assert callout.run("ann")[0] == DONE
    assert "0700" in callout.run("ann")[2]
    assert len(site.seen) == 3, "without a cache every call asks"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_files_and_directories_of_another_user_are_not_read(callout: Callout, site: FakeSite) -> None:
    callout.run("ann")
    (path,) = callout.cache.glob("*.names")
    lie = path.read_text().replace(repr(factor_of("ann")), "0.999")
    path.write_text(lie)
    os.chown(path, 65534, 65534)
    assert callout.run("ann")[1] == f"{factor_of('ann')!r}\n"
    os.chown(callout.cache, 65534, 65534)
    path.write_text(lie)
    assert callout.run("ann")[1] == f"{factor_of('ann')!r}\n"


def test_a_link_in_place_of_the_directory_or_a_file_is_not_followed(callout: Callout, tmp_path: Path) -> None:
    callout.run("ann")
    (path,) = callout.cache.glob("*.names")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text(path.read_text().replace(repr(factor_of("ann")), "0.999"))
    path.unlink()
    path.symlink_to(elsewhere)
    assert callout.run("ann")[1] == f"{factor_of('ann')!r}\n"
    assert "0.999" in elsewhere.read_text(), "nor written through"
    shutil.move(str(callout.cache), str(tmp_path / "moved"))
    callout.cache.symlink_to(tmp_path / "moved")
    assert callout.run("ann")[0] == DONE


@pytest.mark.parametrize("content", [b"", b"{", b'{"format": 1}', b"[]", b"\xff", b'{"format": 1, "names": 7}'])
def test_a_damaged_cache_is_ignored(callout: Callout, content: bytes) -> None:
    callout.run("ann")
    (path,) = callout.cache.glob("*.names")
    path.write_bytes(content)
    assert callout.run("ann") == (DONE, f"{factor_of('ann')!r}\n", "")


def test_without_a_cache_directory_numbers_are_printed(callout: Callout) -> None:
    callout.cache.parent.mkdir()
    callout.cache.write_text("a file is in the way")
    status, out, err = callout.run("ann")
    assert (status, out) == (DONE, f"{factor_of('ann')!r}\n")
    assert "No cache" in err


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660])
def test_a_token_that_others_can_read_is_not_sent(callout: Callout, site: FakeSite, mode: int) -> None:
    callout.token.chmod(mode)
    status, out, err = callout.run("ann")
    assert (status, out, site.seen) == (REFUSED, "0.5\n", [])
    assert str(callout.token) in err
    assert TOKEN not in err


def test_options_from_a_file(callout: Callout, site: FakeSite, tmp_path: Path) -> None:
    config = tmp_path / "callout.conf"
    config.write_text(f"# ours\nsite = {callout.url}\npolicy=grid\nfallback = 0.1\nwait-s = 5\n")
    options = {"site": site.url, "policy": "grid", "fallback": 0.1, "wait_s": 5.0}
    assert PROGRAM.read_config(str(config)) == options
    command = [callout.python, str(SOURCE), "--config", str(config), "ann"]
    done = subprocess.run(command, env=callout.environment, capture_output=True)
    assert done.stdout.decode() == f"{factor_of('ann')!r}\n"
    for mode, text in ((0o666, "site = x\n"), (0o600, "sight = x\n"), (0o600, "wait-s = long\n"), (0o600, "site\n")):
        config.write_text(text)
        config.chmod(mode)
        assert callout.run("--config", str(config), "ann")[:2] == (USAGE, "")
    assert callout.run("--config", str(tmp_path / "none"), "ann")[:2] == (USAGE, "")


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("ann", "bob"),
        ("ann", "--stdin"),
        ("ann", "--fallback", "2"),
        ("ann", "--fallback", "nan"),
        ("ann", "--wait-s", "-1"),
        ("ann", "--site", "http://fairshare.example.org"),
        ("ann", "--site", "ftp://x"),
        ("ann", "--site", "https://me:pw@x.org"),
        ("ann", "--policy", "../x"),
        ("ann", "--policy", ""),
        ("ann", "--weight", "inf"),
        ("ann", "--unknown"),
    ],
)
def test_wrong_usage_prints_nothing_and_sends_nothing(
    callout: Callout, site: FakeSite, arguments: tuple[str, ...]
) -> None:
    status, out, err = callout.run(*arguments)
    assert (status, out, site.seen) == (USAGE, "", [])
    assert err
    assert "Traceback" not in err


def test_the_callout_is_one_file_for_python_3_6_without_packages() -> None:
    tree = ast.parse(SOURCE.read_text(encoding="utf-8"), feature_version=(3, 6))
    imported = {
        name.partition(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in ([node.module or ""] if isinstance(node, ast.ImportFrom) else [each.name for each in node.names])
    }
    assert imported <= set(sys.stdlib_module_names)


def test_quota_uses_the_nearest_ancestor_with_an_allocation(callout: Callout, site: FakeSite) -> None:
    days = {"starts_on": "2026-01-01", "ends_on": "2026-12-31"}
    own = {"allocated": 1000.0, "used": 600.25, "held": 12.0, "remaining": 399.75, **days}
    site.pages = {"allocations/board": {"own": own}}
    assert callout.run("quota", "/physics") == (DONE, "399.75\n", "")
    assert [seen["path"].partition("?")[0].rpartition("grid/")[2] for seen in site.seen] == ["allocations/board"]
    assert "of=%2Fphysics&unit=core-h" in site.seen[0]["path"]
    site.behave = broken
    status, out, _ = callout.run("quota", "/physics", "--format", "json")
    assert (status, len(site.seen)) == (DONE, 1)
    shown = json.loads(out)
    assert (shown["allocated_core_h"], shown["allocated"], shown["held"], shown["unit"]) == (
        1000.0,
        1000.0,
        12.0,
        "core-h",
    )
    assert callout.run("quota", "biology")[:2] == (UNREACHED, "-\n")


def test_quota_of_a_named_group_and_of_an_unknown_one(callout: Callout, site: FakeSite) -> None:
    site.pages = {"allocations/board": {"own": None}}
    status, out, _ = callout.run("quota", "physics", "--format", "json")
    found = json.loads(out)
    assert (status, found["entry"], found["remaining_core_h"]) == (DONE, "/all/physics", None)
    assert callout.run("quota", "stranger")[0] == REFUSED
    assert callout.run("ann")[0] == DONE, "a group that nobody knows says nothing about accounts"
