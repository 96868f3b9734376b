"""The only door outwards: where it leads, and how long it stays open. Servers are real, on this machine."""

from __future__ import annotations

import ast
import gzip
import io
import ipaddress
import socket
import ssl
import threading
import time
import zlib
from pathlib import Path
from typing import Any

import pytest
from django.test import override_settings

from apps.core.addresses import Refused, kind_of, target_of
from apps.core.errors import DomainError, TooLarge
from apps.core.outbound import Limits, Unreachable, fetch
from tests.core.hostile_addresses import NAMES, URLS
from tests.core.outbound_servers import OK, Serve, answering, answering_early, redirect, request_of
from tests.each_case import each_case

APPS = Path(__file__).resolve().parents[2] / "apps"


def names(host: str, port: int) -> list[str]:
    if host not in NAMES:
        raise socket.gaierror(host)
    return NAMES[host]


def test_the_list_of_forbidden_addresses_is_large_and_unique() -> None:
    assert len(URLS) == len(set(URLS)) > 120


@each_case("url", URLS)
@each_case("method", ["GET", "POST"])
def test_no_socket_connects_to_a_forbidden_address(url: str, method: str, connects: list[tuple[str, int]]) -> None:
    connects.clear()  # of other cases
    with pytest.raises((Refused, Unreachable)) as refusal:
        fetch(url, method=method, body=b"{}" if method == "POST" else None, resolve=names)
    assert refusal.value.code in ("address_refused", "unknown_host")
    assert connects == []


@each_case("url", URLS)
def test_redirects_to_forbidden_addresses_are_not_followed(
    url: str, serve: Serve, certified: tuple[ssl.SSLContext, ssl.SSLContext], connects: list[tuple[str, int]]
) -> None:
    connects.clear()  # of other cases
    ours, theirs = certified
    location = url.replace("\r", "").replace("\n", "")
    if not location.isascii():
        location = location.encode().decode("latin-1")
    port = serve(answering(redirect(location)), context=theirs)
    base = f"https://127.0.0.1:{port}/start"
    try:
        fetch(base, limits=Limits(redirects=1, total_s=10), resolve=names, tls=ours)
    except DomainError as refusal:
        assert refusal.code in ("address_refused", "unknown_host", "too_many_redirects")  # noqa: PT017 - or an answer
    assert {address for address in connects if address != ("127.0.0.1", port)} == set()


_SPECIAL = [
    *("0.0.0.0", "169.254.0.1", "168.63.129.16", "224.0.0.1", "255.255.255.255", "::", "fe80::1", "ff02::1", "2002::1"),  # noqa: S104
    *("64:ff9b::808:808", "64:ff9b:1::1", "::ffff:8.8.8.8", "2001:0:1::1", "fec0::1", "fd00:ec2::254", "4000::1"),
]


@each_case("address", _SPECIAL)
def test_special_addresses_stay_forbidden_despite_the_allow_list(address: str, settings: Any) -> None:
    host = f"[{address}]" if ":" in address else address
    settings.FAIRSHARE_OUTBOUND_ALLOW = [f"{host}:443", "name.example.org:443"]
    assert kind_of(ipaddress.ip_address(address)) == "closed"
    with pytest.raises(Refused):
        fetch(f"https://{host}/", resolve=names)
    with pytest.raises(Refused):
        fetch("https://name.example.org/", resolve=lambda _host, _port: [address])


@pytest.mark.parametrize("address", ["8.8.8.8", "1.1.1.1", "2606:4700:4700::1111", "2a00:1450:400f::200e"])
def test_public_addresses_are_allowed(address: str) -> None:
    assert kind_of(ipaddress.ip_address(address)) == "public"


@pytest.mark.parametrize(
    "address", ["10.0.0.1", "172.20.0.1", "192.168.0.1", "127.0.0.1", "100.64.0.1", "::1", "fd12::1"]
)
def test_private_addresses_are_allowed_per_host_and_port(address: str, settings: Any) -> None:
    assert kind_of(ipaddress.ip_address(address)) == "private"
    host = f"[{address}]" if ":" in address else address
    settings.FAIRSHARE_OUTBOUND_ALLOW = [f"{host}:8443"]
    assert target_of(f"https://{host}:8443/").port == 8443
    with pytest.raises(Refused, match="FAIRSHARE_OUTBOUND_ALLOW"):
        target_of(f"https://{host}/")


def test_an_allowed_target_does_not_allow_other_names_of_its_address(serve: Serve, settings: Any) -> None:
    port = serve(answering(OK), allowed=False)
    settings.FAIRSHARE_OUTBOUND_ALLOW = [f"slurm.example.org:{port}"]
    ask: dict[str, Any] = {"resolve": lambda _host, _port: ["127.0.0.1"]}
    assert fetch(f"http://slurm.example.org:{port}/", **ask).body == b"hello"
    for other in (
        f"http://other.example.org:{port}/",
        f"http://127.0.0.1:{port}/",
        f"http://slurm.example.org:{port + 1}/",
    ):
        with pytest.raises(Refused, match="FAIRSHARE_OUTBOUND_ALLOW"):
            fetch(other, **ask)


def test_a_name_is_resolved_once_against_rebinding(
    connects: list[tuple[str, int]],
) -> None:
    """Rebinding: public when it is checked, this machine when it is connected to."""
    answers = [["93.184.215.14"], ["127.0.0.1"], ["127.0.0.1"]]
    asked: list[str] = []

    def rebinding(host: str, port: int) -> list[str]:
        asked.append(host)
        return answers.pop(0)

    with pytest.raises(Unreachable):
        fetch("https://rebind.example.org/", resolve=rebinding)
    assert asked == ["rebind.example.org"]
    assert connects == [("93.184.215.14", 443)]


def test_one_private_address_refuses_all_addresses_of_a_name(connects: list[tuple[str, int]]) -> None:
    answers = [["8.8.8.8", "127.0.0.1"], ["127.0.0.1", "8.8.8.8"]]
    for _ in range(2):
        with pytest.raises(Refused):
            fetch("https://mixed.example.org/", resolve=lambda _host, _port: answers.pop())
    assert connects == []


def test_the_next_address_is_tried_if_one_does_not_answer(connects: list[tuple[str, int]]) -> None:
    with pytest.raises(Unreachable):
        fetch("https://two.example.org/", resolve=lambda _host, _port: ["2606:4700::1", "8.8.8.8"])
    assert [address for address, _ in connects] == ["2606:4700::1", "8.8.8.8"]


def test_a_hanging_name_server_respects_the_deadline() -> None:
    released = threading.Event()
    began = time.monotonic()
    with pytest.raises(Unreachable) as late:
        fetch(
            "https://slow.example.org/",
            limits=Limits(total_s=0.2),
            resolve=lambda _host, _port: [str(released.wait(20))],
        )
    assert late.value.code == "too_slow"
    assert time.monotonic() - began < 5
    released.set()


def test_the_host_header_is_the_host_of_the_address(serve: Serve, settings: Any) -> None:
    seen: list[bytes] = []
    port = serve(answering(OK, seen=seen), allowed=False)
    settings.FAIRSHARE_OUTBOUND_ALLOW = [f"slurm.example.org:{port}"]
    answer = fetch(
        f"http://slurm.example.org:{port}/a?b=c", headers={"X-Word": "secret"}, resolve=lambda _h, _p: ["127.0.0.1"]
    )
    assert (answer.status, answer.body) == (200, b"hello")
    lines = seen[0].decode().split("\r\n")
    assert lines[0] == "GET /a?b=c HTTP/1.1"
    assert f"Host: slurm.example.org:{port}" in lines
    assert "X-Word: secret" in lines


def test_proxies_of_the_environment_are_not_used(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    proxied: list[bytes] = []
    proxy = serve(answering(OK, seen=proxied))
    for name in ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{proxy}")
    port = serve(answering(OK))
    assert fetch(f"http://127.0.0.1:{port}/").body == b"hello"
    assert proxied == []


@pytest.mark.parametrize("where", ["head", "body", "silence"])
@pytest.mark.fault("F22")
def test_a_slow_response_respects_the_total_deadline(where: str, serve: Serve) -> None:
    def trickle(connection: socket.socket, closed: threading.Event) -> None:
        request_of(connection)
        if where == "body":
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
        if where == "head":
            connection.sendall(b"HTTP/1.1 200 OK\r\nX: ")
        while not closed.wait(0.05):
            if where != "silence":
                connection.sendall(b"x")

    port = serve(trickle)
    began = time.monotonic()
    with pytest.raises(Unreachable) as late:
        fetch(f"http://127.0.0.1:{port}/", limits=Limits(total_s=0.6))
    assert late.value.code == "too_slow"
    assert time.monotonic() - began < 5


def test_redirects_share_one_deadline(serve: Serve) -> None:
    def slowly(connection: socket.socket, closed: threading.Event) -> None:
        request_of(connection)
        closed.wait(0.25)
        connection.sendall(redirect("/again"))

    port = serve(slowly)
    began = time.monotonic()
    with pytest.raises(Unreachable) as late:
        fetch(f"http://127.0.0.1:{port}/", limits=Limits(total_s=0.6, redirects=100))
    assert late.value.code == "too_slow"
    assert time.monotonic() - began < 5


@pytest.mark.fault("F22")
def test_a_loop_of_redirects_ends(serve: Serve) -> None:
    seen: list[bytes] = []
    port = serve(answering(redirect("/again"), seen=seen))
    with pytest.raises(Unreachable, match="more than 3 times"):
        fetch(f"http://127.0.0.1:{port}/", limits=Limits(redirects=3))
    assert len(seen) == 4


def test_a_redirect_is_returned_if_none_is_followed(serve: Serve) -> None:
    port = serve(answering(redirect("http://127.0.0.1:1/")))
    assert fetch(f"http://127.0.0.1:{port}/").status == 302


def test_redirects_never_send_secrets_to_another_host(serve: Serve) -> None:
    here: list[bytes] = []
    there: list[bytes] = []
    other = serve(answering(OK, seen=there))
    port = serve(answering(redirect("/moved"), redirect(f"http://127.0.0.1:{other}/new"), seen=here))
    answer = fetch(f"http://127.0.0.1:{port}/", headers={"X-Token": "secret"}, limits=Limits(redirects=3))
    assert (answer.body, answer.url) == (b"hello", f"http://127.0.0.1:{other}/new")
    assert [b"secret" in request for request in here] == [True, True]
    assert [b"secret" in request for request in there] == [False]


def test_a_post_is_never_redirected(serve: Serve) -> None:
    seen: list[bytes] = []
    port = serve(answering(redirect("/again", 307), seen=seen))
    answer = fetch(f"http://127.0.0.1:{port}/", method="POST", body=b"{}", limits=Limits(redirects=3))
    assert (answer.status, len(seen)) == (307, 1)


def test_https_never_redirects_to_http(serve: Serve, certified: tuple[ssl.SSLContext, ssl.SSLContext]) -> None:
    ours, theirs = certified
    plain = serve(answering(OK))
    port = serve(answering(redirect(f"http://127.0.0.1:{plain}/")), context=theirs)
    with pytest.raises(Refused, match="not followed"):
        fetch(f"https://127.0.0.1:{port}/", limits=Limits(redirects=1), tls=ours)


@pytest.mark.parametrize("head", [b"Content-Length: 900000\r\n", b"Transfer-Encoding: chunked\r\n", b""])
@pytest.mark.fault("F22")
def test_a_huge_body_is_rejected_at_the_limit(head: bytes, serve: Serve) -> None:
    def endless(connection: socket.socket, closed: threading.Event) -> None:
        request_of(connection)
        connection.sendall(b"HTTP/1.1 200 OK\r\n" + head + b"\r\n")
        while not closed.is_set():
            connection.sendall(b"1000\r\n" + b"x" * 4096 + b"\r\n" if b"chunked" in head else b"x" * 4096)

    port = serve(endless)
    kept = io.BytesIO()
    with pytest.raises(TooLarge):
        fetch(f"http://127.0.0.1:{port}/", limits=Limits(n_bytes=100_000), into=kept)
    assert len(kept.getvalue()) <= 100_000


@pytest.mark.parametrize("flood", [b"HTTP/1.1 100 Continue\r\n\r\n", b"X-Header: " + b"x" * 60_000 + b"\r\n"])
def test_unbounded_headers_are_rejected(flood: bytes, serve: Serve) -> None:
    def endless(connection: socket.socket, closed: threading.Event) -> None:
        request_of(connection)
        if flood.startswith(b"X"):
            connection.sendall(b"HTTP/1.1 200 OK\r\n")
        while not closed.is_set():
            connection.sendall(flood)

    port = serve(endless)
    with pytest.raises((TooLarge, Unreachable)):
        fetch(f"http://127.0.0.1:{port}/", limits=Limits(n_bytes=1000, total_s=20))


def test_a_compression_bomb_is_stopped(serve: Serve) -> None:
    packer = zlib.compressobj(9, wbits=31)
    bomb = b"".join(packer.compress(bytes(1024**2)) for _ in range(64)) + packer.flush()
    assert len(bomb) < 100_000
    head = f"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {len(bomb)}\r\n\r\n".encode()
    port = serve(answering(head + bomb))
    kept = io.BytesIO()
    with pytest.raises(TooLarge, match="without measure"):
        fetch(f"http://127.0.0.1:{port}/", limits=Limits(n_bytes=10**9), into=kept)
    assert len(kept.getvalue()) < 12 * 1024**2
    with pytest.raises(TooLarge):
        fetch(f"http://127.0.0.1:{port}/", limits=Limits(n_bytes=200_000))


def test_compressed_responses_are_decoded_and_broken_ones_reported(serve: Serve) -> None:
    whole = gzip.compress(b"hello" * 1000)

    def packed(body: bytes) -> int:
        head = f"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {len(body)}\r\n\r\n".encode()
        return serve(answering(head + body))

    assert fetch(f"http://127.0.0.1:{packed(whole)}/").body == b"hello" * 1000
    assert fetch(f"http://127.0.0.1:{packed(whole + whole)}/").body == b"hello" * 2000
    for broken in (whole[:-4], whole + whole[:-4], whole + b"more", b"no gzip at all"):
        with pytest.raises(Unreachable):
            fetch(f"http://127.0.0.1:{packed(broken)}/")


def test_an_unrequested_encoding_is_refused(serve: Serve) -> None:
    port = serve(answering(b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip, gzip\r\nContent-Length: 0\r\n\r\n"))
    with pytest.raises(Unreachable, match="coding"):
        fetch(f"http://127.0.0.1:{port}/")


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzzz\r\nhello",
        b"220 smtp.example.org ready\r\n",
        b"\x00\xff" * 100,
        b"",
    ],
)
def test_truncated_and_non_http_responses_are_errors_without_retry(answer: bytes, serve: Serve) -> None:
    port = serve(answering(answer))
    with pytest.raises(Unreachable) as refusal:
        fetch(f"http://127.0.0.1:{port}/")
    assert "smtp" not in refusal.value.message


def test_a_header_with_a_line_end_is_neither_sent_nor_shown(serve: Serve) -> None:
    port = serve(answering(OK))
    with pytest.raises(Unreachable) as refusal:
        fetch(f"http://127.0.0.1:{port}/", headers={"X-Token": "secret\r\nX: y"})
    assert "secret" not in refusal.value.message


def test_the_certificate_is_checked_against_the_name_not_the_address(
    serve: Serve, certified: tuple[ssl.SSLContext, ssl.SSLContext], settings: Any
) -> None:
    ours, theirs = certified
    asked_names: list[str] = []
    theirs.sni_callback = lambda _sock, name, _context: asked_names.append(name)
    port = serve(answering(OK), context=theirs)
    hosts = ("slurm.example.org", "other.example.org")
    settings.FAIRSHARE_OUTBOUND_ALLOW = [f"{host}:{port}" for host in hosts]

    def ask(host: str, **given: Any) -> bytes:
        return fetch(f"https://{host}:{port}/", resolve=lambda _h, _p: ["127.0.0.1"], **given).body

    assert ask("slurm.example.org", tls=ours) == b"hello"
    with pytest.raises(Unreachable, match="certificate"):
        ask("other.example.org", tls=ours)
    with pytest.raises(Unreachable, match="certificate"):
        ask("slurm.example.org")
    assert asked_names[:2] == ["slurm.example.org", "other.example.org"]
    theirs.sni_callback = None


def test_a_configured_certificate_authority_is_trusted(serve: Serve, trusted: ssl.SSLContext) -> None:
    port = serve(answering(OK), context=trusted)
    assert fetch(f"https://127.0.0.1:{port}/").body == b"hello"


_DOORS = {"socket", "ssl", "http.client", "urllib.request", "urllib3", "requests", "httpx", "httpcore", "aiohttp"}
_DOORS |= {"ftplib", "smtplib", "poplib", "imaplib", "telnetlib", "xmlrpc.client", "asyncio"}
# Addresses that the operator gives in settings, not a user in a form: this service's own port and pages, the
# directory people sign in with (which names its certificates), the issuer (whose failures are reported).
_BY_SETTINGS = {
    "cli/stack/supervisor.py",
    "cli/doctor/outside.py",  # tries what settings name
    "cli/management/commands/up.py",
    "cli/demo/instances.py",  # the demo's own instances, on loopback
    "cli/demo/running.py",
    "cli/management/commands/demo.py",
    "cli/demo/site.py",
    "accounts/sign_in/backends.py",
    "pages/sign_in/oidc.py",
    "core/mail_server.py",  # the mail server
}


def test_no_other_module_opens_connections() -> None:
    others = []
    for path in sorted(APPS.rglob("*.py")):
        place = path.relative_to(APPS).as_posix()
        if place == "core/outbound.py" or place in _BY_SETTINGS:
            continue
        text = path.read_text(encoding="utf-8")
        if not any(all(part in text for part in door.split(".")) for door in _DOORS):
            continue  # who imports a module writes its name: most files need no parsing
        for node in ast.walk(ast.parse(text)):
            found: set[str] = set()
            if isinstance(node, ast.Import):
                found = {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                found = {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
            if found & _DOORS:
                others.append(f"{place}: {sorted(found & _DOORS)}")
    assert others == []


_LARGE = b"x" * 10_000_000  # more than the buffers of two sockets take


@pytest.mark.parametrize("status", [401, 413])
@pytest.mark.parametrize("encrypted", [False, True], ids=["plain", "tls"])
def test_an_early_answer_to_a_large_body_is_the_answer(
    status: int, encrypted: bool, serve: Serve, certified: tuple[ssl.SSLContext, ssl.SSLContext]
) -> None:
    """RFC 9112 9.5: the other side may answer, and close, before it has read all of the body."""
    ours, theirs = certified
    handler = answering_early(f"HTTP/1.1 {status} No\r\nContent-Length: 2\r\n\r\nno".encode())
    port = serve(handler, context=theirs if encrypted else None, allowed=False)
    settings_of_name = f"slurm.example.org:{port}"
    with override_settings(FAIRSHARE_OUTBOUND_ALLOW=[settings_of_name]):
        answer = fetch(
            f"{'https' if encrypted else 'http'}://{settings_of_name}/",
            method="POST",
            body=_LARGE,
            resolve=lambda _host, _port: ["127.0.0.1"],
            tls=ours,
        )
    assert (answer.status, answer.body) == (status, b"no")


def test_a_connection_that_is_closed_while_the_body_is_sent_is_no_answer(serve: Serve) -> None:
    port = serve(answering_early(b""))
    with pytest.raises(Unreachable) as closed:
        fetch(f"http://127.0.0.1:{port}/", method="POST", body=_LARGE)
    assert closed.value.code == "bad_answer"
