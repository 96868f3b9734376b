"""The only module that connects to addresses entered by users.

A name is resolved once, all its addresses are checked, and the connection goes to one of those, under the name (Host
header, TLS and its certificate). Bytes, time and redirects are bounded. `http.client` over an own socket does exactly
this: without proxies from the environment, connection pool or second name resolution.

Through the site's proxy (FAIRSHARE_OUTBOUND_PROXY) it opens a tunnel to the name, which the proxy resolves. An address
that is closed, and a name that has one here, are refused before the proxy is asked.

A unix socket is connected to by `fetch_by_socket` alone, never by a URL: only where the operator lists its path, where
others can't have put it, without proxy and without following anything.
"""

from __future__ import annotations

import http.client
import io
import ipaddress
import os
import re
import socket
import ssl
import stat
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http.client import HTTPResponse
from typing import Any, BinaryIO, cast
from urllib.parse import urljoin

from django.conf import settings

from apps.core.addresses import (
    Address,
    Refused,
    Target,
    is_allowed,
    literal_of,
    refuse_closed,
    socket_target,
    target_of,
)
from apps.core.errors import TooLarge, Unavailable
from apps.core.outbound_proxy import Proxy, proxy_for
from apps.core.packing import Bounds, Damaged, Expands, Unpacker

Resolve = Callable[[str, int], Sequence[str]]

MOST_ADDRESSES_OF_HOST = 16
MOST_HEAD_BYTES = 256 * 1024  # limit of status lines, headers and chunk frames, beside the body
MOST_ANSWER_EXPANSION = 100
FREE_EXPANSION_BYTES = 1024 * 1024
_READ = 64 * 1024
_PIECE = 16 * 1024  # a record of TLS
_MOST_TUNNEL_BYTES = 16 * 1024  # of a proxy's answer to CONNECT
_OWN_LOOK_UP_S = 3.0  # behind a proxy: many such networks have no name server for names outside
_REDIRECTS = (301, 302, 303, 307, 308)


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of a fetch. n_bytes: of the body, as sent and unpacked. total_s: for everything, including redirects."""

    n_bytes: int = 32 * 1024**2
    total_s: float = 30.0
    redirects: int = 0


@dataclass(frozen=True, slots=True)
class Answer:
    """A response; `body` is empty if it was written to a file."""

    status: int
    headers: Mapping[str, str]
    url: str
    body: bytes = field(repr=False, default=b"")


class Unreachable(Unavailable):
    """The other side didn't respond, or not correctly."""

    code = "unreachable"


def fetch(
    url: str,
    *,
    method: str = "GET",
    headers: Mapping[str, str] | None = None,
    body: bytes | None = None,
    limits: Limits | None = None,
    into: BinaryIO | None = None,
    resolve: Resolve | None = None,
    tls: ssl.SSLContext | None = None,
) -> Answer:
    """Send a request; follow redirects of a GET within the limits, and check each target.

    Own headers are sent to the first host only.

    Raises:
        Refused: the address, or that of a redirect, is not allowed.
        Unreachable: no response, too slow, or interrupted.
        TooLarge: more bytes than the limit, sent or unpacked.
    """
    limits = limits or Limits()
    deadline = Deadline(limits.total_s)
    target = target_of(url)
    sent = dict(headers or {})
    for n_followed in range(limits.redirects + 1):
        with _send_request(target, method, sent, body, deadline, limits, resolve or look_up, tls) as exchange:
            onward = _redirect_target(target, url, exchange.response) if method == "GET" and limits.redirects else None
            if onward is None:
                return exchange.answer(url, limits, into)
        if n_followed == limits.redirects:
            break
        url, next_target = onward
        if next_target[:3] != target[:3]:
            _refuse_redirect_to_exception(target, next_target)
            sent = {}
        target = next_target
    raise Unreachable(f"{target.place} redirects more than {limits.redirects} times.", code="too_many_redirects")


def fetch_by_socket(
    address: str,
    path: str,
    *,
    headers: Mapping[str, str] | None = None,
    limits: Limits | None = None,
    into: BinaryIO | None = None,
) -> Answer:
    """Send a GET of the path through the unix socket `unix:/path`; a redirect is an answer like any other.

    Raises:
        Refused: the operator doesn't list the address, or it is no socket, or all users may replace it.
        Unreachable: no response, too slow, or interrupted.
        TooLarge: more bytes than the limit, sent or unpacked.
    """
    limits = limits or Limits()
    target = socket_target(address, path)
    deadline = Deadline(limits.total_s)
    with _send_request(target, "GET", dict(headers or {}), None, deadline, limits, look_up, None) as exchange:
        return exchange.answer(f"{address}{path}", limits, into)


def _refuse_redirect_to_exception(source: Target, onward: Target) -> None:
    """Reject a redirect to an address that only the operator's exceptions allow; these are for entered addresses.

    Raises:
        Refused: from an address that isn't on the operator's list to one that is.
    """
    if is_allowed(onward) and not is_allowed(source):
        raise Refused(
            f"{source.place} redirects to {onward.place}, which FAIRSHARE_OUTBOUND_ALLOW opens for this site's own use."
        )


def look_up(host: str, port: int) -> list[str]:
    """All addresses of a name. A link-local address keeps its scope, so that it is rejected."""
    addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(_with_scope(sockaddr) for *_, sockaddr in addresses))


class Deadline:
    """A deadline by the monotonic clock."""

    def __init__(self, total_s: float) -> None:
        self._end = time.monotonic() + total_s
        self.total_s = total_s

    def left_s(self) -> float:
        """Seconds left.

        Raises:
            Unreachable: none are left.
        """
        left = self._end - time.monotonic()
        if left <= 0:
            raise Unreachable(f"No whole answer within {self.total_s:g} s.", code="too_slow")
        return left


class _Incoming(io.RawIOBase):
    """Counts received bytes, and reads each within the deadline."""

    def __init__(self, sock: socket.socket, deadline: Deadline, most: int) -> None:
        self._sock, self._deadline, self._left = sock, deadline, most

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._sock.settimeout(self._deadline.left_s())
        n = self._sock.recv_into(buffer)
        self._left -= n
        if self._left < 0:
            raise TooLarge("The answer is larger than agreed.", code="answer_too_large")
        return n


class _Wire:
    """The part of a socket that `http.client` uses."""

    def __init__(self, sock: socket.socket, deadline: Deadline, most: int) -> None:
        self._sock, self._deadline, self._most = sock, deadline, most

    def sendall(self, data: bytes) -> None:
        """Send in pieces, because under TLS each call has the socket's full timeout."""
        for at in range(0, len(data), _PIECE):
            self._sock.settimeout(self._deadline.left_s())
            self._sock.sendall(data[at : at + _PIECE])

    def makefile(self, mode: str) -> io.BufferedReader:
        return io.BufferedReader(_Incoming(self._sock, self._deadline, self._most))

    def close(self) -> None:
        """Do nothing: `http.client` closes the socket before the body is read; `_Exchange` closes it."""


class _Exchange:
    """One request and the start of its response."""

    def __init__(self, target: Target, sock: socket.socket, connection: http.client.HTTPConnection) -> None:
        self.target, self._sock, self._connection = target, sock, connection
        self.response: HTTPResponse

    def __enter__(self) -> _Exchange:
        return self

    def __exit__(self, *_error: object) -> None:
        self._connection.close()
        self._sock.close()

    def ask(self, method: str, headers: Mapping[str, str], body: bytes | None) -> None:
        own = {"Host": _host_header(self.target), "Accept-Encoding": "gzip", "Connection": "close"}
        with _describe_error(self.target):
            broken: OSError | None = None
            try:
                self._connection.request(method, self.target.path, body=body, headers={**headers, **own})
            except (ConnectionError, ssl.SSLEOFError) as error:
                broken = error  # the answer may have come before all of the body was read (RFC 9112 9.5)
            try:
                self.response = self._connection.getresponse()
            except (ConnectionError, ssl.SSLError, http.client.HTTPException) as error:
                raise broken or error from error

    def answer(self, url: str, limits: Limits, into: BinaryIO | None) -> Answer:
        kept = into if into is not None else io.BytesIO()
        with _describe_error(self.target):
            for data in _unpacked(self.response, self.target, limits.n_bytes):
                kept.write(data)
        headers = {name.lower(): value for name, value in self.response.getheaders()}
        body = kept.getvalue() if into is None and isinstance(kept, io.BytesIO) else b""
        return Answer(self.response.status, headers, url, body)


def _send_request(
    target: Target,
    method: str,
    headers: Mapping[str, str],
    body: bytes | None,
    deadline: Deadline,
    limits: Limits,
    resolve: Resolve,
    tls: ssl.SSLContext | None,
) -> _Exchange:
    proxy = None if target.socket else proxy_for(target)
    if target.socket:
        sock = _connected_to_socket(target, deadline)
    elif proxy is None:
        sock = _connected(target, checked_addresses(target, deadline, resolve), deadline)
    else:
        _refuse_closed_name(target, deadline, resolve)
        sock = _tunnel(proxy, target, deadline)
    try:
        if target.scheme == "https":
            with _describe_error(target):
                sock = _encrypted(sock, tls or _trusting(), target.host, deadline)
        wire = _Wire(sock, deadline, limits.n_bytes + MOST_HEAD_BYTES)
        connection = http.client.HTTPConnection(target.host, target.port)
        connection.sock = cast(Any, wire)
        exchange = _Exchange(target, sock, connection)
        exchange.ask(method, headers, body)
    except BaseException:
        sock.close()
        raise
    return exchange


def _trusting() -> ssl.SSLContext:
    return ssl.create_default_context(cafile=settings.FAIRSHARE_OUTBOUND_CA_FILE or None)


def _encrypted(sock: socket.socket, context: ssl.SSLContext, host: str, deadline: Deadline) -> socket.socket:
    sock.settimeout(deadline.left_s())
    if isinstance(sock, ssl.SSLSocket):  # of a proxy: `wrap_socket` would speak past its encryption
        from urllib3.util.ssltransport import SSLTransport  # few sites need it

        return cast(socket.socket, SSLTransport(cast(Any, _Timed(sock, deadline)), context, host))
    return context.wrap_socket(sock, server_hostname=host)


class _Timed:
    """The part of a proxy's socket that `SSLTransport` uses; each call is within the deadline, also of a handshake."""

    def __init__(self, sock: ssl.SSLSocket, deadline: Deadline) -> None:
        self._sock, self._deadline = sock, deadline
        self.settimeout, self.close = sock.settimeout, sock.close

    def recv(self, n_bytes: int) -> bytes:
        self._sock.settimeout(self._deadline.left_s())
        return self._sock.recv(n_bytes)

    def sendall(self, data: bytes) -> None:
        self._sock.settimeout(self._deadline.left_s())
        self._sock.sendall(data)


def _refuse_closed_name(target: Target, deadline: Deadline, resolve: Resolve) -> None:
    """Refuse a target with a closed address; a name that is unknown on this host is checked by the proxy alone.

    Raises:
        Refused: an address of it isn't allowed.
    """
    try:
        checked_addresses(target, Deadline(min(_OWN_LOOK_UP_S, deadline.left_s())), resolve)
    except Unreachable:
        deadline.left_s()


def _tunnel(proxy: Proxy, target: Target, deadline: Deadline) -> socket.socket:
    """A connection to the target through the proxy (CONNECT, RFC 9110 9.3.6).

    Raises:
        Unreachable: the proxy doesn't answer, refuses, or speaks something else; with its address, without its text.
    """
    name = f"The proxy {proxy.place} (FAIRSHARE_OUTBOUND_PROXY)"
    sock: socket.socket | None = None
    try:
        hop = Target(proxy.scheme, proxy.host, proxy.port, "/")
        addresses = [ipaddress.ip_address(text) for text in _resolved(hop, deadline, look_up)]
        sock = _connected_to_any(addresses, hop, deadline)
        if proxy.scheme == "https":
            sock = _encrypted(sock, _trusting(), proxy.host, deadline)
        lines = [f"CONNECT {target.place} HTTP/1.1", f"Host: {target.place}"]
        lines += [f"{field}: {value}" for field, value in proxy.headers.items()]
        sock.settimeout(deadline.left_s())
        sock.sendall("".join(f"{line}\r\n" for line in [*lines, ""]).encode("ascii"))
        status = _tunnel_status(sock, deadline)
    except ssl.SSLCertVerificationError as error:
        problem = Unreachable(f"{name} has a certificate that isn't valid for it.", code="proxy_certificate")
        raise problem from error
    except (OSError, ValueError, Unreachable) as error:
        if isinstance(error, TimeoutError) or getattr(error, "code", "") == "too_slow":
            raise Unreachable(f"{name} gave no answer within {deadline.total_s:g} s.", code="proxy_too_slow") from error
        if isinstance(error, ValueError | ssl.SSLError):
            raise Unreachable(f"{name} doesn't answer as a proxy.", code="proxy_bad_answer") from error
        raise Unreachable(f"{name} can't be reached.", code="proxy_down") from error
    else:
        if 200 <= status <= 299:
            tunnel, sock = sock, None
            return tunnel
    finally:
        if sock is not None:
            sock.close()
    if status == 407:
        raise Unreachable(f"{name} demands other credentials (407).", code="proxy_credentials")
    if status in (502, 503, 504):
        raise Unreachable(f"{name} can't reach {target.place} ({status}).", code="proxy_unreachable")
    raise Unreachable(f"{name} refuses to connect to {target.place} ({status}).", code="proxy_refused")


def _tunnel_status(sock: socket.socket, deadline: Deadline) -> int:
    """The status of the answer to CONNECT. Until the client speaks again, nothing may follow a tunnel's head.

    Raises:
        ValueError: it is no answer of HTTP, or is too long.
    """
    data = b""
    while b"\r\n\r\n" not in data:
        sock.settimeout(deadline.left_s())
        more = sock.recv(4096)
        data += more
        if not more or len(data) > _MOST_TUNNEL_BYTES:
            raise ValueError("no head of an answer")
    line = re.match(rb"HTTP/1\.[01] ([1-5][0-9][0-9])[ \r]", data)
    if line is None or (line[1].startswith(b"2") and not data.endswith(b"\r\n\r\n")):
        raise ValueError("no answer of HTTP")
    return int(line[1])


def checked_addresses(target: Target, deadline: Deadline, resolve: Resolve) -> list[Address]:
    """Resolve the host once; a single address that isn't allowed rejects all."""
    literal = literal_of(target.host)
    texts = [str(literal)] if literal is not None else _resolved(target, deadline, resolve)
    if not texts:
        raise Unreachable(f"{target.host} has no address.", code="unknown_host")
    addresses = []
    for text in texts:
        try:
            address = ipaddress.ip_address(text)
        except ValueError as error:
            raise Refused(f"{target.host} resolves to something that is no address.") from error
        refuse_closed(address, target)
        addresses.append(address)
    return addresses[:MOST_ADDRESSES_OF_HOST]


def _resolved(target: Target, deadline: Deadline, resolve: Resolve) -> list[str]:
    """Resolve in a thread, so that a name server that hangs can't exceed the caller's deadline."""
    answer: list[Sequence[str] | Exception] = []

    def ask() -> None:
        try:
            answer.append(resolve(target.host, target.port))
        except Exception as error:
            answer.append(error)

    thread = threading.Thread(target=ask, daemon=True, name="look-up")
    thread.start()
    thread.join(deadline.left_s())
    if not answer:
        raise Unreachable(f"No whole answer within {deadline.total_s:g} s.", code="too_slow")
    if isinstance(answer[0], Exception):
        raise Unreachable(f"{target.host} is unknown to the name servers.", code="unknown_host") from answer[0]
    return list(answer[0])


def _connected(target: Target, addresses: Sequence[Address], deadline: Deadline) -> socket.socket:
    """Connect to the first checked address that responds."""
    for address in addresses:
        refuse_closed(address, target)
    return _connected_to_any(addresses, target, deadline)


def _connected_to_any(addresses: Sequence[Address], target: Target, deadline: Deadline) -> socket.socket:
    """Connect to the first address that responds; each gets a fraction of the time."""
    problem: OSError | None = None
    for n_tried, address in enumerate(addresses):
        family = socket.AF_INET6 if address.version == 6 else socket.AF_INET
        sock = socket.socket(family, socket.SOCK_STREAM)
        try:
            sock.settimeout(deadline.left_s() / (len(addresses) - n_tried))
            sock.connect((str(address), target.port))
        except OSError as error:
            sock.close()
            problem = error
        except BaseException:
            sock.close()
            raise
        else:
            return sock
    deadline.left_s()
    raise Unreachable(f"{target.place} doesn't answer.") from problem


def _connected_to_socket(target: Target, deadline: Deadline) -> socket.socket:
    """Connect to a unix socket. It is no link, and not in a folder to which all users may write: another socket in
    its place would get the token.

    Raises:
        Refused: something else is at the path, or all users may replace it.
        Unreachable: nothing listens, or this process may not connect.
    """
    try:
        is_socket = stat.S_ISSOCK(os.lstat(target.socket).st_mode)
        is_open = bool(os.stat(os.path.dirname(target.socket)).st_mode & stat.S_IWOTH)
    except OSError as error:
        raise Unreachable(f"{target.place} isn't there, or its folder can't be entered.") from error
    if not is_socket:
        raise Refused(f"{target.place} is no socket.")
    if is_open:
        raise Refused(f"All users may write to the folder of {target.place}: let it listen in a folder of its own.")
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.settimeout(deadline.left_s())
        sock.connect(target.socket)
    except PermissionError as error:
        sock.close()
        message = f"This service's user may not connect to {target.place}: add it to the socket's group."
        raise Unreachable(message, code="socket_refuses") from error
    except OSError as error:
        sock.close()
        deadline.left_s()
        raise Unreachable(f"{target.place} doesn't answer.") from error
    except BaseException:
        sock.close()
        raise
    return sock


def _redirect_target(target: Target, url: str, response: HTTPResponse) -> tuple[str, Target] | None:
    """The target of a redirect, checked like any address; None if the response isn't one."""
    location = response.headers.get("Location", "")
    if response.status not in _REDIRECTS or not location:
        return None
    try:
        onward = urljoin(url, location)
    except ValueError as error:
        raise Refused(f"{target.place} redirects to something that is no address.") from error
    next_target = target_of(onward)
    if next_target.scheme != target.scheme:
        raise Refused(f"{target.place} redirects from {target.scheme} to {next_target.scheme}: that is not followed.")
    return onward, next_target


def _unpacked(response: HTTPResponse, target: Target, most: int) -> Iterator[bytes]:
    """Yield the body in pieces, bounded as sent and as unpacked."""
    coding = response.headers.get("Content-Encoding", "identity").strip().lower()
    if coding not in ("identity", "", "gzip", "x-gzip"):
        raise Unreachable(f"{target.place} answers in a coding that wasn't asked for.", code="bad_answer")
    unpacker = Unpacker("gzip", Bounds(most, MOST_ANSWER_EXPANSION, FREE_EXPANSION_BYTES)) if "gzip" in coding else None
    n_out = 0
    try:
        for data in _sent(response, target):
            if unpacker is not None:
                yield from unpacker.feed(data)
                continue
            n_out += len(data)
            if n_out > most:
                raise _too_large(target, most)
            yield data
        if unpacker is not None and unpacker.n_in:
            yield from unpacker.finish()
    except Expands as error:
        if unpacker is not None and unpacker.n_out > most:
            raise _too_large(target, most) from error
        raise TooLarge(f"{target.place} sends what unpacks without measure.", code="expands_too_much") from error
    except Damaged as error:
        if error.is_cut:
            raise Unreachable(f"{target.place} ended in the middle of its answer.", code="cut_short") from error
        raise Unreachable(f"{target.place} sends an answer that can't be unpacked.", code="bad_answer") from error


def _too_large(target: Target, most: int) -> TooLarge:
    return TooLarge(f"{target.place} sends over {most} bytes.", code="answer_too_large")


def _sent(response: HTTPResponse, target: Target) -> Iterator[bytes]:
    while data := response.read(_READ):
        yield data
    if response.length:
        raise Unreachable(f"{target.place} ended in the middle of its answer.", code="cut_short")


class _describe_error:
    """Describe an error in own words, so that the other side's text is never repeated."""

    def __init__(self, target: Target) -> None:
        self._target = target

    def __enter__(self) -> None:
        return None

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        place = self._target.place
        if isinstance(error, TimeoutError):
            raise Unreachable(f"{place} gave no whole answer in time.", code="too_slow") from error
        if isinstance(error, ssl.SSLCertVerificationError):
            raise Unreachable(f"{place} has a certificate that isn't valid for it.", code="bad_certificate") from error
        if isinstance(error, OSError | http.client.HTTPException | ValueError):
            raise Unreachable(f"{place} didn't answer as HTTP demands.", code="bad_answer") from error


def _host_header(target: Target) -> str:
    if target.socket:
        return target.host
    is_usual = target.port == {"https": 443, "http": 80}[target.scheme]
    return target.place.rpartition(":")[0] if is_usual else target.place


def _with_scope(sockaddr: Any) -> str:
    scope = sockaddr[3] if len(sockaddr) == 4 else 0
    return f"{sockaddr[0]}%{scope}" if scope and "%" not in sockaddr[0] else str(sockaddr[0])
