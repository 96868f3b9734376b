"""What the engine refuses, with the place: faces turn it into a message, a status or an exit code."""

from __future__ import annotations


class EngineError(ValueError):
    """A refusal: `message` says what is wrong and what is allowed, `place` where, `row` which input row."""

    code = "engine_error"

    def __init__(self, message: str, *, place: str = "", row: int | None = None) -> None:
        super().__init__(f"{place}: {message}" if place else message)
        self.message = message
        self.place = place
        self.row = row


class BadTree(EngineError):
    """The tree has a cycle, an orphan, too many levels, or shares that are no weight."""

    code = "bad_tree"


class BadUsage(EngineError):
    """Usage is negative, not finite, of the wrong shape, or where none may be."""

    code = "bad_usage"


class BadParameter(EngineError):
    """An algorithm, operator or window was given something it doesn't take."""

    code = "bad_parameter"


class BadCase(EngineError):
    """A case for `compute` can't be read; `case_id` names it."""

    code = "bad_case"

    def __init__(self, message: str, *, place: str = "", case_id: str | None = None) -> None:
        super().__init__(message, place=place)
        self.case_id = case_id


class PackageFailed(EngineError):
    """Code of an installed package raised, or gave what can't be used; `package` and `name` say whose it is."""

    code = "package_failed"

    def __init__(self, package: str, kind: str, name: str, reason: str, *, place: str = "algorithm") -> None:
        super().__init__(f"package {package or '?'}: {kind} {name!r} failed: {reason}", place=place)
        self.package = package
        self.name = name
        self.reason = reason
