#!/usr/bin/env python3
"""fairshare: your priority on the cluster, and why, in a terminal.

One file, needs only Python 3.6 or newer. It reads what you may see, and changes nothing.
Token: in FAIRSHARE_TOKEN, or in ~/.config/fairshare/token (only you may read that file).
Exit status: 0 done, 1 refused or not there, 2 wrong usage, 3 the site can't be reached, 4 older than --max-age,
or than the site allows (check).
"""

import argparse
import io
import json
import os
import re
import shutil
import signal
import socket
import ssl
import stat
import sys
import textwrap
import unicodedata
import urllib.error
import urllib.parse
import urllib.request
from datetime import datetime, timezone
from typing import Any, Dict, Iterable, List, Optional, Sequence, Tuple

SITE = ""  # the site that served this file writes its own address here
VERSION = "1"

DONE, REFUSED, USAGE, UNREACHED, STALE = 0, 1, 2, 3, 4
TIMEOUT_S = 30
MOST_BYTES = 64 * 1024 * 1024
LOOPBACK = ("localhost", "127.0.0.1", "::1")
_TOKEN = re.compile(r"fsh_[0-9A-Za-z]+_[0-9A-Za-z_-]+")
_LOCAL_TIME = re.compile(r"(\d{4}-\d\d-\d\d)(?:[ T](\d\d:\d\d)(:\d\d)?)?")
_JOB = re.compile(r"\d{1,15}(_\d{1,9})?")
_NOT_SHOWN = "not shown"
_KNOWN = {"accounts", "results", "children", "one", "terms", "jobs"}  # one of them is in every answer that is read here

Json = Dict[str, Any]


class Failure(Exception):
    """What went wrong, what to do about it, and the exit status."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


def token_path() -> str:
    home = os.environ.get("XDG_CONFIG_HOME") or os.path.join(os.path.expanduser("~"), ".config")
    return os.path.join(home, "fairshare", "token")


def read_token(site: str) -> str:
    """From the environment, else from the file; a file that others can read is refused, for they may have it by now."""
    text = os.environ.get("FAIRSHARE_TOKEN", "")
    where = "FAIRSHARE_TOKEN"
    if not text.strip():
        where = token_path()
        text = _read_private(where, site)
    text = text.strip()
    if not _TOKEN.fullmatch(text):
        raise Failure(USAGE, f"{where} holds no token: one looks like fsh_…_…. {_how_to_get(site)}")
    return text


def _read_private(path: str, site: str) -> str:
    try:
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    except FileNotFoundError:
        raise Failure(USAGE, "There is no token yet. " + _how_to_get(site))
    except OSError as error:
        raise Failure(USAGE, f"{path} can't be read: {error.strerror}.")
    try:
        state = os.fstat(handle)  # of the file that is open, whatever the name leads to by now
        if not stat.S_ISREG(state.st_mode):
            raise Failure(USAGE, f"{path} is not a file.")
        if state.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise Failure(
                REFUSED,
                f"Other users can read {path}, so its token may be known. Revoke it at {tokens_page(site)},"
                f" create a new one, and protect the file: chmod 600 {path}",
            )
        if hasattr(os, "getuid") and state.st_uid not in (os.getuid(), 0):
            raise Failure(REFUSED, f"{path} belongs to another user: keep your token in your own file.")
        return os.read(handle, 4096).decode("ascii", "replace")
    finally:
        os.close(handle)


def tokens_page(site: str) -> str:
    return site + "/me/tokens/?scope=self:read"


def _how_to_get(site: str) -> str:
    return (
        f"Make one with the scope self:read at {tokens_page(site)}, then keep it where only you can read it:\n"
        f"  (umask 077; mkdir -p {os.path.dirname(token_path())}; cat > {token_path()})   # paste it, Enter, Ctrl-D"
    )


def site_of(address: Optional[str]) -> str:
    text = (address or os.environ.get("FAIRSHARE_SITE_URL") or SITE).strip().rstrip("/")
    if not text:
        raise Failure(USAGE, "Which site? Give --site https://…, or set FAIRSHARE_SITE_URL.")
    no_address = Failure(USAGE, f"--site {clean(text)} is no address: it is like https://fairshare.example.org.")
    try:
        parts = urllib.parse.urlsplit(text)
        parts.port  # noqa: B018  it is checked when it is read
    except ValueError:
        raise no_address
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise no_address
    if parts.username is not None or parts.password is not None:
        raise Failure(USAGE, "--site takes no user name or password: the token says who you are.")
    if parts.scheme == "http" and parts.hostname not in LOOPBACK:
        raise Failure(USAGE, f"{clean(text)} would send your token in the clear: use https://.")
    return text


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A token goes to the site that was named, and nowhere else."""

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> None:
        return None


class Site:
    """Asks one site, with one token."""

    def __init__(self, address: str, token: str) -> None:
        self.address = address
        self._token = token
        handlers = [_NoRedirects()]  # type: List[urllib.request.BaseHandler]
        if address.startswith("https://"):
            handlers.append(urllib.request.HTTPSHandler(context=ssl.create_default_context()))
        else:
            handlers.append(urllib.request.ProxyHandler({}))  # this machine is reached without a proxy
        self._opener = urllib.request.build_opener(*handlers)

    def get(self, path: str, query: Optional[Json] = None) -> Json:
        parameters = {name: value for name, value in (query or {}).items() if value is not None}
        url = f"{self.address}/api/v1/{path}"
        if parameters:
            url += "?" + urllib.parse.urlencode(parameters, doseq=True)
        request = urllib.request.Request(url)
        request.add_header("Accept", "application/json")
        request.add_header("User-Agent", "fairshare-terminal/" + VERSION)
        request.add_unredirected_header("Authorization", "Bearer " + self._token)
        try:
            with self._opener.open(request, timeout=TIMEOUT_S) as answer:
                return self._read(answer)
        except urllib.error.HTTPError as error:
            with error:
                raise self._refusal(error)
        except urllib.error.URLError as error:
            raise Failure(UNREACHED, self._unreached(error.reason))
        except (socket.timeout, OSError, EOFError) as error:
            raise Failure(UNREACHED, self._unreached(error))
        except ValueError as error:  # what is no HTTP at all
            raise Failure(UNREACHED, self._unreached(error))
        except Exception as error:
            if type(error).__module__ == "http.client":
                raise Failure(UNREACHED, self._unreached(error))
            raise

    def _read(self, answer: Any) -> Json:
        body = answer.read(MOST_BYTES + 1)
        if len(body) > MOST_BYTES:
            raise Failure(UNREACHED, f"The answer of {self.address} is too long: ask for less.")
        if len(body) < int(answer.headers.get("Content-Length") or 0):
            raise Failure(UNREACHED, self._unreached("the answer broke off"))
        try:
            document = json.loads(body.decode("utf-8"))
        except ValueError:
            document = None
        if not isinstance(document, dict) or not _KNOWN & set(document):
            raise Failure(UNREACHED, f"{self.address} is not a fairshare site: check --site.")
        return document

    def _unreached(self, reason: Any) -> str:
        text = clean(str(reason)) or type(reason).__name__
        if isinstance(reason, socket.timeout) or "timed out" in text:
            return f"{self.address} did not answer within {TIMEOUT_S} s. Try again later."
        if isinstance(reason, ssl.SSLError) or "CERTIFICATE" in text:
            return (
                f"{self.address} has an invalid certificate ({text}), so nothing was sent. If the site has its own"
                " certificate authority, name its certificate in SSL_CERT_FILE."
            )
        return f"{self.address} can't be reached: {text}. Check --site, the network, or try again later."

    def _refusal(self, error: urllib.error.HTTPError) -> Failure:
        problem = _problem(error)
        detail = clean(str(problem.get("detail") or problem.get("title") or error.reason))
        for each in problem.get("fields") or []:
            line = "{}: {}".format(clean(str(each.get("where"))), clean(str(each.get("message"))))
            detail += "" if str(each.get("message")) in detail else "\n  " + line
        if 300 <= error.code < 400:
            to = clean(str(error.headers.get("Location", "another place")))
            message = (
                "{} redirects to {}. Your token is not sent there: if the new address is right, give it with --site."
            )
            return Failure(UNREACHED, message.format(self.address, to))
        if error.code == 401:
            return Failure(REFUSED, f"The token is not valid: {detail} {_how_to_get(self.address)}")
        if error.code == 403 and problem.get("code") == "insufficient_scope":
            return Failure(REFUSED, f"{detail} {_how_to_get(self.address)}")
        if error.code in (400, 422):
            return Failure(USAGE, detail)
        if error.code == 404 and problem.get("code") is None:
            return Failure(UNREACHED, f"{self.address} is not a fairshare site.")
        if error.code == 429 or error.code >= 500:
            later = error.headers.get("Retry-After")
            wait = f" Try again in {clean(later)} s." if later else " Try again later."
            return Failure(UNREACHED, detail + wait)
        return Failure(REFUSED, detail)


def _problem(error: urllib.error.HTTPError) -> Json:
    try:
        document = json.loads(error.read(100000).decode("utf-8"))
    except Exception:  # whatever it is, the status is said anyway
        return {}
    return document if isinstance(document, dict) else {}


def clean(text: str) -> str:
    """Without what would steer the terminal, or turn the direction of reading."""
    return "".join(c for c in text if unicodedata.category(c) not in ("Cc", "Cf", "Zl", "Zp"))


def columns_of(text: str) -> int:
    """Display width: two for wide characters, none for combining marks."""
    wide = sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)
    return wide - sum(1 for c in text if unicodedata.combining(c))


def cut(text: str, width: int) -> str:
    if columns_of(text) <= width:
        return text
    head = ""
    for character in text:
        if columns_of(head + character) > width - 1:
            break
        head += character
    return head + "~"


def padded(text: str, width: int, right: bool = False) -> str:
    space = " " * max(width - columns_of(text), 0)
    return space + text if right else text + space


class Page:
    """Lines for a terminal or a pipe."""

    def __init__(self, width: int, colour: bool) -> None:
        self.width = width
        self._colour = colour
        self.lines = []  # type: List[str]

    def line(self, text: str = "") -> None:
        self.lines.append(text.rstrip())

    def paragraph(self, text: str, indent: str = "", bullet: str = "") -> None:
        first, rest = indent + bullet, indent + " " * len(bullet)
        lines = textwrap.wrap(
            clean(text), self.width, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False
        )
        self.lines.extend(lines)

    def note(self, text: str) -> None:
        for line in textwrap.wrap(clean(text), self.width):
            self.line(self.styled(line, "2"))

    def heading(self, left: str, right: str = "") -> None:
        room = self.width - columns_of(right) - 2
        if right and room < min(columns_of(left), 24):
            self.line(self.styled(cut(left, self.width), "1"))
            self.line("  " + right)
            return
        self.line(self.styled(padded(cut(left, room), room), "1") + "  " + right if right else self.styled(left, "1"))

    def styled(self, text: str, code: str) -> str:
        return f"\033[{code}m{text}\033[0m" if self._colour and code else text

    def table(self, head: Sequence[str], rows: Sequence[Sequence[str]], numbers: Sequence[int], grows: int) -> None:
        """numbers: right-aligned columns. grows: the column that is cut where the line is too long."""
        widths = [max(map(columns_of, column)) for column in zip(head, *rows)]
        others = sum(widths) - widths[grows] + 2 * (len(widths) - 1)
        widths[grows] = max(min(widths[grows], self.width - others), 8)
        for at, row in enumerate([head, *rows]):
            cells = []
            for place, cell in enumerate(row):
                text = padded(cut(cell, widths[place]), widths[place], right=place in numbers)
                cells.append(self.styled(text, "2" if at == 0 else _COLOUR.get(cell, "")))
            self.line("  ".join(cells))


_COLOUR = {"over": "33", "under": "36"}


def percent(value: Any, decimals: int = 1) -> str:
    return "-" if value is None else f"{100 * float(value):.{decimals}f} %"


def beside(row: Json) -> List[str]:
    """Target, actual and their difference in points, with the decimals at which the difference shows, at most three."""
    target, actual = row.get("target"), row.get("actual")
    if row.get("suppressed"):
        return [percent(target), _NOT_SHOWN, ""]
    if target is None or actual is None:
        return [percent(target), percent(actual), "-"]
    decimals = 1
    if abs(actual - target) >= 0.000_005:  # what is closer is shown as equal
        while decimals < 3 and round(100 * actual, decimals) == round(100 * target, decimals):
            decimals += 1
    points = round(100 * actual, decimals) - round(100 * target, decimals)
    return [percent(target, decimals), percent(actual, decimals), f"{points + 0.0:+.{decimals}f}"]


def number(value: Any) -> str:
    if value is None:
        return "-"
    return value if isinstance(value, str) else f"{value:g}"


def whole(value: Any) -> str:
    return "-" if value is None else f"{value:,.0f}"


def factor_of(value: Any) -> str:
    return "-" if value is None else f"{value:.4f}"


def instant(text: Optional[str]) -> Optional[datetime]:
    """RFC 3339 in UTC, as the site writes it."""
    match = re.match(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)", text or "")
    return datetime.strptime(match.group(1) + "+0000", "%Y-%m-%dT%H:%M:%S%z") if match else None


def local(at: datetime) -> str:
    return at.astimezone().strftime("%Y-%m-%d %H:%M %Z")


def age(seconds: float) -> str:
    for size, word in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds // size:.0f} {word}"
    return f"{max(seconds, 0):.0f} s"


def asked_at(text: Optional[str]) -> Optional[str]:
    """A day or a time without zone means here; all else the site understands, or says why not."""
    match = _LOCAL_TIME.fullmatch(text.strip()) if text else None
    if text is None or match is None:
        return text
    try:
        naive = datetime.strptime(match.group(1) + " " + (match.group(2) or "23:59"), "%Y-%m-%d %H:%M")  # noqa: DTZ007
        return naive.astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (ValueError, OverflowError, OSError):
        raise Failure(USAGE, f"--at {clean(text)} is not a date.")


def me(site: Site, options: argparse.Namespace) -> Tuple[Json, "Printer"]:
    document = site.get("me", {"policy": options.policy, "at": options.at})
    hours = {}  # type: Json
    if document.get("accounts") and not options.at and not options.json:
        try:
            hours = own_allocations(site, options)
        except Failure:  # a site without allocations, or an older one, still says the priority
            hours = {}

    def print_both(page: Page, answer: Json) -> None:
        print_my_priority(page, answer)
        if hours.get("results"):
            page.line()
            page.line(page.styled("Allocations", "1"))
            _allocation_table(page, hours["results"])

    return document, print_both


def rank(site: Site, options: argparse.Namespace) -> Tuple[Json, "Printer"]:
    return site.get("me", {"policy": options.policy, "at": options.at}), print_accounts


def allocations(site: Site, options: argparse.Namespace) -> Tuple[Json, "Printer"]:
    _refuse_instant(options, "Allocations")
    return own_allocations(site, options), print_allocations


def own_allocations(site: Site, options: argparse.Namespace) -> Json:
    return site.get("me/allocations", {"policy": options.policy})


def report(site: Site, options: argparse.Namespace) -> Tuple[Json, "Printer"]:
    _refuse_instant(options, "Allocations")
    asked = {"of": options.group, "unit": options.unit}
    return site.get(_of_policy(site, options, "allocations/board"), asked), print_board


def check(site: Site, options: argparse.Namespace) -> Tuple[Json, "Printer"]:
    _refuse_instant(options, "Checks")

    def print_check(page: Page, document: Json) -> None:
        print_state(page, site.address, document)

    return site.get("me", {"policy": options.policy}), print_check


def why(site: Site, options: argparse.Namespace) -> Tuple[Json, "Printer"]:
    """Of a waiting job, of an own account or entry, or why another one is ahead, by what the name is."""
    if options.mine:
        return compared(site, options), print_comparison
    if not options.what:
        return explained(site, options), print_walk
    refusal = None
    if _JOB.fullmatch(options.what):
        try:
            return job(site, options), print_waiting
        except Failure as no_job:
            if no_job.status != REFUSED:
                raise
            refusal = no_job  # an account may have a number as its name
    document = explained(site, options)
    if document.get("accounts"):
        return document, print_walk
    try:
        return compared(site, options), print_comparison
    except Failure as hidden:
        if hidden.status != REFUSED:
            raise
    message = f"No account {clean(options.what)} is yours or visible to you. List your accounts with `fairshare rank`."
    raise refusal or Failure(REFUSED, message)


def explained(site: Site, options: argparse.Namespace) -> Json:
    entry = options.what if options.what and options.what.startswith("/") else None
    account = None if entry else options.what
    return site.get("me/explain", {"policy": options.policy, "at": options.at, "account": account, "entry": entry})


def job(site: Site, options: argparse.Namespace) -> Json:
    return site.get(_of_policy(site, options, "why"), {"job": options.what})


def compared(site: Site, options: argparse.Namespace) -> Json:
    pair = {"one": options.mine, "other": options.what, "at": options.at}
    return site.get(_of_policy(site, options, "compare"), pair)


def group(site: Site, options: argparse.Namespace) -> Tuple[Json, "Printer"]:
    asked = {"path": options.path, "depth": options.depth, "at": options.at}
    return site.get(_of_policy(site, options, "tree"), asked), print_tree


def _refuse_instant(options: argparse.Namespace, what: str) -> None:
    if options.at:
        raise Failure(USAGE, f"{what} are those of now: leave out --at.")


def _of_policy(site: Site, options: argparse.Namespace, route: str) -> str:
    policy = options.policy or _only_policy(site)
    return "policies/{}/{}".format(urllib.parse.quote(policy, safe=""), route)


def _only_policy(site: Site) -> str:
    """The one of the best account, else the only one there is."""
    policies = [account["policy"] for account in site.get("me").get("accounts", []) if account.get("entry")]
    if policies:
        return str(policies[0])
    try:
        names = [str(policy["slug"]) for policy in site.get("policies").get("results", [])]
    except Failure as failure:
        if failure.status != REFUSED:
            raise
        raise Failure(REFUSED, "None of your accounts has an entry: name the policy with --policy.")
    if len(names) != 1:
        which = "one of: {}".format(", ".join(map(clean, names))) if names else "its name"
        raise Failure(USAGE, f"Which policy? Give --policy with {which}.")
    return names[0]


def _texts(value: Any) -> List[str]:
    """Sentences of a list, or of one."""
    items = value if isinstance(value, list) else [value] if value else []
    return [str(item.get("text", "")) for item in items if isinstance(item, dict)]


def _title(account: Json) -> str:
    group = " ({})".format(clean(account["group"])) if account.get("group") else ""
    return "{}{} in {}".format(clean(account["account"]), group, clean(account.get("policy_name") or account["policy"]))


def _place(account: Json) -> str:
    if account.get("rank") is None:
        return "" if account.get("error") else "no rank"
    return "rank {} of {}, factor {}".format(account["rank"], account["of"], factor_of(account.get("factor")))


def _freshness(page: Page, document: Json) -> None:
    at = instant(document.get("as_of"))
    if at is None:
        return
    words = f"As of {local(at)}"
    if not document.get("moment") and document.get("age_s") is not None:
        words += ", {} ago".format(age(document["age_s"]))
    words += "; revision {}, snapshot {}.".format(document.get("revision"), document.get("snapshot"))
    page.note(words)
    _notes(page, document)
    for text in _texts(document.get("stale")):
        page.paragraph(text)


def _notes(page: Page, document: Json) -> None:
    """Of a past instant: the source of the numbers, and what became known later."""
    for text in _texts((document.get("moment") or {}).get("notes")):
        page.paragraph(text)


def _story(page: Page, account: Json) -> None:
    page.heading(_title(account), _place(account))
    if account.get("entry"):
        page.line("  " + clean(account["entry"]))
    texts = _texts(account.get("sentences")) or [str(account.get("sentence", ""))]
    page.paragraph(texts[0], indent="  ")
    page.paragraph(" ".join(texts[1:]), indent="  ")


def _answers(page: Page, account: Json) -> None:
    for label, name in (("When: ", "when"), ("What changes it: ", "changes")):
        texts = _texts(account.get(name))
        if texts:
            page.paragraph(" ".join(texts), indent="  ", bullet=label)


def print_my_priority(page: Page, document: Json) -> None:
    own_accounts = document.get("accounts", [])
    if not own_accounts:
        page.paragraph("No account is linked to your login.")
        return
    best = own_accounts[0]
    _story(page, best)
    _answers(page, best)
    if len(own_accounts) > 1:
        page.line()
        page.line(page.styled("Your other accounts", "1"))
        _account_table(page, own_accounts[1:])
    page.line()
    _freshness(page, best)


def print_accounts(page: Page, document: Json) -> None:
    own_accounts = document.get("accounts", [])
    if not own_accounts:
        page.paragraph("No account is linked to your login.")
        return
    _account_table(page, own_accounts)


def _account_table(page: Page, own_accounts: Sequence[Json]) -> None:
    rows = []
    for account in own_accounts:
        rank = "-" if account.get("rank") is None else "{} of {}".format(account["rank"], account["of"])
        where = account.get("entry") or {"no_snapshot": "(nothing computed)"}.get(
            account.get("error") or "", "(no entry)"
        )
        rows.append(
            [clean(account["policy"]), clean(account["account"]), clean(where), rank, factor_of(account.get("factor"))]
        )
    page.table(["policy", "account", "entry", "rank", "factor"], rows, numbers=(3, 4), grows=2)


def print_state(page: Page, address: str, document: Json) -> None:
    """What the site knows of the token's owner, and how old its numbers are."""
    token = document.get("token") or {}
    page.heading(clean(address))
    page.paragraph(
        "It answers {}, whose token has {}{}.".format(
            document["username"],
            ", ".join(token.get("scopes") or ["no scope"]),
            ", and reaches {} alone".format(token["policy"]) if token.get("policy") else "",
        )
    )
    own_accounts = document.get("accounts", [])
    if own_accounts:
        page.line()
        page.table(
            ["policy", "account", "entry", "numbers"], [_state_row(each) for each in own_accounts], (3,), grows=2
        )
    for account in own_accounts:
        for text in _texts(account.get("stale")) or (_texts(account.get("sentences")) if account.get("error") else []):
            page.paragraph(text)


def _state_row(account: Json) -> List[str]:
    numbers = "none" if account.get("age_s") is None else age(account["age_s"]) + " old"
    return [clean(account["policy"]), clean(account["account"]), clean(account.get("entry") or "(no entry)"), numbers]


def findings(document: Json) -> Iterable[Tuple[int, str]]:
    """What `check` complains of: exit statuses with what is wrong."""
    if not document.get("accounts"):
        yield REFUSED, "No account is linked to your login."
    for account in document.get("accounts", []):
        name = "{} in {}".format(clean(account["account"]), clean(account["policy"]))
        if account.get("error"):
            yield REFUSED, f"{name} has no rank."
        if account.get("stale"):
            yield STALE, f"The numbers of {name} are too old."


_COURSE = {
    "used_up": "used up", "runs_out": "runs out", "unused": "won't be used", "early": "too early to say",
    "on_course": "on course", "not_begun": "not begun", "ended": "ended", "unknown": "no usage data",
}  # fmt: skip


def hours_of(value: Any) -> str:
    """Hours of a unit: whole ones, one decimal below ten."""
    if value is None:
        return _NOT_SHOWN
    return f"{value:,.1f}" if 0 < abs(value) < 10 else f"{value:,.0f}"


def course_of(row: Json) -> str:
    """How it ends if use goes on."""
    state = str(row.get("state"))
    word = _NOT_SHOWN if row.get("suppressed") else _COURSE.get(state, clean(state))
    if row.get("runs_out_on"):
        return "used up {}".format(clean(str(row["runs_out_on"])))
    if state in ("unused", "ended") and row.get("unused"):
        return "{} unused".format(hours_of(row["unused"]))
    return word


def _allocation_cells(row: Json, unit: str) -> List[str]:
    amounts = [hours_of(row.get(name)) for name in ("used", "allocated", "remaining")]
    return [clean(str(row["path"])), *amounts, unit, clean(str(row["ends_on"])), course_of(row)]


_ALLOCATION_HEAD = ["entry", "used", "of", "left", "unit", "until", "if use goes on"]


def _allocation_table(page: Page, results: Sequence[Json]) -> None:
    rows = [_allocation_cells(each["row"], clean(str(each["unit"]))) for each in results]
    page.table(_ALLOCATION_HEAD, rows, numbers=(1, 2, 3), grows=0)


def print_allocations(page: Page, document: Json) -> None:
    results = document.get("results", [])
    if not results:
        page.paragraph("None of your entries has an allocation.")
        return
    policies = list(dict.fromkeys(each["policy"] for each in results))
    for at, policy in enumerate(policies):
        own = [each for each in results if each["policy"] == policy]
        if at:
            page.line()
        page.line(page.styled(clean(str(own[0]["policy_name"])), "1"))
        _allocation_table(page, own)
        _held(page, [(each["row"], clean(str(each["unit"]))) for each in own])


def print_board(page: Page, document: Json) -> None:
    unit, own = clean(str(document["unit"])), document.get("own")
    rows = ([own] if own else []) + list(document.get("results", []))
    if not rows:
        page.paragraph(f"No {unit} are allocated there now.")
        return
    page.table(_ALLOCATION_HEAD, [_allocation_cells(row, unit) for row in rows], numbers=(1, 2, 3), grows=0)
    give = document.get("to_give")
    if give:
        words = "{} of {} {} can still be allocated until {}."
        page.paragraph(words.format(hours_of(give["amount"]), hours_of(give["of"]), unit, clean(str(give["ends_on"]))))
    if document.get("next"):
        page.note("There are more: see the page Allocations.")
    _held(page, [(row, unit) for row in rows])


def _held(page: Page, rows: Sequence[Tuple[Json, str]]) -> None:
    """What running and waiting jobs may still use, which isn't part of what is used."""
    for row, unit in rows:
        if row.get("held"):
            page.note("{}: open jobs may use {} {}.".format(clean(str(row["path"])), hours_of(row["held"]), unit))


def print_walk(page: Page, document: Json) -> None:
    own_accounts = document.get("accounts", [])
    if not own_accounts:
        page.paragraph("No account is linked to your login.")
    for at, account in enumerate(own_accounts):
        if at:
            page.line()
        _story(page, account)
        if account.get("steps"):
            page.line()
            _levels(page, account["steps"])
            page.line()
        for text in _texts(account.get("number")):
            page.paragraph(text, indent="  ")
        _answers(page, account)
        for text in _texts(account.get("since_yesterday")):
            page.paragraph(text, indent="  ")
        _freshness(page, account)


_TERMS = {
    "assoc": "association", "fairshare": "scheduler's own fair share", "jobsize": "job size", "qos": "QOS",
    "site": "Fairshare", "nice": "nice value",
}  # fmt: skip


def jobs(site: Site, options: argparse.Namespace) -> Tuple[Json, "Printer"]:
    _refuse_instant(options, "Waiting jobs")
    return site.get("me/waiting-jobs", {"policy": options.policy or _only_policy(site)}), print_jobs


def print_jobs(page: Page, document: Json) -> None:
    """Own waiting jobs, best first, and when each starts."""
    rows = list(document.get("jobs") or [])
    if not rows:
        page.paragraph("No job of yours waits.")
    for at, row in enumerate(rows):
        if at:
            page.line()
        task = "_{}".format(clean(str(row["array_task"]))) if row.get("array_task") else ""
        page.heading("Job {}{}".format(clean(str(row["job"])), task), clean(str(row["source"])))
        place = (
            "no place in the order"
            if row.get("position") is None
            else "number {} of {}".format(whole(row["position"]), whole(row["of"]))
        )
        where = " in {}".format(clean(str(row["partition"]))) if row.get("partition") and row.get("position") else ""
        page.paragraph("{}{}; waits for: {}".format(place, where, clean(str(row.get("held_by") or "its turn"))))
        _start(page, row.get("start"))
    for queue in document.get("unread") or []:
        page.note("The queue of {} could not be read: jobs may be missing.".format(clean(str(queue["scheduler"]))))
    at_text = instant(document.get("seen_at"))
    if at_text is not None:
        page.note(f"Queue as of {local(at_text)}.")


def _start(page: Page, start: Optional[Json]) -> None:
    """When a job starts, with a probability, in the site's sentences."""
    for name in ("text", "first_text", "note_text", "record_text"):
        text = (start or {}).get(name)
        if text:
            page.paragraph(clean(str(text)))


def print_waiting(page: Page, document: Json) -> None:
    job, reason = document["job"], document["reason"]
    page.heading("Job {} waits".format(clean(str(job["job"]))), clean(str(document["scheduler"])))
    page.paragraph(clean(str(reason["text"])))
    if document.get("rank_use_text"):
        page.paragraph(clean(str(document["rank_use_text"])))
    _start(page, document.get("start"))
    if document["terms"]:
        rows = [
            [_TERMS.get(term["name"], clean(str(term["name"]))), whole(term["value"]), percent(term["share"])]
            for term in document["terms"]
            if term["value"]
        ]
        page.line()
        page.table(["term of the priority", "value", "share"], rows, numbers=[1, 2], grows=0)
    if document.get("priorities_text"):
        page.line()
        page.paragraph(clean(str(document["priorities_text"])))
    if document.get("priorities"):
        rows = [
            [
                *(clean(str(each[name])) or "–" for name in ("partition", "qos")),
                whole(each["priority"]),
                "–" if each["ahead"] is None else whole(each["ahead"]),
            ]
            for each in document["priorities"]
        ]
        page.table(["partition", "QOS", "priority", "jobs ahead"], rows, numbers=[2, 3], grows=0)
    if document["ahead"] is not None:
        page.line()
        page.paragraph(clean(str(document["ahead_text"])))
        rows = [[clean(str(group["path"])) or "other groups", whole(group["jobs"])] for group in document["groups"]]
        if rows:
            page.table(["group", "jobs"], rows, numbers=[1], grows=0)
    at = instant(document["taken_at"])
    if at is not None:
        page.note(f"Queue as of {local(at)}.")


def print_comparison(page: Page, document: Json) -> None:
    first, second = document["one"], document["other"]
    page.heading("{} and {} in {}".format(clean(first["name"]), clean(second["name"]), clean(document["policy"])))
    for text in _texts(document.get("sentences")) or [str(document.get("sentence", ""))]:
        page.paragraph(text, indent="  ")
    page.line()
    rows = []
    for side in (first, second):
        word = {document.get("ahead"): "ahead", document.get("behind"): "behind"}.get(side["entry"], "tie")
        rows.append(
            [clean(side["entry"]), "{} of {}".format(side["rank"], document["of"]), factor_of(side["factor"]), word]
        )
    page.table(["entry", "rank", "factor", ""], rows, numbers=(1, 2), grows=0)
    for text in _texts(document.get("rank_use")):
        page.paragraph(text)
    steps = [step for step in (document.get("ahead_step"), document.get("behind_step")) if step]
    if steps:
        page.line()
        page.line(page.styled("Main reason", "1"))
        _sides(page, steps)
    page.line()
    _freshness(page, document)


def _sides(page: Page, steps: Sequence[Json]) -> None:
    rows = []
    for step in steps:
        rows.append([clean(step["entry"]), *beside(step), clean(step["state"])])
    page.table(["entry", "target", "actual", "points", ""], rows, numbers=(1, 2, 3), grows=0)


def _levels(page: Page, steps: Sequence[Json]) -> None:
    rows = []
    for at, step in enumerate(steps):
        mark = "*" if step.get("decides") else " "
        name = "{} {}{}".format(mark, "  " * at, clean(step["name"]))
        ahead = "-" if step.get("n_ahead") is None else "{} of {}".format(step["n_ahead"], step["n_siblings"])
        rows.append([name, *beside(step), clean(step["state"]), ahead])
    page.table(["  level", "target", "actual", "points", "", "ahead"], rows, numbers=(1, 2, 3, 5), grows=0)
    if any(step.get("decides") for step in steps):
        page.note("* the main reason")
    _compared_by(page, steps)
    for step in steps:
        for sentence in step.get("sentences") or []:
            if str(sentence.get("key", "")).startswith("walk.local_only"):
                page.paragraph("{}: {}".format(clean(step["name"]), sentence.get("text", "")))


def _compared_by(page: Page, steps: Sequence[Json]) -> None:
    """Whose usage the levels are compared by, neighbours of the same together."""
    groups = []  # type: List[Tuple[str, List[str]]]
    for step in steps:
        words = scope_words(step.get("compared_by"))
        if words and groups and groups[-1][0] == words:
            groups[-1][1].append(clean(step["name"]))
        elif words:
            groups.append((words, [clean(step["name"])]))
    if groups:
        page.note("Compared by {}.".format("; ".join("{}: {}".format(words, ", ".join(of)) for words, of in groups)))


def scope_words(scope: Any) -> str:
    """Local usage, or global usage, only of cluster; "" where the site doesn't say."""
    if not isinstance(scope, dict) or not scope.get("scope"):
        return ""
    sources = scope.get("sources") or []
    only = ", only of {}".format(", ".join(clean(source) for source in sources)) if sources else ""
    return "{} usage{}".format(clean(scope["scope"]), only)


def print_tree(page: Page, document: Json) -> None:
    rows = []  # type: List[List[str]]
    _branch(document, 0, rows)
    page.table(["entry", "shares", "target", "actual", "points", ""], rows, numbers=(1, 2, 3, 4), grows=0)
    page.line()
    for path, words in _scopes(document):
        page.note(f"Entries below {path} are compared by {words}.")
    at = instant(document.get("as_of"))
    words = "nothing computed yet" if at is None else f"as of {local(at)}"
    page.note("{}, revision {}; {}.".format(clean(document["policy"]), document.get("revision"), words))
    _notes(page, document)


def _branch(top: Json, level: int, rows: List[List[str]]) -> None:
    """Depth first, without recursion: a tree may be deep."""
    waiting = [(top, level)]  # type: List[Tuple[Optional[Json], int]]
    while waiting:
        entry, depth = waiting.pop()
        if entry is None:
            rows.append(["  " * depth + "(more, not visible to you)", "", "", "", "", ""])
            continue
        shares = "inherit" if entry.get("shares") is None else number(entry["shares"])
        state = "" if entry.get("suppressed") or entry.get("state") == "unknown" else clean(entry["state"])
        name = "  " * depth + (clean(entry["name"]) or "/")
        rows.append([name, shares, *beside(entry), state])
        if entry.get("hidden_children") and entry.get("children"):
            waiting.append((None, depth + 1))
        waiting += [(child, depth + 1) for child in reversed(entry.get("children", []))]


def _scopes(top: Json) -> List[Tuple[str, str]]:
    """By whose usage children are compared: those of the top, and those of each entry below it that states it."""
    scopes = [(clean(top["path"]), scope_words(top.get("compared_by")))]
    waiting = list(reversed(top.get("children", [])))
    while waiting:
        entry = waiting.pop()
        if entry.get("scope") and (entry.get("n_children") or entry.get("hidden_children")):
            stated = {"scope": entry["scope"], "sources": entry.get("scope_sources")}
            scopes.append((clean(entry["path"]), scope_words(stated)))
        waiting += reversed(entry.get("children", []))
    return [(path, words) for path, words in scopes if words]


Printer = Any  # a function of a page and an answer: 3.6 has no name for it that says more


def parser() -> argparse.ArgumentParser:
    shared = argparse.ArgumentParser(add_help=False, argument_default=argparse.SUPPRESS)
    shared.add_argument("--json", action="store_true", help="the site's answer as JSON, for scripts")
    shared.add_argument("--policy", metavar="NAME", help="only this policy")
    shared.add_argument("--at", metavar="WHEN", help="past time: 2026-11-17, '2026-11-17 14:00', or a revision")
    shared.add_argument("--site", metavar="URL", help="default: {}".format(SITE or "$FAIRSHARE_SITE_URL"))
    shared.add_argument("--width", metavar="N", type=int, help="columns, 40 or more (the terminal's, else 80)")
    shared.add_argument("--max-age", metavar="S", type=int, help="exit with 4 if numbers are older than S seconds")
    lines = (__doc__ or "").split("\n\n")
    top = argparse.ArgumentParser(
        prog="fairshare",
        description=lines[0].partition(": ")[2],
        epilog=lines[1],
        parents=[shared],
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action="version", version="fairshare " + VERSION)
    commands = top.add_subparsers(dest="command", metavar="COMMAND")
    what, path, group, former_group = (argparse.ArgumentParser(add_help=False) for _ in range(4))
    what.add_argument("what", nargs="?", help="an account or its entry (/group/name), yours or not, or a waiting job")
    what.add_argument("mine", nargs="?", help="your account beside another's (default: the best)")
    path.add_argument("path", nargs="?", help="from this entry down (/group)")
    path.add_argument("--depth", type=int, default=64, metavar="N", help="number of levels (default: all)")
    group.add_argument("group", nargs="?", help="the group (/group; default: the whole policy)")
    group.add_argument("--unit", metavar="SYMBOL", help="such as GPU-h")
    former_group.add_argument("group", nargs="?", help=argparse.SUPPRESS)
    former_group.add_argument("--unit", help=argparse.SUPPRESS)
    for name, texts, taken in (
        ("me", "your rank, the reason, and what to do", []),
        ("rank", "your accounts, best first", []),
        ("why", "your priority level by level, why a job waits, or who is ahead", [what]),
        ("jobs", "your waiting jobs, and when each starts", []),
        ("group", "your path through the tree, and other visible entries", [path]),
        ("allocations", "what is left of your allocations, in each unit", [former_group]),
        ("report", "what is left of a group's allocations, and of all below it", [group]),
        ("check", "whether site, token, accounts and numbers are in order", []),
        ("accounts", "", []), ("compare", "", [what]), ("tree", "", [path]),
    ):  # fmt: skip
        listed = {"help": texts} if texts else {}  # type: Dict[str, Any]
        commands.add_parser(name, parents=[shared, *taken], argument_default=argparse.SUPPRESS, **listed)
    return top


COMMANDS = {
    "me": me, "rank": rank, "why": why, "jobs": jobs, "group": group, "allocations": allocations, "report": report,
    "check": check,
}  # fmt: skip
FORMER = {"accounts": "rank", "compare": "why", "tree": "group"}  # commands by their names of before


def present_name(options: argparse.Namespace, notes: Any) -> str:
    """What a command of a former name is called now; a note says so."""
    now = FORMER.get(options.command)
    if options.command == "allocations" and options.group:
        now = "report"
    if now is None:
        return str(options.command)
    notes.write(f"fairshare: `{options.command}` has become `fairshare {now}`.\n")
    notes.flush()
    return now


def read_arguments(arguments: Sequence[str], notes: Any) -> argparse.Namespace:
    top = parser()
    options = top.parse_args(list(arguments))
    for name, value in (
        ("json", False),
        ("policy", None),
        ("at", None),
        ("site", None),
        ("width", None),
        ("max_age", None),
    ):
        setattr(options, name, getattr(options, name, value))
    if options.command is None:
        top.print_usage(sys.stderr)
        raise Failure(USAGE, "Choose a command: {}.".format(", ".join(COMMANDS)))
    if options.width is not None and not 40 <= options.width <= 1000:
        raise Failure(USAGE, "--width must be 40 to 1000.")
    if options.max_age is not None and options.max_age < 0:
        raise Failure(USAGE, "--max-age must be a number of seconds, 0 or more.")
    options.at = asked_at(options.at)
    options.command = present_name(options, notes)
    return options


def ages(document: Json) -> Iterable[float]:
    """Of all numbers in an answer."""
    for part in [document, *document.get("accounts", [])]:
        at = instant(part.get("as_of"))
        if at is not None:
            known = part.get("age_s")
            yield known if known is not None else (datetime.now(timezone.utc) - at).total_seconds()


def run(arguments: Sequence[str], out: Any, notes: Any) -> int:
    options = read_arguments(arguments, notes)
    address = site_of(options.site)
    document, print_document = COMMANDS[options.command](Site(address, read_token(address)), options)
    if options.json:
        out.write(json.dumps(document, indent=2, ensure_ascii=False) + "\n")
    else:
        is_terminal = bool(getattr(out, "isatty", lambda: False)())
        width = options.width or (shutil.get_terminal_size((80, 24)).columns if is_terminal else 80)
        colour = is_terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM", "") != "dumb"
        page = Page(max(width, 40), colour)
        print_document(page, document)
        out.write("\n".join(page.lines) + "\n")
    out.flush()
    oldest = max(ages(document), default=None)
    if options.max_age is not None and (oldest is None or oldest > options.max_age):
        words = "There are no numbers yet." if oldest is None else f"The numbers are {age(oldest)} old."
        raise Failure(STALE, words)
    for status, what in findings(document) if options.command == "check" else ():
        raise Failure(status, what)
    return DONE


def main() -> int:
    if hasattr(signal, "SIGPIPE"):
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # `fairshare group | head` ends without a word
    streams = []
    for stream in (sys.stdout, sys.stderr):  # a name that this terminal can't show is no reason to fail
        encoding = getattr(stream, "encoding", None) or "ascii"
        streams.append(io.TextIOWrapper(stream.buffer, encoding=encoding, errors="backslashreplace"))
    out, complaints = streams
    try:
        return run(sys.argv[1:], out, complaints)
    except Failure as failure:
        out.flush()
        complaints.write(f"fairshare: {failure.message}\n")
        complaints.flush()
        return failure.status
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
