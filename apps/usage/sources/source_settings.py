"""Validate the settings of each kind of source, with a problem and remedy for each invalid field."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from apps.core.addresses import UNIX, socket_target, target_of
from apps.core.errors import DomainError, FieldProblem, Invalid
from apps.usage.models import Source
from apps.usage.parsers.registry import AUTO, FORMATS
from apps.usage.sources.growing_files import allowed_folder
from apps.usage.sources.programs import LONGEST_COMMAND, MOST_ARGUMENTS, allowed_program
from apps.usage.sources.slurmrestd import PARSERS

PREFIX = "collecting."
_VERSION = re.compile(r"(?:v\d{1,2}\.\d{1,2}\.\d{1,3})?")
_USER = re.compile(r"[A-Za-z0-9_.@-]{0,64}")
DAY_S = 86400

Problems = list[FieldProblem]

_WINDOWS = {"overlap_s": 3600, "look_back_s": 7 * DAY_S, "timeout_s": 300}
_KNOWN: dict[str, dict[str, Any]] = {
    Source.Kind.PUSH: {},
    Source.Kind.DIRECTORY: {
        **{"folder": "", "pattern": "*", "files": "whole", "format": AUTO, "settle_s": 60},
        **{"listing": [], "timeout_s": 300},
    },
    Source.Kind.COMMAND: {"command": [], "format": AUTO, "listing": [], **_WINDOWS},
    Source.Kind.SLURM_REST: {
        **{"address": "", "version": "", "user": "", "accounting": True, "queue": True},
        "reservations": False,
        **_WINDOWS,
    },
}


def validate_terms(kind: str, raw_terms: Mapping[str, Any], *, time_zone: str) -> dict[str, Any]:
    """The complete settings of a kind of source, with defaults filled in.

    Raises:
        Invalid: the problem of each invalid field.
    """
    problems: Problems = []
    known = _KNOWN[kind]
    for name in sorted(set(raw_terms) - known.keys()):
        fields = ", ".join(known) or "nothing"
        problems.append(FieldProblem(f"{PREFIX}{name[:40]}", f"A source of this kind has the settings {fields}."))
    terms = {name: raw_terms.get(name, default) for name, default in known.items()}
    if "listing" in terms:
        terms["listing"] = terms["listing"] or []
    _CHECKS[kind](terms, problems)
    chosen = FORMATS.get(str(terms.get("format")))
    if chosen is not None and chosen.needs_zone and not time_zone and kind == Source.Kind.DIRECTORY:
        problems.append(FieldProblem("time_zone", "Times of this format have no zone: set that of the source."))
    if problems:
        raise Invalid("The settings of the collection are invalid.", code="bad_collecting", fields=problems)
    return terms


def _directory(terms: dict[str, Any], problems: Problems) -> None:
    _check(problems, "folder", lambda: allowed_folder(_text(terms, "folder", 1024)))
    pattern = terms["pattern"]
    if not isinstance(pattern, str) or not 0 < len(pattern) <= 128 or "/" in pattern or not pattern.isprintable():
        _add_problem(problems, "pattern", "Write a pattern of file names without /, such as accounting* or *.log.")
    if terms["files"] not in ("whole", "grow"):
        _add_problem(
            problems, "files", "Write whole for files that appear complete, or grow for files that are appended to."
        )
    _format(terms, problems)
    _seconds(terms, problems, "settle_s", 0, DAY_S)
    if terms["listing"]:
        _arguments(terms, problems, "listing")
    _seconds(terms, problems, "timeout_s", 1, 3600)


def _command(terms: dict[str, Any], problems: Problems) -> None:
    _arguments(terms, problems, "command")
    if terms["listing"]:
        _arguments(terms, problems, "listing")
    _format(terms, problems)
    _times(terms, problems)


def _arguments(terms: dict[str, Any], problems: Problems, name: str) -> None:
    arguments = terms[name]
    if not (isinstance(arguments, list) and arguments and all(isinstance(argument, str) for argument in arguments)):
        _add_problem(problems, name, "Write the program and its arguments as a list of texts.")
    elif len(arguments) > MOST_ARGUMENTS or any(
        len(argument) > LONGEST_COMMAND or not (argument.isprintable() or not argument) for argument in arguments
    ):
        _add_problem(problems, name, f"At most {MOST_ARGUMENTS} printable arguments of {LONGEST_COMMAND} characters.")
    else:
        _check(problems, name, lambda: allowed_program(arguments[0]))


def _slurm_rest(terms: dict[str, Any], problems: Problems) -> None:
    terms["address"] = str(terms["address"]).rstrip("/")
    _check(problems, "address", lambda: _plain_address(terms["address"]))
    if not isinstance(terms["version"], str) or not _VERSION.fullmatch(terms["version"]):
        message = f"Leave it empty for the newest that the daemon offers, or write {PARSERS[-1]} to {PARSERS[0]}."
        _add_problem(problems, "version", message)
    if not isinstance(terms["user"], str) or not _USER.fullmatch(terms["user"]):
        _add_problem(problems, "user", "The name that the token is for, or nothing.")
    for name in ("accounting", "queue", "reservations"):
        if not isinstance(terms[name], bool):
            _add_problem(problems, name, "Write true or false.")
    if terms["accounting"] is False and terms["queue"] is False:
        _add_problem(problems, "accounting", "Collect finished jobs, open jobs, or both.")
    if terms["reservations"] is True and terms["accounting"] is False:
        message = "Unused is what no finished job held: collect finished jobs too."
        _add_problem(problems, "reservations", message)
    _times(terms, problems)


def _plain_address(address: str) -> None:
    if address.startswith(UNIX):
        socket_target(address)
        return
    target = target_of(address)
    if "?" in target.path or "#" in address:
        raise Invalid("Write the address up to the port, or to the path before /slurm/.")


def _times(terms: dict[str, Any], problems: Problems) -> None:
    _seconds(terms, problems, "overlap_s", 0, 30 * DAY_S)
    _seconds(terms, problems, "look_back_s", 0, 3660 * DAY_S)
    _seconds(terms, problems, "timeout_s", 1, 3600)


def _format(terms: dict[str, Any], problems: Problems) -> None:
    if terms["format"] not in [AUTO, *FORMATS]:
        _add_problem(problems, "format", f"There is {AUTO}, {', '.join(FORMATS)}.")


def _seconds(terms: dict[str, Any], problems: Problems, name: str, least: int, most: int) -> None:
    value = terms[name]
    if type(value) is not int or not least <= value <= most:
        _add_problem(problems, name, f"A whole number of seconds from {least} to {most}.")


def _text(terms: dict[str, Any], name: str, most: int) -> str:
    value = terms[name]
    if not isinstance(value, str) or not 0 < len(value) <= most or not value.isprintable():
        raise Invalid(f"Write 1 to {most} printable characters.")
    return value


def _check(problems: Problems, name: str, check: Callable[[], object]) -> None:
    try:
        check()
    except DomainError as refusal:
        _add_problem(problems, name, refusal.message)


def _add_problem(problems: Problems, name: str, message: str) -> None:
    problems.append(FieldProblem(f"{PREFIX}{name}", message))


def _push(_terms: dict[str, Any], _problems: Problems) -> None:
    """A push source has no settings."""


_CHECKS: dict[str, Callable[[dict[str, Any], Problems], None]] = {
    Source.Kind.PUSH: _push,
    Source.Kind.DIRECTORY: _directory,
    Source.Kind.COMMAND: _command,
    Source.Kind.SLURM_REST: _slurm_rest,
}
