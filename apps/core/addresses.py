"""Rules for the addresses that this service may connect to: spelling, number and the operator's list.

Opens no connection.
"""

from __future__ import annotations

import ipaddress
import logging
import os
import re
from typing import NamedTuple
from urllib.parse import SplitResult, urlsplit

from django.conf import settings

from apps.core.derived_state import in_memory
from apps.core.errors import Invalid

DERIVED_STATE = (
    in_memory(
        "_last",
        holds="addresses that may be connected to",
        key="path, inode, size and time of the list",
        inputs="the operator's list",
        range="the whole list",
        ends="a changed file",
    ),
)

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

OPEN_PORTS = (443, 8443)
MOST_URL = 2048
UNIX = "unix:"  # as slurmrestd spells the sockets that it listens on
_LONGEST_UNIX_PATH = 107  # bytes of a path in sockaddr_un, without the zero behind it
_PRINTABLE = re.compile(r"[\x21-\x7e]+")
_NAME = re.compile(r"(?=.{1,253}\Z)[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?)*")
_LOOKS_NUMERIC = re.compile(r"(?:.*\.)?(?:[0-9]+|0x[0-9a-f]*)")

# FAIRSHARE_OUTBOUND_ALLOW opens these for one host and port; all other non-public addresses stay closed.
_PRIVATE = [
    ipaddress.ip_network(text)
    for text in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "127.0.0.0/8", "100.64.0.0/10", "::1/128", "fc00::/7")
]
# Ranges that `is_global`, `is_multicast` and `is_reserved` accept, in some or all versions of Python.
_CLOSED = [
    ipaddress.ip_network(text)
    for text in (
        *("0.0.0.0/8", "169.254.0.0/16", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "198.18.0.0/15"),
        *("198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4"),
        *("100.100.100.200/32", "168.63.129.16/32", "fd00:ec2::254/128", "fd20:ce::254/128"),  # metadata of clouds
        *("64:ff9b::/96", "64:ff9b:1::/48", "2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20", "5f00::/16"),
        *("100::/64", "fe80::/10", "fec0::/10", "ff00::/8", "::/128"),
    )
]
_UNICAST = ipaddress.ip_network("2000::/3")  # allocated IPv6 space; all other addresses are special
_BETWEEN = re.compile(r"[,\s]+")
_COMMENT = re.compile(r"#.*")


class Target(NamedTuple):
    """The parts of a valid URL; socket: the path of a unix socket that leads to it instead of host and port."""

    scheme: str
    host: str
    port: int
    path: str
    socket: str = ""

    @property
    def place(self) -> str:
        if self.socket:
            return f"{UNIX}{self.socket}"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


class Refused(Invalid):
    """An address that this service doesn't connect to."""

    code = "address_refused"


def split_address(url: str) -> SplitResult:
    """Parts of an address; all are empty if it is malformed, such as https://[host]."""
    try:
        return urlsplit(url)
    except ValueError:
        return SplitResult("", "", "", "", "")


def target_of(url: str) -> Target:
    """Raises:
    Refused: not https, with credentials, a malformed host, or a port that isn't open; with what to write instead.
    """
    if len(url) > MOST_URL or not _PRINTABLE.fullmatch(url) or "\\" in url:
        raise Refused("An address has at most 2048 printable ASCII characters, and no spaces or backslashes.")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise Refused("This is no address; example: https://cluster.example.org/path.") from error
    if parts.scheme not in ("https", "http") or not url.lower().startswith(f"{parts.scheme}://"):
        raise Refused("An address begins with https://.")
    if "@" in parts.netloc:
        raise Refused("An address names no user and no password.")
    host = _host(parts.netloc)
    if port == 0:
        raise Refused("Port 0 is none.")
    target = Target(
        parts.scheme,
        host,
        port if port is not None else {"https": 443, "http": 80}[parts.scheme],
        (parts.path or "/") + (f"?{parts.query}" if parts.query else ""),
    )
    if is_allowed(target):
        return target
    if target.scheme != "https":
        raise Refused(
            f"Plain http is open for targets in FAIRSHARE_OUTBOUND_ALLOW only: add {target.place} or use https."
        )
    if target.port not in OPEN_PORTS:
        raise Refused(
            f"Port {target.port} isn't open: use 443 or 8443, or add {target.place} to FAIRSHARE_OUTBOUND_ALLOW."
        )
    literal = literal_of(host)
    if literal is not None:
        refuse_closed(literal, target)
    return target


def socket_target(address: str, path: str = "/") -> Target:
    """The target of a `unix:` address, for `outbound.fetch_by_socket` only: no URL, and no redirect, spells one.

    Raises:
        Refused: the operator doesn't list exactly this address. Whether anything is at the path isn't disclosed.
    """
    socket = address.removeprefix(UNIX)
    is_plain = socket.startswith("/") and os.path.normpath(socket) == socket and not socket.startswith("//")
    if not address.startswith(UNIX) or not is_plain or not _PRINTABLE.fullmatch(socket):
        raise Refused("Write a unix socket as its whole path: unix:/run/slurmrestd/slurmrestd.sock.")
    if len(socket) > _LONGEST_UNIX_PATH:
        raise Refused(f"The path of a unix socket has at most {_LONGEST_UNIX_PATH} characters.")
    if address not in allowed_targets():
        raise Refused(f"The operator opens unix sockets one by one: add {address} to FAIRSHARE_OUTBOUND_ALLOW.")
    return Target("http", "localhost", 80, path, socket)


def is_allowed(target: Target) -> bool:
    """Whether the operator listed exactly this host and port."""
    return target.place in allowed_targets()


def refuse_closed(address: Address, target: Target) -> None:
    """Raises:
    Refused: never connected to, or only if the operator allows this host and port.
    """
    kind = kind_of(address)
    if kind == "public" or (kind == "private" and is_allowed(target)):
        return
    if kind == "private":
        raise Refused(f"{target.host} is in a private network: add {target.place} to FAIRSHARE_OUTBOUND_ALLOW.")
    raise Refused(f"{target.host} is at a special address, to which nothing connects from here.")


def kind_of(address: Address) -> str:
    """`public`, `private` (open if the operator lists it) or `closed`.

    Addresses that contain another one (mapped, compatible, 6to4, Teredo, NAT64, ISATAP) are never public.
    """
    if any(address in network for network in _CLOSED if network.version == address.version):
        return "closed"
    if isinstance(address, ipaddress.IPv6Address):
        if _inside(address):
            return "closed"
        if address.scope_id or (address not in _UNICAST and not _in_private(address)):
            return "closed"
    if _in_private(address):
        return "private"
    is_public = address.is_global and not (address.is_multicast or address.is_reserved or address.is_private)
    return "public" if is_public else "closed"


def _in_private(address: Address) -> bool:
    return any(address in network for network in _PRIVATE if network.version == address.version)


def _inside(address: ipaddress.IPv6Address) -> bool:
    """Whether it contains an IPv4 address: ::ffff:0:0/96, ::ffff:0:0:0/96, ::/96 and ISATAP; the rest is closed."""
    number = int(address)
    if address.ipv4_mapped or number >> 32 == 0xFFFF0000:
        return True
    if number >> 32 == 0 and number > 1:
        return True
    return (number >> 32) & 0xFDFFFFFF == 0x00005EFE


def _host(netloc: str) -> str:
    """The host in normalised form: a name, four decimal numbers, or IPv6 in brackets."""
    if netloc.startswith("["):
        inner, _, rest = netloc[1:].partition("]")
        if rest and not re.fullmatch(r":[0-9]{1,5}", rest):
            raise Refused("Behind [an IPv6 address] comes nothing but a port.")
        if "%" in inner or literal_of(inner) is None:
            raise Refused("[ and ] must contain an IPv6 address without a zone.")
        return str(ipaddress.IPv6Address(inner))
    host = netloc.partition(":")[0].lower()
    if netloc.count(":") > 1 or not re.fullmatch(r"[^:]+(:[0-9]{1,5})?", netloc):
        raise Refused("Write IPv6 addresses in [ and ], and the port as a number.")
    if _LOOKS_NUMERIC.fullmatch(host):
        literal = literal_of(host)
        if literal is None:
            raise Refused("A numeric address is written as four decimal numbers: 192.0.2.1.")
        return str(literal)
    if not _NAME.fullmatch(host):
        raise Refused("A host name has letters a-z, digits, hyphens and dots, and doesn't end with one.")
    return host


def literal_of(host: str) -> Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


logger = logging.getLogger(__name__)


class _Read(NamedTuple):
    version: tuple[str, int, int, int]  # path, inode, size, time of the last change
    targets: frozenset[str]


_last: list[_Read] = []


def allowed_targets() -> frozenset[str]:
    """`host:port`, in lower case, of targets that may be private or plain http; and `unix:/path` of sockets.

    FAIRSHARE_OUTBOUND_ALLOW is read at the start. If given as a file (FAIRSHARE_OUTBOUND_ALLOW_FILE), it is read again
    when it changes, so that a target is opened or closed without a restart. While it can't be read, nothing is allowed.
    """
    path: str = settings.FAIRSHARE_OUTBOUND_ALLOW_FILE
    if not path:
        return frozenset(_spelled(entry) for entry in settings.FAIRSHARE_OUTBOUND_ALLOW)
    try:
        with open(path, encoding="utf-8") as file:
            now = os.fstat(file.fileno())
            version = (path, now.st_ino, now.st_size, now.st_mtime_ns)
            if not _last or _last[0].version != version:
                # Entries separated by commas or white space; # starts a comment.
                lines = (_COMMENT.sub("", line) for line in file.read().splitlines())
                _last[:] = [
                    _Read(version, frozenset(_spelled(part) for line in lines for part in _BETWEEN.split(line) if part))
                ]
    except (OSError, UnicodeDecodeError) as error:
        logger.warning("FAIRSHARE_OUTBOUND_ALLOW_FILE=%s can't be read, so it allows nothing: %s", path, error)
        return frozenset()
    return _last[0].targets


def _spelled(entry: str) -> str:
    """An entry as it is compared: hosts have no case, paths have."""
    return entry if entry.lower().startswith(UNIX) else entry.lower()
