"""Requests through the site's proxy: what it is asked for, what stays closed, and whose fault a failure is."""

from __future__ import annotations

import base64
import json
import socket
import ssl
import threading
import time
from typing import Any

import pytest

from apps.core import masking
from apps.core.addresses import Refused
from apps.core.errors import Unavailable
from apps.core.outbound import Limits, Unreachable, fetch
from apps.core.outbound_proxy import parse_proxy
from apps.usage.sources.command import check_collecting
from tests.core.connect_proxy import PASSWORD, QUOTED, ConnectProxy, leading_to, running
from tests.core.hostile_addresses import URLS
from tests.core.outbound_servers import OK, Serve, answering, redirect, request_of
from tests.core.test_outbound import names
from tests.each_case import each_case
from tests.examples import first

OUTSIDE = "https://slurm.example.org/x"


@pytest.fixture
def outside(squid: Any, serve: Serve) -> Any:
    """A server outside, which the proxy reaches."""
    squid.seen = []
    squid.lead(serve(answering(OK, seen=squid.seen), allowed=False))
    return squid


def test_the_proxy_gets_the_name_and_only_the_target_gets_the_request(outside: Any) -> None:
    assert fetch(OUTSIDE, headers={"X-Own": "1"}).body == b"hello"
    assert outside.asked == ["CONNECT slurm.example.org:443 HTTP/1.1"]
    assert b"X-Own: 1" in outside.seen[0]
    assert b"Proxy-Authorization" not in outside.seen[0]


def test_a_proxy_is_reached_by_tls_too(outside: Any, trusted: ssl.SSLContext, settings: Any) -> None:
    body = b"x" * 1_000_000
    with running(ConnectProxy(outside.leads, demands_credentials=True, context=trusted)) as proxy:
        settings.FAIRSHARE_OUTBOUND_PROXY = proxy.url
        answer = fetch(OUTSIDE, method="POST", body=body)
    assert answer.body == b"hello"
    assert proxy.asked == ["CONNECT slurm.example.org:443 HTTP/1.1"]


def test_the_certificate_of_the_target_is_checked_through_the_proxy(outside: Any) -> None:
    outside.leads["other.example.org:443"] = outside.leads["slurm.example.org:443"]
    with pytest.raises(Unreachable, match="certificate") as refused:
        fetch("https://other.example.org/")
    assert refused.value.code == "bad_certificate"


def test_allowed_targets_are_connected_directly(squid: Any, serve: Serve) -> None:
    port = serve(answering(OK))
    assert fetch(f"http://127.0.0.1:{port}/").body == b"hello"
    assert squid.asked == []


@each_case("url", URLS)
def test_the_proxy_is_not_asked_for_a_forbidden_address(url: str, outside: Any) -> None:
    outside.asked.clear()  # of other cases
    with pytest.raises((Refused, Unreachable)):
        fetch(url, resolve=names)
    closed = [line for line in outside.asked if line.split(" ")[1].rpartition(":")[0].strip("[]")[0].isdigit()]
    assert closed == []


def test_a_name_with_a_private_address_here_is_not_sent_to_the_proxy(outside: Any) -> None:
    with pytest.raises(Refused):
        fetch(OUTSIDE, resolve=lambda _host, _port: ["93.184.216.34", "10.0.0.1"])
    assert outside.asked == []


@pytest.mark.deep
def test_a_name_server_that_hangs_costs_three_seconds_at_most(outside: Any) -> None:
    closed = threading.Event()

    def hang(_host: str, _port: int) -> list[str]:
        closed.wait(20)
        return []

    began = time.monotonic()
    try:
        assert fetch(OUTSIDE, resolve=hang).body == b"hello"
    finally:
        closed.set()
    assert time.monotonic() - began < 10


def test_a_redirect_through_the_proxy_is_checked_like_any_target(outside: Any, serve: Serve) -> None:
    outside.lead(serve(answering(redirect("https://10.0.0.1/")), allowed=False))
    with pytest.raises(Refused):
        fetch(OUTSIDE, limits=Limits(redirects=3))
    assert len(outside.asked) == 1


_ANSWERS = {
    "other credentials": (b"HTTP/1.1 407 no\r\n\r\nsecret text", "proxy_credentials"),
    "refused": (b"HTTP/1.1 403 no\r\n\r\nsecret text", "proxy_refused"),
    "unreachable": (b"HTTP/1.0 504 secret text\r\n\r\n", "proxy_unreachable"),
    "another protocol": (b"SSH-2.0-OpenSSH\r\n\r\n", "proxy_bad_answer"),
    "a page instead": (b"<html>secret text</html>\r\n\r\n", "proxy_bad_answer"),
    "bytes behind the head": (b"HTTP/1.1 200 ok\r\n\r\nsecret text", "proxy_bad_answer"),
    "cut": (b"HTTP/1.1 200 ok\r\n", "proxy_bad_answer"),
    "an endless head": (b"HTTP/1.1 200 ok\r\n" + b"x: y\r\n" * 10_000, "proxy_bad_answer"),
}


@pytest.mark.parametrize("case", _ANSWERS)
def test_a_fault_of_the_proxy_is_named_as_its_own(case: str, serve: Serve, settings: Any) -> None:
    sent, code = _ANSWERS[case]
    port = serve(answering(sent), allowed=False)
    settings.FAIRSHARE_OUTBOUND_PROXY = f"http://fairshare:{QUOTED}@127.0.0.1:{port}"
    with pytest.raises(Unreachable) as failed:
        fetch(OUTSIDE, resolve=lambda _host, _port: ["93.184.216.34"])
    assert failed.value.code == code
    assert f"The proxy 127.0.0.1:{port} (FAIRSHARE_OUTBOUND_PROXY)" in str(failed.value)
    assert "secret" not in str(failed.value)
    assert QUOTED not in str(failed.value)


def test_wrong_credentials_are_named(outside: Any, settings: Any) -> None:
    settings.FAIRSHARE_OUTBOUND_PROXY = f"http://fairshare:wrong@127.0.0.1:{outside.port}"
    with pytest.raises(Unreachable) as failed:
        fetch(OUTSIDE)
    assert failed.value.code == "proxy_credentials"


@pytest.mark.parametrize("scheme", first(1, ["http", "https"]))
def test_a_proxy_that_hangs_ends_with_the_deadline(scheme: str, serve: Serve, settings: Any) -> None:
    def hang(connection: socket.socket, closed: threading.Event) -> None:
        request_of(connection)
        closed.wait(20)

    settings.FAIRSHARE_OUTBOUND_PROXY = f"{scheme}://127.0.0.1:{serve(hang, allowed=False)}"
    with pytest.raises(Unreachable, match="proxy") as late:
        fetch(OUTSIDE, limits=Limits(total_s=3), resolve=lambda _host, _port: ["93.184.216.34"])
    assert late.value.code == "proxy_too_slow"  # the proxy closes after 20 s: that were another code


def test_a_proxy_that_is_away_is_named(settings: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    settings.FAIRSHARE_OUTBOUND_PROXY = f"http://127.0.0.1:{port}"
    with pytest.raises(Unreachable, match="can't be reached") as away:
        fetch(OUTSIDE, resolve=lambda _host, _port: ["93.184.216.34"])
    assert away.value.code == "proxy_down"


def test_a_proxy_by_tls_is_verified(
    serve: Serve, certified: tuple[ssl.SSLContext, ssl.SSLContext], settings: Any
) -> None:
    settings.FAIRSHARE_OUTBOUND_PROXY = f"https://127.0.0.1:{serve(leading_to(1), context=certified[1], allowed=False)}"
    with pytest.raises(Unreachable, match="certificate") as refused:
        fetch(OUTSIDE, resolve=lambda _host, _port: ["93.184.216.34"])
    assert refused.value.code == "proxy_certificate"


_BAD = [
    "proxy.example.org:3128",
    "socks5://proxy.example.org:1080",
    "http://proxy.example.org",
    "http://proxy.example.org:0",
    "http://proxy.example.org:99999",
    "http://:3128",
    "http://fairshare:hunter2-secret/x@proxy.example.org:3128",
    "http://:hunter2-secret@proxy.example.org:3128",
    "http://a%3Ab:hunter2-secret@proxy.example.org:3128",
    "http://proxy.example.org:3128/path",
    "http://proxy.example.org:3128\r\nX: y",
    "http://[proxy:3128",
]


@pytest.mark.parametrize("text", _BAD)
def test_a_bad_setting_is_a_check_and_connects_nowhere(text: str, settings: Any, connects: list[Any]) -> None:
    settings.FAIRSHARE_OUTBOUND_PROXY = text
    (found,) = check_collecting(None)
    assert found.id == "usage.E005"
    assert "hunter2" not in f"{found.msg} {found.hint}"
    with pytest.raises(Unavailable) as refused:
        fetch(OUTSIDE, resolve=lambda _host, _port: ["93.184.216.34"])
    assert refused.value.code == "bad_proxy_setting"
    assert connects == []


def test_credentials_are_masked_in_each_form(settings: Any) -> None:
    settings.FAIRSHARE_OUTBOUND_PROXY = f"https://fairshare:{QUOTED}@proxy.example.org:3129"
    proxy = parse_proxy(settings.FAIRSHARE_OUTBOUND_PROXY)
    encoded = base64.b64encode(f"fairshare:{PASSWORD}".encode()).decode()
    assert proxy.authorization == f"Basic {encoded}"
    assert PASSWORD not in repr(proxy)
    assert QUOTED not in repr(proxy)
    text = f"{settings.FAIRSHARE_OUTBOUND_PROXY} {PASSWORD} {encoded} {proxy.authorization} {json.dumps(PASSWORD)}"
    for shown in (masking.mask(text), masking.mask_values(text)):
        assert not any(secret in shown for secret in (PASSWORD, QUOTED, encoded)), shown
