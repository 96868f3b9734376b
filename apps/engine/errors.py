"""Errors of the engine with their location; pages, REST and commands turn them into messages or statuses."""

from __future__ import annotations


class EngineError(ValueError):
    """An invalid input. message: the problem and what is allowed. place: its location. row: the input row."""

    code = "engine_error"

    def __init__(self, message: str, *, place: str = "", row: int | None = None) -> None:
        super().__init__(f"{place}: {message}" if place else message)
        self.message = message
        self.place = place
        self.row = row


class BadTree(EngineError):
    """The tree has a cycle, an orphan, too many levels, or invalid shares."""

    code = "bad_tree"


class BadUsage(EngineError):
    """Usage is negative, not finite, of the wrong shape, or on an entry that can't have any."""

    code = "bad_usage"


class BadParameter(EngineError):
    """A parameter of an algorithm, operator or window is unknown or out of range."""

    code = "bad_parameter"


class BadCase(EngineError):
    """A case for `compute` can't be read; `case_id` names it."""

    code = "bad_case"

    def __init__(self, message: str, *, place: str = "", case_id: str | None = None) -> None:
        super().__init__(message, place=place)
        self.case_id = case_id


class PackageFailed(EngineError):
    """Code of an installed package raised or returned something invalid; `package` and `name` identify it."""

    code = "package_failed"

    def __init__(self, package: str, kind: str, name: str, reason: str) -> None:
        super().__init__(f"package {package or '?'}: {kind} {name!r} failed: {reason}", place="algorithm")
        self.package = package
        self.name = name
        self.reason = reason
