"""The client and everything that isn't its site: the token stays where it belongs, and each failure says what to do."""

from __future__ import annotations

import ast
import ipaddress
import json
import os
import re
import ssl
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from syrupy.assertion import SnapshotAssertion

from tests.closed_port import CLOSED_PORT
from tests.examples import first
from tests.loaded_script import run_script
from tests.terminal.strangers import silence, stranger

SOURCE = Path(__file__).resolve().parents[2] / "terminal" / "fairshare.py"
TOKEN = "fsh_abcd1234_" + "s" * 43
DONE, REFUSED, USAGE, UNREACHED, STALE = range(5)
# The first that is here: 3.6, else the system's own or this one's, both without any package of this project.
PYTHONS = [
    *Path.home().glob(".pyenv/versions/3.6*/bin/python"),
    *Path("/usr/bin").glob("python3.6"),
    *Path("/usr/bin").glob("python3"),
    Path(sys.base_prefix) / "bin" / "python3",
]
ME: dict[str, Any] = {
    "username": "alice",
    "accounts": [
        {
            "account": "alice",
            "group": "físicos",
            "policy": "grid",
            "policy_name": "Grid",
            "entry": "/physics/alice",
            "rank": 3,
            "of": 3,
            "factor": 0.25,
            "error": None,
            "as_of": "2026-11-20T12:00:00Z",
            "age_s": 4000.0,
            "revision": 2,
            "snapshot": 9,
            "moment": None,
            "stale": None,
            "deciding": None,
            "sentences": [{"key": "k", "values": {}, "text": "Lower than most: rank 3 of 3"}],
            "when": [],
            "changes": [],
        }
    ],
}


def run(
    home: Path,
    *arguments: str,
    token: str | None = TOKEN,
    source: str | None = None,
    python: str = sys.executable,
    **more: str,
) -> tuple[int, str, str]:
    program = SOURCE
    if source is not None:
        program = home / "fairshare"
        program.write_text(source)
    environment = {"HOME": str(home), "PATH": os.environ["PATH"], "LANG": "C.UTF-8", **more}
    if token is not None:
        environment["FAIRSHARE_TOKEN"] = token
    if python == sys.executable and environment["LANG"] == "C.UTF-8" and source is None:
        return run_script(program, arguments, env=environment, cwd=Path.cwd())
    done = subprocess.run([python, str(program), *arguments], capture_output=True, env=environment, timeout=60)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def at(port: int, host: str = "127.0.0.1") -> str:
    return f"--site=http://{host}:{port}"


def keep(home: Path, mode: int, text: str = TOKEN) -> Path:
    path = home / ".config" / "fairshare" / "token"
    path.parent.mkdir(parents=True)
    path.write_text(text + "\n")
    path.chmod(mode)
    return path


def test_the_token_goes_to_the_site_in_the_header_and_never_in_the_address(tmp_path: Path) -> None:
    with stranger(body=json.dumps(ME).encode()) as server:
        assert run(tmp_path, "me", at(server.port))[0] == DONE
    assert [seen["path"] for seen in server.seen] == ["/api/v1/me", "/api/v1/me/allocations"]
    assert {seen["Authorization"] for seen in server.seen} == {f"Bearer {TOKEN}"}


@pytest.mark.parametrize("status", first(2, [301, 302, 303, 307, 308]))
def test_a_redirect_is_reported_and_not_followed(tmp_path: Path, status: int) -> None:
    with stranger(body=json.dumps(ME).encode()) as elsewhere:
        to = f"http://localhost:{elsewhere.port}/api/v1/me"
        with stranger(status, {"Location": to}, b"") as server:
            code, out, err = run(tmp_path, "me", at(server.port))
    assert (code, out) == (UNREACHED, "")
    assert to in err
    assert "--site" in err
    assert len(server.seen) == 1
    assert elsewhere.seen == [], "not even without the token"


@pytest.mark.parametrize("mode", first(3, [0o640, 0o604, 0o660, 0o644, 0o620, 0o601]))
def test_a_token_file_accessible_to_others_is_refused(tmp_path: Path, mode: int) -> None:
    path = keep(tmp_path, mode)
    with stranger() as server:
        code, out, err = run(tmp_path, "me", at(server.port), token=None)
    assert (code, out, server.seen) == (REFUSED, "", [])
    assert f"chmod 600 {path}" in err
    assert TOKEN not in err


@pytest.mark.parametrize("mode", [0o600, 0o400])
def test_a_private_token_file_is_accepted(tmp_path: Path, mode: int) -> None:
    keep(tmp_path, mode)
    with stranger(body=json.dumps(ME).encode()) as server:
        assert run(tmp_path, "me", at(server.port), token=None)[0] == DONE
        moved = tmp_path / ".config" / "fairshare"
        assert run(tmp_path, "me", at(server.port), token=None, XDG_CONFIG_HOME=str(moved.parent))[0] == DONE
        assert run(tmp_path, "me", at(server.port), token=None, XDG_CONFIG_HOME=str(tmp_path))[0] == USAGE
    assert {seen["Authorization"] for seen in server.seen} == {f"Bearer {TOKEN}"}


def test_without_a_token_the_client_names_the_page(tmp_path: Path) -> None:
    code, out, err = run(tmp_path, "me", at(9), token=None)
    assert (code, out) == (USAGE, "")
    assert "http://127.0.0.1:9/me/tokens/?scope=self:read" in err
    assert "umask 077" in err
    assert str(tmp_path / ".config/fairshare/token") in err


@pytest.mark.parametrize("text", first(3, ["hello", "fsh_", "fsh_a_b\nX: y", "Bearer fsh_a_b", "fsh_a_b fsh_c_d"]))
def test_an_invalid_token_is_not_sent(tmp_path: Path, text: str) -> None:
    with stranger() as server:
        code, _, err = run(tmp_path, "me", at(server.port), token=text)
    assert (code, server.seen) == (USAGE, [])
    assert "FAIRSHARE_TOKEN" in err


def test_a_token_that_is_a_folder_or_a_pipe_is_refused_at_once(tmp_path: Path) -> None:
    folder = tmp_path / ".config" / "fairshare"
    folder.mkdir(parents=True)
    os.mkfifo(folder / "token", 0o600)
    assert run(tmp_path, "me", at(9), token=None)[0] == USAGE
    (folder / "token").unlink()
    (folder / "token").mkdir(mode=0o700)
    assert run(tmp_path, "me", at(9), token=None)[0] == USAGE


@pytest.mark.parametrize(
    "site",
    first(
        6,
        [
            "http://fairshare.example.org",
            "https://[x",
            "https://x:abc",
            "ftp://x",
            "fairshare.example.org",
            "https://",
            "https://me:secret@x.org",
            "file:///etc/passwd",
            "http://127.0.0.1.example.org",
            "https://x.org/?a=b",
        ],
    ),
)
def test_addresses_that_would_leak_the_token_are_not_used(tmp_path: Path, site: str) -> None:
    code, _, err = run(tmp_path, "me", f"--site={site}")
    assert code == USAGE
    assert TOKEN not in err


def test_without_an_address_the_client_asks_for_one(tmp_path: Path) -> None:
    code, _, err = run(tmp_path, "me")
    assert (code, "--site" in err) == (USAGE, True)


def test_loopback_is_reached_without_a_proxy(tmp_path: Path) -> None:
    with stranger() as proxy, stranger(body=json.dumps(ME).encode()) as server:
        through = f"http://127.0.0.1:{proxy.port}"
        assert run(tmp_path, "me", at(server.port), http_proxy=through, HTTP_PROXY=through)[0] == DONE
    assert proxy.seen == []


@pytest.mark.parametrize(
    ("answer", "status", "word"),
    first(
        6,
        [
            ((200, {}, b"<html>"), UNREACHED, "127.0.0.1"),
            ((200, {}, b"[1]"), UNREACHED, "127.0.0.1"),
            ((200, {}, b"\xff"), UNREACHED, "127.0.0.1"),
            ((200, {"Content-Length": "99"}, b"{}"), UNREACHED, "127.0.0.1"),
            ((404, {}, b"nothing"), UNREACHED, "127.0.0.1"),
            ((404, {}, b'{"code": "not_found", "detail": "No such policy."}'), REFUSED, "No such policy."),
            ((401, {}, b'{"code": "invalid_token", "detail": "Ended."}'), REFUSED, "/me/tokens/"),
            ((403, {}, b'{"code": "insufficient_scope", "detail": "No."}'), REFUSED, "self:read"),
            ((403, {}, b'{"code": "not_allowed", "detail": "No."}'), REFUSED, "No."),
            ((400, {}, b'{"detail": "Bad.", "fields": [{"where": "at", "message": "no time"}]}'), USAGE, "at: no time"),
            ((429, {"Retry-After": "7"}, b'{"detail": "Slower."}'), UNREACHED, r"Slower\..*\b7 s\b"),
            ((503, {"Retry-After": "5"}, b'{"detail": "Computing."}'), UNREACHED, r"Computing\..*\b5 s\b"),
            ((500, {}, b"oops"), UNREACHED, "Internal Server Error"),
        ],
    ),
)
def test_every_response_has_an_exit_status_and_a_message(
    tmp_path: Path, answer: tuple[int, dict[str, str], bytes], status: int, word: str, snapshot: SnapshotAssertion
) -> None:
    with stranger(*answer) as server:
        code, out, err = run(tmp_path, "me", at(server.port))
    assert (code, out) == (status, "")
    assert re.search(word, err)
    assert "Traceback" not in err
    assert err.replace(str(server.port), "PORT").replace(str(tmp_path), "HOME") == snapshot


def test_unreachable_and_unknown_hosts_are_reported(tmp_path: Path) -> None:
    for site in (at(CLOSED_PORT), "--site=https://no-such-host.invalid"):
        code, out, err = run(tmp_path, "me", site)
        assert (code, out) == (UNREACHED, "")
        assert site.removeprefix("--site=") in err


def test_a_silent_site_times_out(tmp_path: Path) -> None:
    source = SOURCE.read_text()
    assert "TIMEOUT_S = 30" in source
    with silence() as port:
        code, _, err = run(tmp_path, "me", at(port), source=source.replace("TIMEOUT_S = 30", "TIMEOUT_S = 1"))
    assert (code, "1 s" in err) == (UNREACHED, True)


def certificate(folder: Path, name: str) -> tuple[ssl.SSLContext, Path]:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    names: list[x509.GeneralName] = [x509.DNSName(name)]
    if name == "127.0.0.1":
        names = [x509.IPAddress(ipaddress.ip_address(name))]
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    path = folder / f"{name}.pem"
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path.write_bytes(private + made.public_bytes(serialization.Encoding.PEM))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path)
    return context, path


def test_an_untrusted_site_certificate_is_refused(tmp_path: Path) -> None:
    ours, known = certificate(tmp_path, "127.0.0.1")
    others, foreign = certificate(tmp_path, "other.example")
    body = json.dumps(ME).encode()
    with stranger(tls=ours, body=body) as server:
        site = f"--site=https://127.0.0.1:{server.port}"
        code, _, err = run(tmp_path, "me", site)
        assert (code, "SSL_CERT_FILE" in err) == (UNREACHED, True)
        assert server.seen == []
        assert run(tmp_path, "me", site, SSL_CERT_FILE=str(known))[0] == DONE
        assert [seen["path"] for seen in server.seen] == ["/api/v1/me", "/api/v1/me/allocations"]
    with stranger(tls=others, body=body) as server:  # known, but for another name
        site = f"--site=https://127.0.0.1:{server.port}"
        assert run(tmp_path, "me", site, SSL_CERT_FILE=str(foreign))[0] == UNREACHED
        assert server.seen == []


def test_terminal_control_characters_are_removed(tmp_path: Path) -> None:
    evil = json.loads(json.dumps(ME))
    evil["accounts"][0].update(policy_name="\x1b]0;gotcha\x07G\u202egrid\x9b31m", account="a\rb\nc")
    with stranger(body=json.dumps(evil).encode()) as server:
        for command in ("me", "accounts", "why"):
            code, out, _ = run(tmp_path, command, at(server.port))
            assert code == DONE
            assert not set(out) & set("\x1b\x07\x9b\r\u202e")
            assert "abc" in out
    with stranger(404, {}, b'{"code": "x", "detail": "\\u001b[2Jno"}') as server:
        assert "\x1b" not in run(tmp_path, "me", at(server.port))[2]


def test_names_outside_the_terminal_encoding_are_replaced(tmp_path: Path) -> None:
    with stranger(body=json.dumps(ME, ensure_ascii=False).encode()) as server:
        code, out, _ = run(tmp_path, "me", at(server.port), LANG="C", PYTHONIOENCODING="ascii")
    assert (code, "alice (f\\xedsicos)" in out) == (DONE, True)


def test_stale_numbers_change_the_exit_status_only_on_request(tmp_path: Path) -> None:
    with stranger(body=json.dumps(ME).encode()) as server:
        assert run(tmp_path, "me", at(server.port))[0] == DONE
        assert run(tmp_path, "me", at(server.port), "--max-age=4000")[0] == DONE
        code, out, err = run(tmp_path, "--max-age=3999", "me", at(server.port))
        assert (code, "alice" in out) == (STALE, True)
        assert re.search(r"\b6[67] min\b", err)
    with stranger(body=b'{"accounts": []}') as server:
        assert run(tmp_path, "me", at(server.port), "--max-age=60")[0] == STALE


@pytest.mark.parametrize(
    ("changed", "status", "complaint"),
    [
        ({}, DONE, ""),
        ({"stale": {"text": "Behind: usage is late."}}, STALE, "The numbers of alice in grid are too old."),
        ({"error": "unmapped", "entry": None, "rank": None}, REFUSED, "alice in grid has no rank."),
    ],
)
def test_check_complains_of_accounts_by_its_exit_status(
    tmp_path: Path, changed: dict[str, Any], status: int, complaint: str
) -> None:
    me = {**ME, "accounts": [{**ME["accounts"][0], **changed}]}
    with stranger(body=json.dumps(me).encode()) as server:
        code, out, err = run(tmp_path, "check", at(server.port))
    assert (code, err) == (status, f"fairshare: {complaint}\n" if complaint else "")
    assert ("66 min old" in out, "Behind: usage is late." in out) == (True, "stale" in changed)
    assert ("Lower than most" in out) == ("error" in changed), "why there is none"


@pytest.mark.parametrize(
    ("given", "asked"),
    [
        ("2026-11-17", "2026-11-17T22:59:00Z"),
        ("2026-11-17 14:30", "2026-11-17T13:30:00Z"),
        ("2026-07-01T08:00:30", "2026-07-01T06:00:00Z"),
        ("2026-11-17T14:30:00Z", "2026-11-17T14:30:00Z"),
        ("41", "41"),
    ],
)
def test_a_day_is_in_the_local_zone(tmp_path: Path, given: str, asked: str) -> None:
    with stranger(body=json.dumps(ME).encode()) as server:
        assert run(tmp_path, "me", at(server.port), "--at", given, TZ="Europe/Stockholm")[0] == DONE
    assert server.seen[0]["path"] == f"/api/v1/me?at={asked.replace(':', '%3A')}"


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("you",),
        ("me", "--nonsense"),
        ("me", "--width", "3"),
        ("me", "--at", "2026-13-40"),
        ("me", "--max-age=-1"),
        ("me", "alice"),
    ],
)
def test_wrong_usage_has_its_own_exit_status(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    code, out, err = run(tmp_path, *arguments, *([at(9)] if arguments else []))
    assert (code, out) == (USAGE, "")
    assert err
    assert "Traceback" not in err


def test_help_needs_neither_token_nor_site(tmp_path: Path) -> None:
    code, out, _ = run(tmp_path, "--help", token=None)
    assert code == DONE
    assert all(word in out for word in ("me", "rank", "why", "group", "report", "check", "FAIRSHARE_TOKEN"))
    assert re.search(r"\b0\b\D+\b1\b\D+\b2\b\D+\b3\b\D+\b4\b", out), "what each exit status means"


NEWER = {
    "fromisoformat",
    "removeprefix",
    "removesuffix",
    "reconfigure",
    "capture_output",
    "prod",
    "dist",
    "isascii",
    "zoneinfo",
    "dataclasses",
    "graphlib",
    "tomllib",
    "cached_property",
    "Literal",
    "Protocol",
    "TypedDict",
    "Final",
    "contextvars",
    "breakpoint",
    "monotonic_ns",
    "time_ns",
    "perf_counter_ns",
    "importlib.resources",
    "nullcontext",
    "get_running_loop",
    "walk_packages",
    "shlex_join",
    "missing_ok",
    "readlink",
    "hardlink_to",
}
THERE_IN_36 = {
    "argparse",
    "io",
    "json",
    "os",
    "re",
    "shutil",
    "signal",
    "socket",
    "ssl",
    "stat",
    "sys",
    "textwrap",
    "unicodedata",
    "urllib.error",
    "urllib.parse",
    "urllib.request",
    "datetime",
    "typing",
}


def test_the_client_needs_only_python_3_6() -> None:
    tree = ast.parse(SOURCE.read_text(encoding="utf-8"), feature_version=(3, 6))
    imported: set[str] = set()
    used: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported.add(str(node.module))
            used |= {alias.name for alias in node.names}
        elif isinstance(node, ast.Attribute):
            used.add(node.attr)
        elif isinstance(node, ast.keyword):
            used.add(str(node.arg))
    assert imported == THERE_IN_36
    assert used & NEWER == set()


def test_the_oldest_available_python_runs_the_client(tmp_path: Path) -> None:
    with stranger(body=json.dumps(ME).encode()) as server:
        new = run(tmp_path, "me", at(server.port))
        old = run(tmp_path, "me", at(server.port), python=str(PYTHONS[0]))
        assert old == new
        assert old[0] == DONE
        assert run(tmp_path, "me", at(server.port), python=str(PYTHONS[0]), LANG="C")[0] == DONE


def test_a_forked_run_of_these_tests_prints_and_ends_as_a_process_of_its_own(tmp_path: Path) -> None:
    environment = {"HOME": str(tmp_path), "PATH": os.environ["PATH"], "LANG": "C.UTF-8"}
    for arguments in (["--help"], ["--nonsense"], ["me"], ["me", "--site=http://127.0.0.1:1"]):
        own = subprocess.run([sys.executable, str(SOURCE), *arguments], env=environment, capture_output=True, text=True)
        forked = run_script(SOURCE, arguments, env=environment, cwd=Path.cwd())
        assert forked == (own.returncode, own.stdout, own.stderr), arguments
