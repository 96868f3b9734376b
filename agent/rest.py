"""REST client with a token: every call is bounded in time and size, and goes to one site only."""

import gzip
import http.client
import json
import os
import re
import socket
import ssl
import stat
import threading
import time
import urllib.parse
import uuid
from email.utils import parsedate_to_datetime
from typing import Any, Callable, Dict, NamedTuple, Optional, Sequence, Union

from agent import VERSION
from agent.names import SLUG, shown
from agent.orders import Orders, read_orders
from agent.records import Refused, ServerAway, ServerFailure
from agent.source import Source

TIMEOUT_S = 20.0  # a call, from the connection to the last byte
PATIENCE_S = 60.0  # a call including its retries
REPORT_PATIENCE_S = 10.0  # a report: while the site's database is down new jobs don't wait for it
AWAY_PATIENCE_S = 5.0  # a call after one that failed: new jobs don't wait for it
WAITS_S = (0.5, 1.0, 2.0, 4.0, 8.0)
MOST_BYTES = 64 * 1024 * 1024
MOST_REPORT_BYTES = 32 * 1024 * 1024  # the server's limit, before gzip
LOOPBACK = ("localhost", "127.0.0.1", "::1")
TOKEN = re.compile(r"fsh_[0-9A-Za-z]+_[0-9A-Za-z_-]+")
_CHUNK = 1 << 16
_DIGITS = re.compile(r"[0-9]{1,18}")


class Reply(NamedTuple):
    status: int
    headers: Dict[str, str]  # names in lower case
    body: bytes


class Rest(Source):
    """Client for one scheduler at one site. scheduler: "" before it is registered."""

    def __init__(
        self,
        site: str,
        scheduler: str,
        token: str,
        timeout_s: float = TIMEOUT_S,
        patience_s: float = PATIENCE_S,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        self._site = checked_site(site)
        if scheduler and not SLUG.fullmatch(scheduler):
            raise Refused(f"--scheduler {shown(scheduler)} is no name of a scheduler.")
        self._path = f"{self._site.path.rstrip('/')}/api/v1/schedulers/{scheduler}"
        self._token = token
        self._timeout_s = timeout_s
        self._patience_s = patience_s
        self._sleep = sleep
        self._orders: Optional[Orders] = None
        self._etag = ""
        self._is_away = False  # since the last call
        self._offset_s: Optional[float] = None

    # --- What the loop asks
    def orders(self) -> Orders:
        headers = {"If-None-Match": self._etag} if self._orders is not None and self._etag else {}
        reply = self._ask("GET", self._path + "/orders", headers=headers)
        if reply.status == 304 and self._orders is not None:
            return self._orders
        self._orders = read_orders(_document(reply))
        self._etag = reply.headers.get("etag", "")
        return self._orders

    def look_up(self, policy: str, accounts: Sequence[Dict[str, str]]) -> Any:
        path = f"{self._site.path.rstrip('/')}/api/v1/policies/{urllib.parse.quote(policy, safe='')}/priorities/lookup"
        return _document(self._ask("POST", path, {"accounts": list(accounts)}))

    def report(self, report: Dict[str, Any]) -> Optional[int]:
        headers = {"Idempotency-Key": str(report["pass"])}
        body, patience_s = _shortened(report), min(self._patience_s, REPORT_PATIENCE_S)
        reply = _document(self._ask("POST", self._path + "/passes", body, headers, zipped=True, patience_s=patience_s))
        revision = reply.get("orders_revision") if isinstance(reply, dict) else None
        return revision if isinstance(revision, int) else None

    def begin_setup(self, outputs: str, name: str) -> Any:
        """The site's proposal for these outputs of a scheduler's commands."""
        path = self._site.path.rstrip("/") + "/api/v1/setup"
        return _document(self._ask("POST", path, {"outputs": outputs, "name": name}))

    def clock_offset_s(self) -> Optional[float]:
        return self._offset_s

    # --- Calls
    def _ask(
        self,
        method: str,
        path: str,
        content: Optional[Dict[str, Any]] = None,
        headers: Optional[Dict[str, str]] = None,
        zipped: bool = False,
        patience_s: Optional[float] = None,
    ) -> Reply:
        """Send a request; retry for a bounded time while the server is unreachable or busy.

        Every call is idempotent.
        """
        sent = {"Accept": "application/json", "User-Agent": "fairshare-agent/" + VERSION, **(headers or {})}
        body = None if content is None else json.dumps(content, separators=(",", ":"), allow_nan=False).encode()
        if body is not None:
            sent["Content-Type"] = "application/json"
            if zipped:
                body = gzip.compress(body, 6)
                sent["Content-Encoding"] = "gzip"
        patience_s = self._patience_s if patience_s is None else patience_s
        ends_at = time.monotonic() + (min(patience_s, AWAY_PATIENCE_S) if self._is_away else patience_s)
        for wait_s in (*WAITS_S, None):
            try:
                reply = self._call(method, path, body, sent)
            except (OSError, http.client.HTTPException, ValueError) as error:
                failure, later_s = ServerAway(self._unreached(error)), wait_s
            else:
                if reply.status in (200, 201, 304):
                    self._is_away = False
                    return reply
                refusal, later_s = self._refusal(reply), wait_s
                if reply.status != 429 and reply.status < 500:
                    raise refusal
                failure = ServerAway(str(refusal))
                if wait_s is not None and _DIGITS.fullmatch(reply.headers.get("retry-after", "")):
                    later_s = max(wait_s, float(reply.headers["retry-after"][:6]))
            if later_s is None or time.monotonic() + later_s >= ends_at:
                self._is_away = True
                raise failure
            self._sleep(later_s)
        raise AssertionError("the last wait is None")

    def _call(self, method: str, path: str, body: Optional[bytes], headers: Dict[str, str]) -> Reply:
        """One exchange. A watchdog cuts the connection at the time limit, even if single bytes arrive."""
        connection = self._connection()
        late = threading.Event()

        def cut() -> None:
            late.set()
            if connection.sock is not None:
                try:
                    connection.sock.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass  # it is already closed

        watch = threading.Timer(self._timeout_s, cut)
        watch.daemon = True
        watch.start()
        began = time.time()
        try:
            answer = self._exchange(connection, method, path, body, headers)
            reply_headers = {name.lower(): value for name, value in answer.getheaders()}
            content = self._read(answer, reply_headers)
            if late.is_set():
                raise socket.timeout("timed out")
            self._compare_clocks(reply_headers, (began + time.time()) / 2)
            return Reply(answer.status, reply_headers, content)
        except Exception:
            if late.is_set():
                raise socket.timeout("timed out")
            raise
        finally:
            watch.cancel()
            connection.close()

    def _exchange(
        self,
        connection: http.client.HTTPConnection,
        method: str,
        path: str,
        body: Optional[bytes],
        headers: Dict[str, str],
    ) -> http.client.HTTPResponse:
        """Send a request and read the head of its answer, which may come before all of it was sent (RFC 9112 9.5)."""
        broken: Optional[OSError] = None
        try:
            connection.request(method, path, body, {**headers, "Authorization": "Bearer " + self._token})
        except (ConnectionError, ssl.SSLEOFError) as error:
            if connection.sock is None:  # it was never connected
                raise
            broken = error
        try:
            return connection.getresponse()
        except (ConnectionError, ssl.SSLError, http.client.HTTPException) as error:
            raise broken or error

    def _connection(self) -> Union[http.client.HTTPConnection, http.client.HTTPSConnection]:
        host, port = str(self._site.hostname), self._site.port
        if self._site.scheme == "https":
            return http.client.HTTPSConnection(
                host, port, timeout=self._timeout_s, context=ssl.create_default_context()
            )
        return http.client.HTTPConnection(host, port, timeout=self._timeout_s)

    def _read(self, answer: http.client.HTTPResponse, headers: Dict[str, str]) -> bytes:
        content = bytearray()
        while True:
            chunk = answer.read(_CHUNK)
            if not chunk:
                break
            content += chunk
            if len(content) > MOST_BYTES:
                raise ValueError("the answer is too long")
        length = headers.get("content-length", "")
        if answer.status != 304 and _DIGITS.fullmatch(length) and len(content) < int(length):
            raise ValueError("the answer broke off")
        return bytes(content)

    def _compare_clocks(self, headers: Dict[str, str], now: float) -> None:
        try:
            self._offset_s = parsedate_to_datetime(headers["date"]).timestamp() - now
        except (KeyError, TypeError, ValueError, IndexError, OverflowError):
            self._offset_s = None

    def _unreached(self, error: Exception) -> str:
        site = self._site.geturl()
        text = shown(str(error), 200) or type(error).__name__
        if isinstance(error, socket.timeout) or "timed out" in text:
            return f"{site} did not answer within {self._timeout_s:g} s."
        if isinstance(error, ssl.SSLCertVerificationError):
            return (
                f"{site} has an invalid certificate ({text}), so nothing was sent. If the site has its own"
                " certificate authority, name its certificate in SSL_CERT_FILE."
            )
        return f"{site} can't be reached: {text}. Check --server and the network."

    def _refusal(self, reply: Reply) -> ServerFailure:
        site = self._site.geturl()
        if 300 <= reply.status < 400:
            to = shown(reply.headers.get("location", "another address"), 200)
            return ServerFailure(f"{site} redirects to {to}. The token is not sent there: is --server right?")
        try:
            problem = json.loads(reply.body.decode("utf-8"))
            detail = str(problem.get("detail") or problem.get("title") or "")
        except (ValueError, AttributeError):
            detail = ""
        detail = shown(detail, 300) or "no reason given"
        if reply.status in (401, 403):
            return ServerFailure(
                f"{site} refuses the token ({reply.status}): {detail} "
                "It needs the scopes schedulers and priorities:read."
            )
        return ServerFailure(f"{site} answers {reply.status}: {detail}")


def _document(reply: Reply) -> Any:
    try:
        return json.loads(reply.body.decode("utf-8"))
    except ValueError:
        raise ServerFailure("The server's answer is no JSON. Is --server the address of a Fairshare site?")


def _shortened(report: Dict[str, Any]) -> Dict[str, Any]:
    """The report without the end of the listing, if the whole is too long for the server, which it says."""
    queue = report.get("queue")
    if not queue or len(json.dumps(report, separators=(",", ":"))) <= MOST_REPORT_BYTES:
        return report
    each = len(json.dumps(queue, separators=(",", ":"))) / len(queue)
    others = len(json.dumps({**report, "queue": None}, separators=(",", ":")))
    most = max(int((MOST_REPORT_BYTES * 0.9 - others) / each), 0)
    shorter = {**report, "queue": sorted(queue, key=lambda job: -job["priority"])[:most]}
    state = report.get("queue_state")
    if state is not None:
        shorter["queue_state"] = {**state, "omitted": state["omitted"] + max(len(queue) - most, 0)}
    return shorter


def checked_site(text: str) -> urllib.parse.SplitResult:
    """The site's URL. Raises: Refused unless it is https, or http on this host."""
    try:
        parts = urllib.parse.urlsplit(text.strip().rstrip("/"))
        parts.port  # noqa: B018  it is checked when it is read
    except ValueError:
        raise Refused(f"--server {shown(text)} is no address.")
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise Refused(f"--server {shown(text)} is no address: it is like https://fairshare.example.org.")
    if parts.username is not None or parts.password is not None:
        raise Refused("--server takes no user name or password: the token says who asks.")
    if parts.scheme == "http" and parts.hostname not in LOOPBACK:
        raise Refused(f"{shown(text)} would send the token in the clear: use https://.")
    return parts


def read_token(path: str) -> str:
    """Read the token. Raises: Refused if others can read the file, or it has no token."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError as error:
        raise Refused(f"{path} can't be read: {error.strerror}.")
    try:
        state = os.fstat(handle)  # of the opened file, even if the path changes
        if not stat.S_ISREG(state.st_mode):
            raise Refused(f"{path} is not a file.")
        if state.st_mode & 0o077:
            raise Refused(f"Other users can read {path}: revoke that token, keep a new one, and chmod 600 {path}")
        if state.st_uid not in (os.geteuid(), 0):
            raise Refused(f"{path} belongs to another user.")
        text = os.read(handle, 4096).decode("ascii", "replace").strip()
    finally:
        os.close(handle)
    if not TOKEN.fullmatch(text):
        raise Refused(f"{path} holds no token: one looks like fsh_…_….")
    return text


def new_pass_id() -> str:
    return str(uuid.uuid4())
