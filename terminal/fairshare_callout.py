#!/usr/bin/env python3
"""fairshare-callout: the fairshare factor of an account, for schedulers, within a bounded time.

  fairshare-callout USER [--group G] [--namespace N]   prints one number from 0 to 1
  fairshare-callout --stdin < names                    a line each: USER, or by tabs USER, GROUP, NAMESPACE, PROJECT,
                                                       PARTITION
  fairshare-callout quota GROUP [--unit U]             what is left of the group's allocation in a unit, as advice
  fairshare-callout --refresh                          renews every cached number (for a timer)

One file, needs only Python 3.6 or newer. Numbers come from a cache on disk while it is younger than --fresh-s. Else
one process renews all of it, and waits no longer than --wait-s. Without an answer the cached numbers are printed up to
an age of --stale-s, then --fallback. Options are also read from a file, one `name = value` a line (--config).

Exit status:
  0  every number is the site's, from the site or from the cache
  1  at least one number is the fallback: the site refused (token, policy)
  2  wrong usage, nothing is printed
  3  at least one number is the fallback: the site gave none in time, or the name can't be looked up
"""

import os
import stat
import sys
import time

# Modules that only some calls need are imported by these: 10,000 names from the cache are to take 50 ms.
TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple

VERSION = "1"
DONE, REFUSED, USAGE, UNREACHED = 0, 1, 2, 3
MOST_NAMES = 100000  # of one call
MOST_KEPT = 200000  # of the cache
MOST_IN_REQUEST = 10000  # the site's limit
MOST_BYTES = 64 * 1024 * 1024
CORE_HOUR = "core-h"
KEPT_DAYS = 7  # a name that nobody asked for so long leaves the cache
RETRY_S = 10.0  # after a failure nobody tries again for so long
ROUNDS = 3  # of renewing parts that came from different snapshots
FORMAT = 2  # of cache files
CONFIG = "/etc/fairshare/callout.conf"
LOOPBACK = ("localhost", "127.0.0.1", "::1")
_BAD_NAME = "[\x00-\x08\x0a-\x1f\x7f-\x9f\ud800-\udfff\u2028\u2029]"
_LETTERS = frozenset("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")
_LONGEST_NAME = 1024
_NEVER = -1.0

if TYPE_CHECKING:
    Json = Dict[str, Any]
    Name = str  # user, group, namespace, project and partition, with tabs between them
    Value = Tuple[Optional[float], Optional[str]]  # factor, error


class Failure(Exception):
    """What went wrong, and the exit status."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


class Kept:
    """Cached numbers of one policy. checked_at: when the site last said that they are its newest (our clock).

    age_s: how old the numbers were then. names: by key, with the day on which the name was last looked up.
    """

    def __init__(self, snapshot: int, age_s: float, checked_at: float, names: "Dict[str, List[Any]]") -> None:
        self.snapshot = snapshot
        self.age_s = age_s
        self.checked_at = checked_at
        self.names = names  # [factor, error, day]


NOTHING = Kept(0, 0.0, _NEVER, {})


def parser() -> "argparse.ArgumentParser":
    import argparse

    about = (__doc__ or "").split("\n\n")
    top = argparse.ArgumentParser(
        prog="fairshare-callout",
        description=about[0].partition(": ")[2],
        usage="fairshare-callout USER | --stdin | quota GROUP | --refresh  [options]",
        epilog="\n\n".join(about[2:]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = top.add_argument
    add("names", nargs="*", metavar="USER", help="an account, or the words: quota GROUP")
    add("--stdin", action="store_true", help="read names from standard input")
    add("--refresh", action="store_true", help="renew the cache and print nothing")
    add("--group", default="", help="group (Unix group, Slurm account) of the job")
    add("--namespace", default="", help="whose user names these are")
    add("--project", default="", help="project of the job")
    add("--partition", default="", help="partition of the job, for Slurm's associations of one partition")
    add("--unit", default="", help="unit of the allocation, such as GPU-h (core-h)")
    add("--format", choices=("value", "json", "columns"), help="value: the number alone (default)")
    add("--weight", type=float, metavar="W", help="print round(factor * W), an integer")
    add("--config", metavar="FILE", help=f"default: {CONFIG}, if it exists")
    add("--site", metavar="URL", help="default: $FAIRSHARE_SITE_URL")
    add("--policy", metavar="NAME", help="default: $FAIRSHARE_POLICY")
    add("--token-file", metavar="FILE", help="only its owner may read it (default: ~/.config/fairshare/token)")
    add("--ca-file", metavar="FILE", help="certificates to trust, of a site with its own authority")
    add("--cache-dir", metavar="DIR", help="own directory, mode 0700 (default: ~/.cache/fairshare-callout)")
    add("--wait-s", type=float, metavar="S", help="longest wait for the site (2); 0: only the cache")
    add("--fresh-s", type=float, metavar="S", help="age from which the cache is renewed (30)")
    add("--stale-s", type=float, metavar="S", help="age up to which the cache is printed without the site (86400)")
    add("--fallback", type=float, metavar="F", help="factor where there is no number, 0 to 1 (0.5)")
    add("--quiet", action="store_true", help="no message on standard error where the fallback is printed")
    add("--version", action="version", version="fairshare-callout " + VERSION)
    return top


DEFAULTS = {
    "format": "value",
    "site": "",
    "policy": "",
    "token_file": "",
    "ca_file": "",
    "cache_dir": "",
    "wait_s": 2.0,
    "fresh_s": 30.0,
    "stale_s": 86400.0,
    "fallback": 0.5,
}  # type: Json
_LIMITS = {"wait_s": 300.0, "fresh_s": 86400.0, "stale_s": 31536000.0, "fallback": 1.0}


class PlainOptions:
    """What `parser` makes of no arguments."""

    def __init__(self) -> None:
        self.names = []  # type: List[str]
        self.stdin = self.refresh = self.quiet = False
        self.group = self.namespace = self.project = self.partition = self.unit = ""
        self.weight = self.config = None
        for name in DEFAULTS:
            setattr(self, name, None)


def read_plainly(arguments: "Sequence[str]") -> "Any":
    """As `parser` reads them, which takes longer than all else; None for what it has to refuse or explain."""
    options, left = PlainOptions(), list(arguments)[::-1]
    while left:
        word = left.pop()
        if word == "--":
            options.names += left[::-1]
            break
        name, equals, value = word[2:].partition("=")
        name = name.replace("-", "_")
        if not word.startswith("-"):
            options.names.append(word)
        elif word in ("--stdin", "--refresh", "--quiet"):
            setattr(options, name, True)
        elif not _is_plain(word, name, options) or not (equals or left):
            return None
        else:
            value = value if equals else left.pop()
            if value.startswith("-") and not equals:
                return None
            try:
                typed = float(value) if name == "weight" or isinstance(DEFAULTS.get(name), float) else value
            except ValueError:
                return None
            if name == "format" and value not in ("value", "json", "columns"):
                return None
            setattr(options, name, typed)
    return options


def _is_plain(word: str, name: str, options: "PlainOptions") -> bool:
    """Whether it is an option with a value."""
    is_option = word[:2] == "--" and "_" not in word.partition("=")[0]
    return is_option and name in vars(options) and name not in ("names", "stdin", "refresh", "quiet")


def read_arguments(arguments: "Sequence[str]") -> "argparse.Namespace":
    options = read_plainly(arguments) or parser().parse_args(list(arguments))
    from_file = read_config(options.config)
    from_environment = {"site": os.environ.get("FAIRSHARE_SITE_URL"), "policy": os.environ.get("FAIRSHARE_POLICY")}
    for name, default in DEFAULTS.items():
        if getattr(options, name) is None:
            setattr(options, name, from_file.get(name, from_environment.get(name) or default))
    for name, most in _LIMITS.items():
        if not 0 <= getattr(options, name) <= most:
            raise Failure(USAGE, "--{} must be 0 to {:g}.".format(name.replace("_", "-"), most))
    if options.weight is not None and not -1e15 <= options.weight <= 1e15:
        raise Failure(USAGE, "--weight must be a number up to 1e15.")
    options.is_quota = len(options.names) == 2 and options.names[0] == "quota"
    n_ways = bool(options.names) + options.stdin + options.refresh
    if n_ways != 1 or (len(options.names) > 1 and not options.is_quota):
        raise Failure(USAGE, "Give one USER, --stdin, --refresh, or quota GROUP.")
    options.site = check_site(options.site)
    if not options.policy or not _LETTERS.union("-_").issuperset(options.policy):
        raise Failure(USAGE, "Which policy? Give --policy NAME.")
    return options


def read_config(path: "Optional[str]") -> "Json":
    """Options by name; a file that others than root and this user can write to is refused."""
    try:
        text = read_own_file(path or CONFIG, writable_is_bad=True)
    except FileNotFoundError:
        if path is None:
            return {}
        raise Failure(USAGE, f"{path} doesn't exist.")
    except OSError as error:
        raise Failure(USAGE, f"{path or CONFIG} can't be read: {error.strerror}.")
    values = {}  # type: Json
    for number, line in enumerate(text.split("\n"), 1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        name, equals, value = (part.strip() for part in line.partition("="))
        name = name.replace("-", "_")
        if not equals or name not in DEFAULTS:
            raise Failure(USAGE, f"{path or CONFIG}, line {number}: no option.")
        values[name] = value
        if isinstance(DEFAULTS[name], float):
            try:
                values[name] = float(value)
            except ValueError:
                raise Failure(USAGE, f"{path or CONFIG}, line {number}: no number.")
    if values.get("format", "value") not in ("value", "json", "columns"):
        raise Failure(USAGE, f"{path or CONFIG}: format is value, json or columns.")
    return values


def read_own_file(path: str, writable_is_bad: bool = False) -> str:
    """Of this user or root. Refused where others can read it, or (a configuration) write to it."""
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    try:
        state = os.fstat(handle)  # of the file that is open, whatever the name leads to by now
        if not stat.S_ISREG(state.st_mode):
            raise Failure(USAGE, f"{path} is not a file.")
        bad = (stat.S_IWGRP | stat.S_IWOTH) if writable_is_bad else (stat.S_IRWXG | stat.S_IRWXO)
        if state.st_mode & bad:
            what = "write to" if writable_is_bad else "read"
            raise Failure(USAGE, f"Other users can {what} {path}: chmod go= it.")
        if hasattr(os, "getuid") and state.st_uid not in (os.geteuid(), 0):
            raise Failure(USAGE, f"{path} belongs to another user.")
        return os.read(handle, 65536).decode("utf-8", "replace")
    finally:
        os.close(handle)


def read_token(path: str) -> str:
    home = os.environ.get("XDG_CONFIG_HOME") or os.path.join(os.path.expanduser("~"), ".config")
    path = path or os.path.join(home, "fairshare", "token")
    try:
        text = read_own_file(path).strip()
    except Failure as failure:
        raise Failure(REFUSED, failure.message)
    except OSError as error:
        raise Failure(REFUSED, f"The token file {path} can't be read: {error.strerror}.")
    begin, _, rest = text.partition("_")
    number, _, secret = rest.partition("_")
    if not (begin == "fsh" and number and secret) or not (
        _LETTERS.issuperset(number) and _LETTERS.union("-_").issuperset(secret)
    ):
        raise Failure(REFUSED, f"{path} holds no token: one looks like fsh_…_….")
    return text


def check_site(text: str) -> str:
    scheme, _, rest = text.strip().partition("://")
    address, _, path = rest.partition("/")
    if address.startswith("["):
        host, end, port = address[1:].partition("]")
        is_host, has_port = bool(end) and _LETTERS.union(":.").issuperset(host), bool(port)
        port = port[1:] if port.startswith(":") else port and "?"
    else:
        host, colon, port = address.partition(":")
        is_host, has_port = not any(sign in "@?#[]" or sign.isspace() for sign in host), bool(colon)
    is_port = not has_port or (0 < len(port) < 6 and set("0123456789").issuperset(port))
    is_path = not any(sign in "?#@" or sign.isspace() for sign in path)
    if scheme not in ("http", "https") or not (host and is_host and is_port and is_path):
        raise Failure(USAGE, "Which site? Give --site https://….")
    if scheme == "http" and host not in LOOPBACK:
        raise Failure(USAGE, f"--site {text} would send the token in the clear: use https://.")
    return text.strip().rstrip("/")


def joined(user: str, group: str, namespace: str, project: str, partition: str) -> "Name":
    return f"{user}\t{group}\t{namespace}\t{project}\t{partition}"


def echo_of(name: "Name") -> str:
    """User, group and namespace, which an answer names."""
    return name.rsplit("\t", 2)[0]


def is_name(name: "Name") -> bool:
    if name[0] == "\t" or name.count("\t") != 4:
        return False
    if not name.replace("\t", "").isprintable() and without_control(name) != name:
        return False
    return len(name) <= _LONGEST_NAME or max(map(len, name.split("\t"))) <= _LONGEST_NAME


def names_from(options: "argparse.Namespace", stdin: "Any") -> "List[Name]":
    if not options.stdin:
        return [joined(options.names[0], options.group, options.namespace, options.project, options.partition)]
    text = stdin.read(MOST_BYTES + 1)
    if len(text) > MOST_BYTES:
        raise Failure(USAGE, "Standard input is too long.")
    lines = text.decode("utf-8", "surrogateescape").split("\n")
    if lines[-1] == "":
        lines.pop()
    if len(lines) > MOST_NAMES:
        raise Failure(USAGE, f"{len(lines)} names; the limit is {MOST_NAMES}.")
    plain = joined("", options.group, options.namespace, options.project, options.partition)
    return [_of_fields(line, options) if "\t" in line else line.rstrip("\r") + plain for line in lines]


def _of_fields(line: str, options: "argparse.Namespace") -> "Name":
    """What the line leaves out comes from the options."""
    fields = [*line.rstrip("\r").split("\t"), "", "", "", ""][:5]
    usual = ("", options.group, options.namespace, options.project, options.partition)
    return joined(*(field or of_option for field, of_option in zip(fields, usual)))


class _Scanned:
    """What CPython's scanner asks of its decoder."""

    strict = True
    object_hook = object_pairs_hook = None
    parse_float, parse_int, parse_constant = float, int, float


def from_json(text: str) -> "Any":
    """As json.loads reads what json.dumps wrote, without importing json where CPython's scanner is there.

    Raises:
        ValueError: it is something else.
    """
    try:
        from _json import make_scanner
    except ImportError:
        from json import loads

        return loads(text)
    try:
        value, end = make_scanner(_Scanned)(text, 0)  # type: ignore[arg-type]
    except StopIteration:
        raise ValueError("no JSON")
    if end != len(text):
        raise ValueError("more than one value")
    return value


def to_json(what: "Json") -> str:
    import json

    return json.dumps(what, separators=(",", ":"))


class Cache:
    """Files of one site, policy and token in a directory that only this user can open."""

    def __init__(self, folder: int, stem: str) -> None:
        self._folder = folder
        self._stem = stem
        self._lock = None  # type: Optional[int]

    def read(self, kind: str) -> "Any":
        """What was written; None where there is nothing, or nothing that can be read."""
        try:
            handle = os.open(self._stem + kind, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=self._folder)
        except OSError:
            return None
        with open(handle, "rb") as file:
            state = os.fstat(file.fileno())
            if not stat.S_ISREG(state.st_mode) or state.st_uid != os.geteuid() or state.st_size > MOST_BYTES:
                return None
            try:
                document = from_json(file.read().decode("utf-8"))
            except ValueError:
                return None
        return document if isinstance(document, dict) and document.get("format") == FORMAT else None

    def write(self, kind: str, what: "Json") -> None:
        """Whole or not at all. Only the holder of the lock writes, so one name for the new file is enough."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
        text = to_json(dict(what, format=FORMAT)).encode("ascii")
        try:
            handle = os.open(self._stem + kind + ".new", flags, 0o600, dir_fd=self._folder)
            with open(handle, "wb") as file:
                file.write(text)
            os.rename(self._stem + kind + ".new", self._stem + kind, src_dir_fd=self._folder, dst_dir_fd=self._folder)
        except OSError:
            pass  # a full disk costs the cache, not the answer

    def lock(self, until: float) -> bool:
        """Whether this process is the one that asks the site. It waits at most until then (monotonic)."""
        import fcntl

        try:
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | getattr(os, "O_CLOEXEC", 0)
            self._lock = os.open(self._stem + ".lock", flags, 0o600, dir_fd=self._folder)
        except OSError:
            return True  # a full disk: better to ask than to have no number
        while True:
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return True
            except OSError:
                if time.monotonic() >= until:
                    return False
                time.sleep(0.01)

    def unlock(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def open_cache(options: "argparse.Namespace", token: str) -> Cache:
    """
    Raises:
        Failure: the directory isn't one's own, or can't be made.
    """
    import hashlib

    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    path = options.cache_dir or os.path.join(home, "fairshare-callout")
    try:
        if not os.path.isdir(path):
            os.makedirs(path, 0o700, exist_ok=True)
        folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError as error:
        raise Failure(UNREACHED, f"No cache: {path}: {error.strerror}.")
    state = os.fstat(folder)
    if state.st_uid != os.geteuid() or state.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        os.close(folder)
        raise Failure(UNREACHED, f"No cache: {path} must belong to this user and have mode 0700.")
    about = "\n".join((options.site, options.policy, token)).encode("utf-8")
    return Cache(folder, hashlib.sha256(about).hexdigest()[:32])


def try_cache(options: "argparse.Namespace", token: str) -> "Optional[Cache]":
    """None, with a message, where the directory can't be used: then every call asks the site."""
    try:
        return open_cache(options, token)
    except Failure as failure:
        complain(options, failure.message)
        return None


def read_kept(cache: "Optional[Cache]") -> Kept:
    """The numbers of the cache; nothing where a field isn't what was written."""
    document = cache.read(".names") if cache else None
    if document is None:
        return NOTHING
    try:
        return Kept(
            int(document["snapshot"]), float(document["age_s"]), float(document["checked_at"]), dict(document["names"])
        )
    except (KeyError, TypeError, ValueError):
        return NOTHING


def since(checked_at: float, now: float) -> float:
    """Seconds since the site was last heard; a clock that was set back counts as one that stood still."""
    return max(now - checked_at, 0.0) if checked_at >= 0 else float("inf")


def is_fresh(kept_at: float, now: float, fresh_s: float) -> bool:
    return 0 <= now - kept_at < fresh_s  # a time that is still to come means that the clock was set back


class Site:
    """One site, one token, and one connection at a time. No redirect is followed, and no proxy is used."""

    def __init__(self, options: "argparse.Namespace", token: str) -> None:
        self._address = options.site
        self._policy = options.policy
        self._token = token
        self._ca_file = options.ca_file
        self._timeout_s = options.wait_s
        self._connection = None  # type: Any
        self.asked_at = None  # type: Optional[float]  # monotonic, of the request that is under way

    def lookup(self, names: "Sequence[Name]", snapshot: int = 0) -> "Optional[Json]":
        """The site's answer for at most 10,000 names of different account, group and namespace.

        None: `snapshot` is still the newest; then the names weren't looked up.
        """
        body = to_json({"accounts": [_query(name) for name in names]})
        more = {"If-None-Match": f'"{snapshot}"'} if snapshot else {}
        return self.ask("POST", "priorities/lookup", body.encode("ascii"), more)

    def ask(
        self, method: str, path: str, body: "Optional[bytes]" = None, more: "Optional[Dict[str, str]]" = None
    ) -> "Optional[Json]":
        import http.client

        headers = {"Accept": "application/json", "User-Agent": "fairshare-callout/" + VERSION}
        headers["Authorization"] = "Bearer " + self._token
        if body is not None:
            headers["Content-Type"] = "application/json"
        headers.update(more or {})
        scheme, _, rest = self._address.partition("://")
        host, _, base = rest.partition("/")
        where = "/" + "/".join(part for part in (base, "api/v1/policies", self._policy, path) if part)
        try:
            self.asked_at = time.monotonic()
            if self._connection is None:
                self._connection = self._connect(scheme, host)
            self._connection.request(method, where, body, headers)
            response = self._connection.getresponse()
            content = response.read(MOST_BYTES + 1)
        except (OSError, ValueError, http.client.HTTPException) as error:
            text = str(error) or type(error).__name__
            raise Failure(UNREACHED, f"{self._address} can't be reached: {printable(text)}.")
        return self._read(response, content)

    def _connect(self, scheme: str, host: str) -> "Any":
        import http.client

        if scheme == "http":
            return http.client.HTTPConnection(host, timeout=self._timeout_s)
        import ssl

        context = ssl.create_default_context(cafile=self._ca_file or None)
        return http.client.HTTPSConnection(host, timeout=self._timeout_s, context=context)

    def _read(self, response: "Any", content: "bytes") -> "Optional[Json]":
        """
        Raises:
            Failure: refused, or nothing that this site would say.
        """
        if response.status == 304:
            return None
        try:
            document = from_json(content.decode("utf-8").strip()) if len(content) <= MOST_BYTES else None
        except ValueError:
            document = None
        document = document if isinstance(document, dict) else {}
        if response.status == 200 and document:
            return document
        if response.status == 200:
            raise Failure(UNREACHED, f"{self._address} gives no answer that can be read.")
        detail = printable(str(document.get("detail") or document.get("title") or response.reason))
        message = f"{self._address} answers {response.status}: {detail}"
        if response.status in (400, 401, 403, 404, 422) and document.get("code"):
            raise Failure(REFUSED, message)
        raise Failure(UNREACHED, message)


def _query(name: "Name") -> "Any":
    user, group, namespace, project, partition = name.split("\t")
    if not (group or namespace or project or partition):
        return user
    fields = {"user": user, "group": group, "namespace": namespace, "project": project, "partition": partition}
    return {field: value for field, value in fields.items() if value}


def without_control(text: str) -> str:
    import re

    return re.sub(_BAD_NAME, " ", text)


def printable(text: str) -> str:
    return without_control(text).replace("\t", " ")[:300]


def parts_of(names: "Sequence[Name]") -> "Iterator[List[Name]]":
    """At most 10,000 a part. Answers name account, group and namespace: these differ within each part."""
    layers = []  # type: List[List[Name]]
    seen = {}  # type: Dict[str, int]
    for name in names:
        echo = echo_of(name)
        layer = seen.get(echo, 0)
        seen[echo] = layer + 1
        if layer == len(layers):
            layers.append([])
        layers[layer].append(name)
    for names_of_layer in layers:
        for at in range(0, len(names_of_layer), MOST_IN_REQUEST):
            yield names_of_layer[at : at + MOST_IN_REQUEST]


def values_of(answer: "Json", names: "Sequence[Name]") -> "Dict[Name, Value]":
    """The best entry of each account.

    Raises:
        Failure: an answer that leaves a name out, or has a factor that is none.
    """
    first = {}  # type: Dict[str, Json]
    values = {}  # type: Dict[Name, Value]
    try:
        for each in answer["results"]:
            echo = "\t".join((each["account"], each.get("group") or "", each.get("namespace") or ""))
            first.setdefault(echo, each)
        for name in names:
            each = first[echo_of(name)]
            factor, error = each["factor"], each.get("error")
            if isinstance(factor, bool) or not 0 <= factor <= 1:
                raise ValueError
            values[name] = (float(factor), str(error) if error else None)
    except (KeyError, TypeError, ValueError, AttributeError):
        raise Failure(UNREACHED, "The site's answer can't be used.")
    return values


def head_of(answer: "Json") -> "Tuple[int, float]":
    try:
        snapshot, age_s = int(answer["snapshot"]), float(answer["age_s"])
    except (KeyError, TypeError, ValueError):
        raise Failure(UNREACHED, "The site's answer can't be used.")
    return snapshot, age_s if 0 <= age_s < 1e12 else 0.0


class Renewal:
    """Renews what is kept, in a thread of its own: looking up a host name, for one, can't be interrupted.

    found: what has come so far, also of a renewal that is still under way.
    """

    def __init__(self, site: Site, kept: Kept, wanted: "Sequence[Name]", now: float) -> None:
        self.found = {}  # type: Dict[Name, Value]
        self.age_s = 0.0
        self.kept = None  # type: Optional[Kept]
        self.failure = None  # type: Optional[Failure]
        self.is_under_way = False
        self._site, self._old, self._wanted, self._now = site, kept, wanted, now
        self._day = int(now // 86400)
        self._snapshots = []  # type: List[Tuple[List[Name], int]]

    def run_until(self, deadline: float) -> None:
        import threading

        thread = threading.Thread(target=self._run, daemon=True)
        thread.start()
        thread.join(max(deadline - time.monotonic(), 0.001))
        self.is_under_way = thread.is_alive()
        if self.is_under_way:
            self.failure = Failure(UNREACHED, "The site did not answer within --wait-s.")

    def _run(self) -> None:
        try:
            self.kept = self._renew()
        except Failure as failure:
            self.failure = failure
        except Exception as error:  # whatever it is, the scheduler gets a number
            self.failure = Failure(UNREACHED, f"{type(error).__name__}: {printable(str(error))}")

    def _renew(self) -> Kept:
        old = self._old
        missing = [name for name in self._wanted if name not in old.names]
        others = [name for name in self._wanted if name in old.names] + self._rest()
        if missing:
            self._look_up(missing)
            if {snapshot for _, snapshot in self._snapshots} == {old.snapshot}:
                return self._merged(old.names)
            self._look_up(others)
        else:
            parts = list(parts_of(others))
            answer = self._site.lookup(parts[0], old.snapshot) if parts else None
            if answer is None:
                age_s = old.age_s + since(old.checked_at, self._now)
                return Kept(old.snapshot, age_s, self._now, old.names)
            self._take(answer, parts[0])
            for part in parts[1:]:
                self._take(self._site.lookup(part), part)
        self._level()
        return self._merged({})

    def _rest(self) -> "List[Name]":
        """Names that others asked for within a week, the last ones first."""
        wanted = set(self._wanted)
        recent = [
            (day, key)
            for key, (_, _, day) in self._old.names.items()
            if key not in wanted and 0 <= self._day - day <= KEPT_DAYS
        ]
        recent.sort(key=lambda each: -each[0])
        return [name for _, name in recent[:MOST_KEPT]]

    def _look_up(self, names: "Sequence[Name]") -> None:
        for part in parts_of(names):
            self._take(self._site.lookup(part), part)

    def _take(self, answer: "Optional[Json]", part: "List[Name]") -> None:
        if answer is None:
            raise Failure(UNREACHED, "The site's answer can't be used.")
        snapshot, self.age_s = head_of(answer)
        self.found.update(values_of(answer, part))
        self._snapshots.append((part, snapshot))

    def _level(self) -> None:
        """Look up again what came from an older snapshot, so that factors can be compared."""
        for _ in range(ROUNDS):
            newest = max((snapshot for _, snapshot in self._snapshots), default=0)
            behind = [part for part, snapshot in self._snapshots if snapshot != newest]
            if not behind:
                return
            self._snapshots = [each for each in self._snapshots if each[1] == newest]
            for part in behind:
                self._take(self._site.lookup(part), part)

    def _merged(self, names: "Dict[str, List[Any]]") -> Kept:
        asked, merged = set(self._wanted), dict(names)
        for name, (factor, error) in self.found.items():
            before = self._old.names.get(name)
            day = self._day if before is None or name in asked else before[2]
            merged[name] = [factor, error, day]
        snapshot = min((snapshot for _, snapshot in self._snapshots), default=self._old.snapshot)
        return Kept(snapshot, self.age_s, self._now, merged)


class Answer:
    """values: by name; None is no number. source: site or cache. failure: why the site gave nothing."""

    def __init__(
        self,
        values: "Dict[Name, Value]",
        sources: "Dict[Name, str]",
        age_s: "Optional[float]",
        snapshot: int,
        failure: "Optional[Failure]",
    ) -> None:
        self.values = values
        self.sources = sources
        self.age_s = age_s
        self.snapshot = snapshot
        self.failure = failure


def look_up(names: "Sequence[Name]", options: "argparse.Namespace") -> Answer:
    """Numbers of names, from the cache, the site, or both, within --wait-s."""
    deadline = time.monotonic() + options.wait_s
    wanted = list(dict.fromkeys(names))
    try:
        token = read_token(options.token_file)
    except Failure as no_token:
        return Answer({}, {}, None, 0, no_token)
    cache = try_cache(options, token)
    kept = read_kept(cache)
    if _is_enough(kept, wanted, options) or options.wait_s <= 0:
        return _from_cache(kept, wanted, options, None)
    is_missing = any(name not in kept.names for name in wanted)
    failed = _recent_failure(cache)
    if failed is not None and not options.refresh:
        return _from_cache(kept, wanted, options, failed)
    if cache:
        # Who finds everything in the cache leaves the renewal to the one process that has the lock.
        half = deadline - options.wait_s / 2
        if not cache.lock(deadline if options.refresh else half if is_missing else 0.0):
            return _without_lock(Site(options, token), read_kept(cache), wanted, options, deadline)
        kept, failed = read_kept(cache), _recent_failure(cache)
        if failed is not None and not options.refresh:
            return _from_cache(kept, wanted, options, failed)
        if _is_enough(kept, wanted, options):
            return _from_cache(kept, wanted, options, None)
    return _renewed(Site(options, token), cache, kept, wanted, options, deadline)


def _without_lock(
    site: Site, kept: Kept, wanted: "Sequence[Name]", options: "argparse.Namespace", deadline: float
) -> Answer:
    """What is cached; and what isn't from the site, without keeping it: the process with the lock may hang."""
    answer = _from_cache(kept, wanted, options, Failure(UNREACHED, "Another process waits for the site."))
    missing = [name for name in wanted if name not in answer.values]
    if not missing or options.refresh:
        return answer
    renewal = Renewal(site, NOTHING, missing, time.time())
    renewal.run_until(deadline)
    _add_found(answer, renewal, missing)
    answer.failure = renewal.failure
    return answer


def _add_found(answer: Answer, renewal: Renewal, wanted: "Sequence[Name]") -> None:
    """And what a renewal brought, though it may not have come to its end."""
    values = dict(renewal.found)
    answer.values.update({name: values[name] for name in wanted if name in values})
    answer.sources.update({name: "site" for name in wanted if name in values})
    if values and answer.age_s is None:
        answer.age_s = renewal.age_s


def _renewed(
    site: Site,
    cache: "Optional[Cache]",
    kept: Kept,
    wanted: "Sequence[Name]",
    options: "argparse.Namespace",
    deadline: float,
) -> Answer:
    renewal = Renewal(site, kept, wanted, time.time())
    renewal.run_until(deadline)
    new = renewal.kept
    if renewal.failure is None and new is not None:
        if cache:
            cache.write(".names", vars(new))
            cache.write(".failure", {"at": _NEVER, "status": 0, "message": ""})
            cache.unlock()
        answer = _from_cache(new, wanted, options, None)
        answer.sources = {name: "site" for name in answer.sources}
        return answer
    if cache:
        _note_failure(cache, renewal, site, options)
        cache.unlock()
    answer = _from_cache(kept, wanted, options, renewal.failure)
    _add_found(answer, renewal, wanted)
    return answer


def _note_failure(cache: Cache, renewal: Renewal, site: Site, options: "argparse.Namespace") -> None:
    """So that nobody tries again for a while; but not where this host was too busy to give the site its time."""
    failure = renewal.failure
    had_time = site.asked_at is not None and time.monotonic() - site.asked_at >= options.wait_s / 2
    if failure is not None and (had_time or not renewal.is_under_way):
        cache.write(".failure", {"at": time.time(), "status": failure.status, "message": failure.message})


def _is_enough(kept: Kept, wanted: "Sequence[Name]", options: "argparse.Namespace") -> bool:
    if options.refresh or not is_fresh(kept.checked_at, time.time(), options.fresh_s):
        return False
    return all(name in kept.names for name in wanted)


def _recent_failure(cache: "Optional[Cache]") -> "Optional[Failure]":
    """The last failure while it is so young that nobody tries again; a server that hangs costs one wait, not all."""
    document = cache.read(".failure") if cache else None
    try:
        if document is None or not 0 <= time.time() - float(document["at"]) < RETRY_S:
            return None
        return Failure(int(document["status"]), str(document["message"]))
    except (KeyError, TypeError, ValueError):
        return None


def _from_cache(
    kept: Kept, wanted: "Sequence[Name]", options: "argparse.Namespace", failure: "Optional[Failure]"
) -> Answer:
    kept_s = since(kept.checked_at, time.time())
    if kept_s > options.stale_s:
        return Answer({}, {}, None, 0, failure)
    values = {}  # type: Dict[Name, Value]
    for name in wanted:
        value = kept.names.get(name)
        if value is not None:
            values[name] = (value[0], value[1])
    return Answer(values, {name: "cache" for name in values}, kept.age_s + kept_s, kept.snapshot, failure)


def get_quota(group: str, options: "argparse.Namespace") -> "Json":
    """What is left of the allocation of a group: of its own, else of the nearest group above that has one.

    In hours of --unit. As advice: the site's usage arrives with its sources' delay. What open jobs may still use is
    held, and not subtracted from what is left.
    """
    deadline = time.monotonic() + options.wait_s
    if not is_name(joined(group, "", "", "", "")):
        raise Failure(USAGE, "A group is a name, or a path such as /physics.")
    token = read_token(options.token_file)
    cache = try_cache(options, token)
    name = "\t".join((group, options.namespace, options.unit or CORE_HOUR))
    kept = _kept_quotas(cache).get(name)
    now = time.time()
    if kept is None and options.wait_s <= 0:
        raise Failure(UNREACHED, "Nothing is cached, and --wait-s is 0.")
    if kept and (is_fresh(kept["checked_at"], now, options.fresh_s) or _recent_failure(cache) or options.wait_s <= 0):
        return _quota_of(kept, options)
    is_mine = cache is None or cache.lock(0.0 if kept else deadline)
    failure = _recent_failure(cache) if is_mine else Failure(UNREACHED, "Another process waits for the site.")
    if failure is None:
        site = Site(options, token)
        asking = QuotaQuestion(site, group, options)
        asking.run_until(deadline)
        failure = asking.failure
        if failure is None:
            kept = {"checked_at": now, "quota": asking.quota}
            groups = {**_kept_quotas(cache), name: kept}
            if cache:
                cache.write(".quota", {"groups": dict(list(groups.items())[-10000:])})
        elif cache and failure.status == UNREACHED:  # a group that nobody knows says nothing about others
            _note_failure(cache, asking, site, options)
    if cache:
        cache.unlock()
    if kept is None:
        raise failure or Failure(UNREACHED, "The site gave no answer.")
    return _quota_of(kept, options)


def _kept_quotas(cache: "Optional[Cache]") -> "Json":
    document = (cache.read(".quota") if cache else None) or {}
    groups = document.get("groups")
    return groups if isinstance(groups, dict) else {}


def _quota_of(kept: "Json", options: "argparse.Namespace") -> "Json":
    kept_s = since(kept["checked_at"], time.time())
    if kept_s > options.stale_s:
        raise Failure(UNREACHED, "The site gave no answer, and what is cached is older than --stale-s.")
    return dict(kept["quota"], age_s=kept_s)


_AMOUNTS = {"allocated": "allocated", "delivered": "used", "held": "held", "remaining": "remaining"}


class QuotaQuestion(Renewal):
    """Asks for the allocation of one group, in a thread of its own."""

    def __init__(self, site: Site, group: str, options: "argparse.Namespace") -> None:
        super().__init__(site, NOTHING, [], time.time())
        self.quota = {}  # type: Json
        self._group, self._namespace, self._unit = group, options.namespace, options.unit or CORE_HOUR

    def _renew(self) -> Kept:
        path = self._group if self._group.startswith("/") else self._path_of_group()
        self.quota = self._named({"group": self._group, "entry": path, "unit": self._unit}, {})
        today = time.strftime("%Y-%m-%d", time.gmtime(self._now))
        while path.strip("/"):
            own = self._get("allocations/board", {"of": path, "unit": self._unit}).get("own")
            if own and own["starts_on"] <= today <= own["ends_on"]:
                self.quota = self._named(dict(self.quota, entry=path), own)
                break
            path = path.rstrip("/").rpartition("/")[0]
        return NOTHING

    def _named(self, quota: "Json", own: "Json") -> "Json":
        """The amounts by name; those in core-hours under their former names, too."""
        amounts = {name: own.get(of) for name, of in _AMOUNTS.items()}
        if self._unit == CORE_HOUR:
            amounts.update({name + "_core_h": amounts[name] for name in ("allocated", "delivered", "remaining")})
        return dict(quota, starts_on=own.get("starts_on"), ends_on=own.get("ends_on"), **amounts)

    def _path_of_group(self) -> str:
        name = {"group": self._group}
        if self._namespace:
            name["namespace"] = self._namespace
        body = to_json({"accounts": [name]}).encode("ascii")
        answer = self._site.ask("POST", "priorities/lookup", body) or {}
        entries = [each.get("entry") for each in answer.get("results", []) if isinstance(each, dict)]
        if not entries or not isinstance(entries[0], str):
            raise Failure(REFUSED, f"No entry is known for the group {self._group}: give its path.")
        return entries[0]

    def _get(self, path: str, query: "Dict[str, str]") -> "Json":
        from urllib.parse import urlencode

        return self._site.ask("GET", path + "?" + urlencode(query)) or {}


def complain(options: "argparse.Namespace", message: str) -> None:
    if not options.quiet:
        sys.stderr.write("fairshare-callout: {}\n".format(message.encode("ascii", "replace").decode("ascii")))


def shown(factor: float, weight: "Optional[float]") -> str:
    return repr(factor) if weight is None else str(round(factor * weight))


def report(names: "Sequence[Name]", answer: Answer, options: "argparse.Namespace", out: "Any") -> int:
    """Prints every number in the order of the names; returns the exit status."""
    fallback = (options.fallback, "no_answer")
    rows = []  # type: List[Tuple[Name, float, Optional[str], str]]
    n_without = 0
    for name in names:
        factor, error = answer.values.get(name, fallback)
        source = answer.sources.get(name, "fallback")
        if factor is None or source == "fallback":
            factor, source, n_without = options.fallback, "fallback", n_without + 1
            error = error if is_name(name) else "bad_name"
        rows.append((name, factor, error, source))
    age = answer.age_s
    if options.format == "value":
        lines = [shown(factor, options.weight) for _, factor, _, _ in rows]
    elif options.format == "columns":
        lines = [
            "\t".join(map(printable, name.split("\t")[:4]))
            + "\t{}\t{}\t{}\t{}".format(
                shown(factor, options.weight),
                "-" if age is None or source == "fallback" else int(age),
                source,
                error or "-",
            )
            for name, factor, error, source in rows
        ]
    else:
        lines = [to_json(_document(rows, answer, options))]
    out.write("".join(line + "\n" for line in lines))
    if not n_without:
        return DONE
    why = answer.failure.message if answer.failure else "No number is cached, or the name is none."
    complain(options, f"{why} (fallback {options.fallback:g} for {n_without} of {len(rows)})")
    return answer.failure.status if answer.failure else UNREACHED


def _document(
    rows: "Sequence[Tuple[Name, float, Optional[str], str]]", answer: Answer, options: "argparse.Namespace"
) -> "Json":
    results = []
    for name, factor, error, source in rows:
        user, group, namespace, project, partition = name.split("\t")[:5]
        entry = {"user": user, "factor": factor, "source": source}  # type: Json
        more = {"group": group, "namespace": namespace, "project": project, "partition": partition, "error": error}
        entry.update({field: value for field, value in more.items() if value})
        if options.weight is not None:
            entry["value"] = round(factor * options.weight)
        results.append(entry)
    return {
        "policy": options.policy,
        "snapshot": answer.snapshot or None,
        "age_s": None if answer.age_s is None else round(answer.age_s, 1),
        "failure": answer.failure.message if answer.failure else None,
        "results": results,
    }


def report_quota(quota: "Json", options: "argparse.Namespace", out: "Any") -> int:
    left = quota.get("remaining")
    text = "-" if left is None else f"{left:.2f}"
    if options.format == "json":
        out.write(to_json(quota) + "\n")
    elif options.format == "columns":
        names = ("entry", "allocated", "delivered", "starts_on", "ends_on")
        cells = [str(quota.get(name) if quota.get(name) is not None else "-") for name in names]
        more = [str(int(quota["age_s"])), printable(quota["unit"]), str(quota.get("held"))]
        out.write("\t".join([printable(quota["group"]), text, *cells, *more]) + "\n")
    else:
        out.write(text + "\n")
    return DONE


def run(arguments: "Sequence[str]", stdin: "Any", out: "Any") -> int:
    options = read_arguments(arguments)
    if options.is_quota:
        try:
            return report_quota(get_quota(options.names[1], options), options, out)
        except Failure as failure:
            out.write("-\n" if options.format != "json" else to_json({"failure": failure.message}) + "\n")
            complain(options, failure.message)
            return failure.status
    names = [] if options.refresh else names_from(options, stdin)
    try:
        answer = look_up([name for name in names if is_name(name)], options)
    except Exception as error:  # whatever it is, the scheduler gets a number
        answer = Answer({}, {}, None, 0, Failure(UNREACHED, f"{type(error).__name__}: {printable(str(error))}"))
    if options.refresh:
        if answer.failure:
            complain(options, answer.failure.message)
        return answer.failure.status if answer.failure else DONE
    return report(names, answer, options, out)


def main() -> int:
    import gc
    import io

    gc.disable()  # a short process; collecting costs a tenth of reading a large cache
    out = io.TextIOWrapper(sys.stdout.buffer, encoding="utf-8", errors="backslashreplace")
    try:
        status = run(sys.argv[1:], sys.stdin.buffer, out)
        out.flush()
        return status
    except Failure as failure:
        sys.stderr.write("fairshare-callout: {}\n".format(failure.message.encode("ascii", "replace").decode("ascii")))
        return failure.status
    except BrokenPipeError:
        return DONE
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    status = main()
    sys.stderr.flush()
    os._exit(status)  # a thread that still waits for the site must not hold the scheduler up
