"""Ask a slurmrestd: which of its parsers this release reads, and answers as whole files.

A parser is a version of the interface (v0.0.42); each Slurm offers three or four, and drops the oldest with each
release. Which of them the site loads shows /openapi/v3; where it can't be read, each is tried.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from http import HTTPStatus
from pathlib import Path
from typing import Any, BinaryIO, cast

import orjson
from django.conf import settings

from apps.core.addresses import UNIX
from apps.core.errors import Invalid, Unavailable
from apps.core.outbound import Answer, Deadline, Limits, fetch, fetch_by_socket
from apps.core.secret_files import read_secret
from apps.usage.models import Source
from apps.usage.parsers.base import excerpt
from apps.usage.parsers.slurm_values import number_of

SLURM, SLURMDB = "slurm", "slurmdb"  # what the controller knows, and what the accounting database does
NEWEST, OLDEST = 45, 38  # of the parsers v0.0.38 (Slurm 22.05) to v0.0.45 (Slurm 26.05)
PARSERS = tuple(f"v0.0.{number}" for number in range(NEWEST, OLDEST - 1, -1))  # newest first
MOST_SMALL_BYTES = 32 * 2**20  # of a specification (about ten) or another document that is loaded whole
IN_CURSOR = "daemon"  # in a source's cursor: {"parsers": name by family, "asked_s": when, in seconds since 1970}
_SPECIFICATION = "/openapi/v3"
_PATH = re.compile(r"/(slurm|slurmdb)/(v\d{1,2}\.\d{1,2}\.\d{1,3})/")
_PROBES = {SLURM: "ping", SLURMDB: "tres"}  # small answers of each
_PLUGINS = {SLURM: "openapi/slurmctld", SLURMDB: "openapi/slurmdbd"}
_PRINTED_TOKEN = "SLURM_JWT="  # noqa: S105 - how `scontrol token` prints one
_NOTHING = b'{"jobs": [], "errors": []}'  # Slurm 26.05 may answer without content (204) where the database has nothing
# slurm/slurm_errno.h: SLURM_PROTOCOL_AUTHENTICATION_ERROR, ESLURM_AUTH_*, ESLURM_REST_AUTH_FAIL
_REFUSED_TOKENS = (1007, *range(6000, 6020), 9008)
# What 24.11 and 26.05 answer for a refused token where the daemon asks slurmdbd, or lists shares: no connection to the
# database (ESLURM_DB_CONNECTION), or an error without a reason. The controller names it, where it is asked.
_AMBIGUOUS_ERRORS = (7000, -1)
_CONTROLLERS_LIST = "licenses"  # small, and in every parser
_PROBE_S = 10.0

Clock = Callable[[], datetime]


class NoSuchPath(Unavailable):
    """The daemon has no such path: it is another release, or doesn't load this plugin."""

    code = "no_such_path"


@dataclass(frozen=True, slots=True)
class Parsers:
    """Names of the parsers that are asked, by family; of one that isn't needed there is none."""

    by_family: dict[str, str]

    @property
    def label(self) -> str:
        return " and ".join(sorted(set(self.by_family.values())))


def parser_of(source: Source) -> str:
    """The parser that is asked, such as v0.0.42: of the settings, else of the last collection; "" before the first."""
    return str(source.collecting.get("version", "")) or Parsers(remembered_parsers(source.cursor)).label


def remembered_parsers(cursor: Mapping[str, Any]) -> dict[str, str]:
    """Names by family, as a source's cursor has them."""
    parsers: dict[str, str] = cursor.get(IN_CURSOR, {}).get("parsers", {})
    return parsers


def read_token(slug: str, address: str) -> str:
    """The token in the file of this name, plain or as `scontrol token` prints it; "" for a socket without such a file.

    slurmrestd knows who connects to its socket, so none is needed there.

    Raises:
        Invalid: the file is missing, readable by others, or contains no token; with the remedy.
    """
    if address.startswith(UNIX) and not (Path(settings.FAIRSHARE_SECRETS_DIR) / slug).exists():
        return ""
    return read_secret(slug).removeprefix(_PRINTED_TOKEN)


def expiry_of(token: str) -> datetime | None:
    """When a JSON Web Token expires by its own claim `exp` (RFC 7519 4.1.4); None if it has none, or is something else.

    Its signature isn't checked: the daemon does, and this only explains its refusal.
    """
    parts = token.split(".")
    if len(parts) != 3:
        return None
    try:
        claims = orjson.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
        return datetime.fromtimestamp(claims["exp"], UTC)
    except (binascii.Error, ValueError, KeyError, TypeError, OverflowError, OSError):
        return None


@dataclass(frozen=True, slots=True)
class Slurmrestd:
    """One daemon and the token for it.

    slug: of the source; its file has the token. user: the name that the token is for, or "". timeout_s: of one answer.
    """

    address: str
    slug: str
    user: str
    timeout_s: float
    clock: Clock

    def get_file(self, path: str) -> BinaryIO:
        """An answer as an unnamed temporary file, at its start; the caller closes it.

        Raises:
            Invalid: the token is missing, expired or rejected, or the address isn't open.
            NoSuchPath: the daemon doesn't know the path.
            Unavailable: no whole answer with status 200.
        """
        file = cast(BinaryIO, tempfile.TemporaryFile(dir=settings.FILE_UPLOAD_TEMP_DIR))  # noqa: SIM115 - see above
        try:
            answer = self._answer(path, int(settings.FAIRSHARE_UPLOAD_BYTES), self.timeout_s, file)
            file.seek(0)
            if answer.status == HTTPStatus.NO_CONTENT and path.startswith(f"/{SLURMDB}/"):
                file.write(_NOTHING)
                file.seek(0)
            elif answer.status != HTTPStatus.OK:
                raise self._problem(path, answer.status, file.read(MOST_SMALL_BYTES))
        except BaseException:
            file.close()
            raise
        return file

    def get_document(self, path: str, *, total_s: float | None = None) -> dict[str, Any]:
        """A small answer.

        Raises:
            As `get_file`, and Unavailable for something else than an object of JSON, or one with errors of Slurm.
        """
        answer = self._answer(path, MOST_SMALL_BYTES, total_s or self.timeout_s, None)
        if answer.status != HTTPStatus.OK:
            raise self._problem(path, answer.status, answer.body)
        document = _object_of(answer.body)
        if document is None:
            where = _without_query(path)
            message = f"{self.address} answers {where} with something else than JSON: is slurmrestd there?"
            raise Unavailable(message, code="bad_answer")
        for error in _errors_of(document):
            raise self._slurm_problem(path, error)
        return document

    def find_parsers(self, families: Sequence[str]) -> Parsers:
        """The newest parser of each family that the daemon offers and this release reads.

        Raises:
            Unavailable: a family has none, with what is offered instead and what to do; or as `get_document`.
        """
        deadline = Deadline(self.timeout_s)
        offered = self._specified(deadline)
        if not any(offered.values()):
            offered = self._tried(families, deadline)
        return Parsers({family: self._newest(family, offered) for family in families})

    def offered(self, families: Sequence[str]) -> str:
        """The parsers that it offers, for a message; as `find_parsers`."""
        specified = self._specified(Deadline(self.timeout_s))
        return _listed(name for family in families for name in specified.get(family, ()))

    def _specified(self, deadline: Deadline) -> dict[str, set[str]]:
        """The parsers in the specification; none if the daemon shows none."""
        try:
            specification = self.get_document(_SPECIFICATION, total_s=deadline.left_s())
        except Unavailable as problem:
            if problem.code not in ("no_such_path", "bad_answer", "slurm_error"):
                raise
            return {}
        paths = specification.get("paths")
        offered: dict[str, set[str]] = {SLURM: set(), SLURMDB: set()}
        for path in paths if isinstance(paths, dict) else ():
            if match := _PATH.match(path):
                offered[match[1]].add(match[2])
        return offered

    def _tried(self, families: Sequence[str], deadline: Deadline) -> dict[str, set[str]]:
        """The newest parser of each family that answers a small question, whatever it answers."""
        offered: dict[str, set[str]] = {}
        for family in families:
            for name in PARSERS:
                try:
                    self.get_document(f"/{family}/{name}/{_PROBES[family]}", total_s=deadline.left_s())
                except NoSuchPath:
                    continue
                except Unavailable as problem:
                    if problem.code != "slurm_error":  # Slurm's own word about a path that is there
                        raise
                offered[family] = {name}
                break
        return offered

    def _newest(self, family: str, offered: dict[str, set[str]]) -> str:
        names = offered.get(family, set())
        for name in PARSERS:
            if name in names:
                return name
        read = f"{PARSERS[-1]} to {PARSERS[0]}"
        if names:
            message = (
                f"{self.address} offers {_listed(names)} of /{family}, and this release reads {read}. "
                "Let slurmrestd load one of these too (its option -d), or update this service."
            )
            raise Unavailable(message, code="no_known_parser")
        message = (
            f"{self.address} answers none of /{family}/{PARSERS[-1]} to /{family}/{PARSERS[0]}. "
            f"Check the address, and that slurmrestd loads {_PLUGINS[family]} (its option -s)."
        )
        raise Unavailable(message, code="no_known_parser")

    def _answer(self, path: str, n_bytes: int, total_s: float, into: BinaryIO | None) -> Answer:
        token = read_token(self.slug, self.address)
        self._refuse_expired(token, path)
        headers = {"Accept": "application/json"}
        if token:
            headers["X-SLURM-USER-TOKEN"] = token
            headers |= {"X-SLURM-USER-NAME": self.user} if self.user else {}
        limits = Limits(n_bytes=n_bytes, total_s=total_s)
        if self.address.startswith(UNIX):
            return fetch_by_socket(self.address, path, headers=headers, limits=limits, into=into)
        return fetch(f"{self.address}{path}", headers=headers, limits=limits, into=into)

    def _refuse_expired(self, token: str, path: str) -> None:
        """Raises:
        Invalid: the token has expired, so that nothing is asked any more.
        """
        expires_at = expiry_of(token)
        if expires_at is not None and expires_at <= self.clock():
            where = _without_query(path)
            message = (
                f"The token in FAIRSHARE_SECRETS_DIR/{self.slug} expired at {expires_at:%Y-%m-%d %H:%M:%S} UTC, before "
                f"{where} was asked for. Put a new one there: scontrol token lifespan=SECONDS."
            )
            raise Invalid(message, code="token_expired")

    def _problem(self, path: str, status: int, body: bytes) -> Exception:
        """What an answer with another status than 200 means."""
        if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
            return self._token_refused(path)
        if status == HTTPStatus.NOT_FOUND:
            return NoSuchPath(f"{self.address} has no {_without_query(path)}.")
        for error in _errors_of(_object_of(body) or {}):
            return self._slurm_problem(path, error, status)
        where = _without_query(path)
        return Unavailable(f"{self.address} answers {where} with status {status}.", code="bad_answer")

    def _slurm_problem(self, path: str, error: Any, status: int = HTTPStatus.OK) -> Exception:
        """An error that Slurm reports in a document."""
        number = number_of(error.get("error_number")) if isinstance(error, dict) else None
        if number in _REFUSED_TOKENS or (number in _AMBIGUOUS_ERRORS and self._controller_refuses_token(path)):
            return self._token_refused(path)
        reason = (error.get("description") or error.get("error") or error) if isinstance(error, dict) else error
        place = f"{self.address} answers {_without_query(path)} with status {status:d}"
        message = f"{place} and an error of Slurm: {excerpt(str(reason))}."
        return Unavailable(message, code="slurm_error")

    def _controller_refuses_token(self, path: str) -> bool:
        """Whether the controller takes this token for no one's, asked with the parser of a path that has failed."""
        parser = _PATH.match(path)
        if parser is None or not read_token(self.slug, self.address):
            return False
        probe = f"/{SLURM}/{parser[2]}/{_CONTROLLERS_LIST}"
        try:
            answer = self._answer(probe, MOST_SMALL_BYTES, min(_PROBE_S, self.timeout_s), None)
        except (Invalid, Unavailable):
            return False
        errors = _errors_of(_object_of(answer.body) or {})
        return any(isinstance(each, dict) and number_of(each.get("error_number")) in _REFUSED_TOKENS for each in errors)

    def _token_refused(self, path: str) -> Exception:
        if not read_token(self.slug, self.address):
            message = (
                f"{self.address} rejects this service's user at {_without_query(path)}. "
                f"Put a token into FAIRSHARE_SECRETS_DIR/{self.slug}, or start slurmrestd with -a rest_auth/local."
            )
            return Invalid(message, code="token_refused")
        message = (
            f"The daemon rejects the token at {_without_query(path)}: replace it in its file, "
            f"FAIRSHARE_SECRETS_DIR/{self.slug}."
        )
        return Invalid(message, code="token_refused")


def _object_of(body: bytes) -> dict[str, Any] | None:
    """An object of JSON, also with the bare Infinity that v0.0.40 writes for a level of shares."""
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError:
        try:
            document = json.loads(body)
        except (ValueError, RecursionError):
            return None
    return document if isinstance(document, dict) else None


def _errors_of(document: dict[str, Any]) -> Iterable[Any]:
    errors = document.get("errors")
    return errors if isinstance(errors, list) else ()


def _without_query(path: str) -> str:
    return path.partition("?")[0]


def _listed(names: Iterable[str]) -> str:
    ordered = sorted(set(names), key=lambda name: [int(part) for part in name[1:].split(".")])
    return " and ".join(filter(None, [", ".join(ordered[:-1]), *ordered[-1:]])) or "no parser"
