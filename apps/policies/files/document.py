"""The nested document format: {policy, settings, root: {name, kind, shares, children…}}, read and written."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from apps.core.errors import FieldProblem, Invalid
from apps.policies.files.parsed_document import DocumentBuilder, ParsedDocument
from apps.policies.files.sections import document_sections
from apps.policies.settings import PolicySettings, without_unknown_decay
from apps.policies.tree.columns import TreeColumns
from apps.policies.tree.names import MAX_DEPTH, PARENT

Address = tuple[str | int, ...]
FindLines = Callable[[Sequence[Address]], Sequence[int]]

HEAD = ("policy", "settings", "root", "revision")
# Of the settings, what rules ordered until now: an older document would order it again, or take it back.
_ORDERED = "limits"
KEYS = ("uid", "name", "kind", "shares", "scope", "sources", "locked", "dates", "members", "mount", "children")
_KEYS = frozenset(KEYS)
_CHILD = re.compile(r"children\[([0-9]{1,9})\]")


def read_document(data: object, find_lines: FindLines | None = None) -> ParsedDocument:
    """Validate a document and return its tree and settings; raise Invalid with all problems.

    A window with an unknown decay function, and limits that rules ordered, are listed in `ignored`: the policy's stay.

    find_lines: returns the lines of a text where values of the document begin, to name lines in problems.
    """
    if not isinstance(data, Mapping) or not isinstance(data.get("root"), Mapping):
        raise Invalid("A document is an object with a root entry.", fields=[FieldProblem("root", "is missing")])
    sections = document_sections()
    for key in data:
        if key not in HEAD and key not in sections:
            known = ", ".join(("policy", "settings", "root", *sections))
            raise Invalid(f"{key!r:.60} is unknown; known are {known}.", code="bad_document")
    settings, unknown_decay = without_unknown_decay(data.get("settings") or {})
    _check_settings(settings, find_lines)
    ignored = []
    if unknown_decay:
        ignored.append(
            f"settings.window (its decay function {unknown_decay!r:.60} is unknown; the policy's window stays)"
        )
    if _ORDERED in settings:
        ignored.append(f"settings.{_ORDERED} (rules order them; those of the policy stay)")
        settings = {part: value for part, value in settings.items() if part != _ORDERED}
    document = _Reader(find_lines).read(data["root"], settings, str(data.get("policy", "")), tuple(ignored))
    return replace(document, sections={key: data[key] for key in sections if key in data})


def entry_values(tree: TreeColumns, i: int, node: Any) -> dict[str, Any]:
    """Return one entry without its children, with the keys in reading order."""
    entry: dict[str, Any] = {"uid": str(node.uid), "name": node.name, "kind": node.kind}
    if i:
        entry["shares"] = PARENT if node.shares is None else plain_number(node.shares)
    if node.scope:
        entry["scope"] = node.scope
    if node.scope_sources:
        entry["sources"] = list(node.scope_sources)
    if node.locked:
        entry["locked"] = True
    if node.dates:
        entry["dates"] = node.field_json("dates")
    if node.members:
        entry["members"] = node.field_json("members")
    if node.mount:
        entry["mount"] = node.field_json("mount")
    return entry


def head_values(tree: TreeColumns, settings: PolicySettings) -> dict[str, Any]:
    """Return the keys of a document that describe the policy as a whole."""
    stated = {part: value for part, value in settings.to_json().items() if part != _ORDERED}
    return {"policy": tree.policy_slug, "revision": tree.number, "settings": stated}


def plain_number(shares: float) -> float | int:
    """Return whole numbers as int, so that they are written without a decimal point."""
    return int(shares) if shares.is_integer() and shares < 1e15 else shares


def _check_settings(settings: Any, find_lines: FindLines | None) -> None:
    try:
        PolicySettings.from_json(settings)
    except Invalid as error:
        if find_lines is None:
            raise
        lines = find_lines([tuple(problem.where.split(".")) for problem in error.fields])
        fields = [FieldProblem(f"line {n}, {p.where}", p.message) for n, p in zip(lines, error.fields, strict=True)]
        raise Invalid(f"line {lines[0]}, {error.message}", code=error.code, fields=fields) from None


class _Reader(DocumentBuilder):
    """Reads the nested objects level by level, without recursion."""

    def __init__(self, find_lines: FindLines | None) -> None:
        super().__init__()
        self._find_lines = find_lines
        # By row: its position in its parent's list of children.
        self._at: list[int] = []

    def read(
        self, root: Mapping[str, Any], settings: Mapping[str, Any], policy: str, ignored: tuple[str, ...]
    ) -> ParsedDocument:
        level = [(self._entry(-1, 0, {"name": "root", **root}), root)]
        for _ in range(MAX_DEPTH + 1):
            if not level or level[0][0] < 0:
                break
            level = [
                (row, child)
                for parent, entry in level
                for at, child in enumerate(self._listed(parent, entry))
                if (row := self._entry(parent, at, child)) >= 0
            ]
        return self.finish(settings=settings, policy=policy, ignored=ignored)

    def _listed(self, row: int, entry: Mapping[str, Any]) -> Sequence[Any]:
        children = entry.get("children")
        if children is None:
            return ()
        if isinstance(children, list):
            return children
        self.problem(row, "children", "must be a list of entries")
        return ()

    def _entry(self, parent: int, at: int, entry: object) -> int:
        place = "root.name" if parent < 0 else f"children[{at}]"
        if not isinstance(entry, Mapping):
            self.problem(parent, place, "must be an entry: an object with a name")
            return -1
        is_group = parent < 0 or "children" in entry
        row = self.add(
            parent,
            entry.get("name"),
            place=place,
            uid=entry.get("uid"),
            shares=entry.get("shares", 1),
            kind=entry.get("kind", "group" if is_group else "user"),
            is_group=is_group,
        )
        if row < 0:
            return row
        self._at.append(at)
        if "scope" in entry or "sources" in entry:
            self.set_scope(row, entry.get("scope", ""), entry.get("sources", []))
        if "locked" in entry:
            self.set_locked(row, entry["locked"])
        if entry.get("dates") is not None:
            self.set_dates(row, entry["dates"])
        if entry.get("members"):
            self.set_members(row, entry["members"])
        if entry.get("mount") is not None:
            self.set_mount(row, entry["mount"])
        if not _KEYS.issuperset(entry):
            unknown = min(map(str, set(entry) - _KEYS))
            self.problem(row, unknown[:60], f"is unknown; known are {', '.join(sorted(_KEYS))}")
        return row

    def find_lines(self) -> None:
        if self._find_lines is None:
            return
        lines = self._find_lines([self._address(problem.row, problem.key) for problem in self.problems])
        self.problems = [p._replace(line=line) for p, line in zip(self.problems, lines, strict=True)]

    def where(self, row: int, key: str, line: int = 0) -> str:
        if row >= 0 and not key and self._find_lines is not None:
            line = self._find_lines([self._address(row, "")])[0]
        return super().where(row, key, line)

    def _address(self, row: int, key: str) -> Address:
        steps: list[str | int] = []
        while row > 0:
            steps += [self._at[row], "children"]
            row = self.parent[row]
        child = _CHILD.fullmatch(key)  # other keys are those of a file, which may have any
        end: Address = ("children", int(child[1])) if child else (key,) if key else ()
        return ("root", *reversed(steps), *end)
