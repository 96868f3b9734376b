"""A whole policy as one nested document: {policy, settings, root: {name, kind, shares, children…}}, YAML or JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import numpy as np
import yaml

from apps.errors import FieldProblem, Invalid, TooLarge
from apps.policies.columns import SCOPES, TreeColumns
from apps.policies.names import (
    MAX_DEPTH,
    MOST_CHILDREN,
    MOST_ENTRIES,
    PARENT,
    RESERVE,
    clean_kind,
    clean_name,
    clean_shares,
)
from apps.policies.settings import PolicySettings
from apps.policies.yaml_text import load_yaml

_KEYS = frozenset({"uid", "name", "kind", "shares", "scope", "sources", "locked", "children"})
_MOST_KINDS = 1_000
_MOST_PROBLEMS = 50


@dataclass(frozen=True)
class Document:
    """A document that was read and found good; uids are zero where it gives none."""

    tree: TreeColumns
    settings: Mapping[str, Any]
    policy: str


def parse_document(text: bytes | str, *, is_yaml: bool) -> Any:
    """The objects in a text, or Invalid with the line; numbers that JSON can't carry are refused."""
    try:
        if not is_yaml:
            return json.loads(text, parse_constant=_refuse_constant)
        return load_yaml(text)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise Invalid(f"The document is no YAML: line {line}: {error.problem}.", code="bad_document") from None
    except json.JSONDecodeError as error:
        raise Invalid(f"The document is no JSON: line {error.lineno}: {error.msg}.", code="bad_document") from None
    except RecursionError:
        raise Invalid("The document is nested too deeply.", code="bad_document") from None
    except (yaml.YAMLError, ValueError) as error:
        raise Invalid(f"The document can't be read: {str(error)[:200]}.", code="bad_document") from None


def _refuse_constant(text: str) -> float:
    raise ValueError(f"{text} is no number that may stand here")


def read_document(data: object) -> Document:
    """Check everything and lay the entries out breadth-first, siblings by name; Invalid names every wrong place."""
    if not isinstance(data, Mapping) or not isinstance(data.get("root"), Mapping):
        raise Invalid("A document is an object with a root entry.", fields=[FieldProblem("root", "is missing")])
    for key in data:
        if key not in ("policy", "settings", "root", "revision"):
            raise Invalid(f"{key!r:.60} is unknown; known are policy, settings, root.", code="bad_document")
    settings = data.get("settings") or {}
    PolicySettings.from_json(settings)
    reader = _Reader()
    tree = reader.read(data["root"])
    return Document(tree=tree, settings=settings, policy=str(data.get("policy", "")))


def to_document(tree: TreeColumns, settings: PolicySettings, *, uids: bool = True) -> dict[str, Any]:
    """The nested document of a tree; reading it back gives the same entries."""
    entries: list[dict[str, Any]] = []
    for i, node in enumerate(tree.nodes()):
        entry: dict[str, Any] = {"uid": str(node.uid)} if uids else {}
        entry |= {"name": node.name, "kind": node.kind}
        if i:
            entry["shares"] = PARENT if node.shares is None else _plain(node.shares)
        if node.scope:
            entry["scope"] = node.scope
        if node.scope_sources:
            entry["sources"] = list(node.scope_sources)
        if node.locked:
            entry["locked"] = True
        if node.is_group:
            entry["children"] = []
        entries.append(entry)
        if i:
            entries[int(tree.parent[i])]["children"].append(entry)
    return {"policy": tree.policy_slug, "revision": tree.number, "settings": settings.to_json(), "root": entries[0]}


def dump_document(document: Mapping[str, Any], *, as_yaml: bool) -> str:
    """The document as text, keys in the order in which people read them."""
    if as_yaml:
        return str(yaml.dump(document, Dumper=_Dumper, sort_keys=False, allow_unicode=True))
    return json.dumps(document, ensure_ascii=False, allow_nan=False)


class _Dumper(yaml.CSafeDumper if yaml.__with_libyaml__ else yaml.SafeDumper):  # type: ignore[misc]
    """Without references, which reading refuses."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _plain(shares: float) -> float | int:
    return int(shares) if shares.is_integer() and shares < 1e15 else shares


class _Reader:
    """Walks the nested objects level by level, without recursion, into columns."""

    def __init__(self) -> None:
        self.uid: list[bytes] = []
        self.parent: list[int] = []
        self.name: list[str] = []
        self.kind: list[int] = []
        self.shares: list[float] = []
        self.inherit: list[bool] = []
        self.is_group: list[bool] = []
        self.scope: list[int] = []
        self.locked: list[bool] = []
        self.sources: dict[int, tuple[str, ...]] = {}
        self.kinds: dict[str, int] = {}
        self.problems: list[FieldProblem] = []
        self.n_announced = 1  # entries read, and those whose parents were

    def read(self, root: Mapping[str, Any]) -> TreeColumns:
        try:
            level: list[tuple[int, Mapping[str, Any]]] = [(-1, {**root, "name": clean_name(root.get("name", "root"))})]
        except ValueError as error:
            raise Invalid(f"root: {error}.", fields=[FieldProblem("root.name", str(error))]) from None
        for _ in range(MAX_DEPTH + 1):
            if not level:
                break
            level = [child for parent, entry in level for child in self._children(self._entry(parent, entry), entry)]
            self._refuse_early()
        else:
            if level:
                raise Invalid(f"{self.path(level[0][0])} has children below level {MAX_DEPTH}, the deepest allowed.")
        self._refuse_duplicate_uids()
        self._refuse()
        return self._columns()

    def path(self, i: int) -> str:
        parts = []
        while i > 0:
            parts.append(self.name[i])
            i = self.parent[i]
        return "/" + "/".join(reversed(parts))

    def problem(self, i: int, key: str, message: str) -> None:
        self.problems.append(FieldProblem(f"{self.path(i)}: {key}", message))

    def _entry(self, parent: int, entry: Mapping[str, Any]) -> int:
        i = len(self.name)
        self.parent.append(parent)
        self.name.append(entry["name"])
        kind, shares = entry.get("kind", "group" if "children" in entry else "user"), entry.get("shares", 1)
        self.uid.append(self._uid(i, entry.get("uid")))
        self.kind.append(self._kind(i, kind))
        self.is_group.append("children" in entry)
        self.locked.append(self._flag(i, entry.get("locked", False)))
        self.scope.append(self._scope(i, entry))
        self.inherit.append(shares == PARENT)
        try:
            self.shares.append((1.0 if parent < 0 else clean_shares("null" if shares is None else shares)) or 0.0)
        except ValueError as error:
            self.shares.append(0.0)
            self.problem(i, "shares", str(error))
        if kind == RESERVE and (shares == PARENT or "children" in entry or parent < 0):
            self.problem(i, "kind", "a reserve has shares of its own and no children, and isn't the root")
        if parent < 0:
            self.inherit[0] = False
        if not _KEYS.issuperset(entry):
            unknown = min(map(str, set(entry) - _KEYS))
            self.problem(i, unknown[:60], f"is unknown; known are {', '.join(sorted(_KEYS))}")
        return i

    def _children(self, i: int, entry: Mapping[str, Any]) -> list[tuple[int, Mapping[str, Any]]]:
        children = entry.get("children")
        if not children:
            if children is not None and not isinstance(children, list):
                self.problem(i, "children", "must be a list of entries")
            return []
        if not isinstance(children, list):
            self.problem(i, "children", "must be a list of entries")
            return []
        if len(children) > MOST_CHILDREN:
            raise TooLarge(f"{self.path(i)} has {len(children):,} children; at most {MOST_CHILDREN:,} are allowed.")
        named: dict[str, Mapping[str, Any]] = {}
        for at, child in enumerate(children):
            name = self._name(i, at, child)
            if name is None:
                continue
            if name in named:
                self.problem(i, f"children[{at}]", f"{name!r} is there twice; siblings need different names")
            named[name] = child if child["name"] == name else {**child, "name": name}
        self.n_announced += len(named)
        if self.n_announced > MOST_ENTRIES:
            raise TooLarge(f"A policy has at most {MOST_ENTRIES:,} entries.")
        return [(i, named[name]) for name in sorted(named)]

    def _name(self, i: int, at: int, child: object) -> str | None:
        try:
            if not isinstance(child, Mapping):
                raise ValueError("must be an entry: an object with a name")
            return clean_name(child.get("name"))
        except ValueError as error:
            self.problem(i, f"children[{at}]", str(error))
            return None

    def _uid(self, i: int, value: object) -> bytes:
        if value is None:
            return b"\0" * 16
        try:
            return UUID(value if isinstance(value, str) else "").bytes
        except ValueError:
            self.problem(i, "uid", "must be a UUID; leave it out for a new entry")
            return b"\0" * 16

    def _kind(self, i: int, value: object) -> int:
        known = self.kinds.get(value) if isinstance(value, str) else None
        if known is not None:
            return known
        try:
            kind = clean_kind(value)
        except ValueError as error:
            self.problem(i, "kind", str(error))
            return 0
        if len(self.kinds) >= _MOST_KINDS:
            raise TooLarge(f"A policy has at most {_MOST_KINDS:,} different kinds.")
        return self.kinds.setdefault(kind, len(self.kinds))

    def _flag(self, i: int, value: object) -> bool:
        if not isinstance(value, bool):
            self.problem(i, "locked", "must be true or false")
        return value is True

    def _scope(self, i: int, entry: Mapping[str, Any]) -> int:
        scope, sources = entry.get("scope", ""), entry.get("sources", [])
        if scope not in SCOPES:
            self.problem(i, "scope", 'must be "local" or "global"')
            return 0
        try:
            if not isinstance(sources, list) or (sources and not scope):
                raise ValueError("must be a list of sources' slugs, and stand beside a scope")
            if sources:
                self.sources[i] = tuple(dict.fromkeys(map(clean_name, sources)))
        except ValueError as error:
            self.problem(i, "sources", str(error))
        return SCOPES.index(scope)

    def _refuse_duplicate_uids(self) -> None:
        seen: dict[bytes, int] = {}
        for i, uid in enumerate(self.uid):
            if uid != b"\0" * 16 and seen.setdefault(uid, i) != i:
                self.problem(i, "uid", f"is that of {self.path(seen[uid])} too")

    def _refuse_early(self) -> None:
        if len(self.problems) >= _MOST_PROBLEMS:
            self._refuse()

    def _refuse(self) -> None:
        if self.problems:
            first = self.problems[0]
            raise Invalid(f"{first.where} {first.message}.", code="bad_document", fields=self.problems[:_MOST_PROBLEMS])

    def _columns(self) -> TreeColumns:
        names = sorted(self.kinds)
        place = {kind: at for at, kind in enumerate(names)}
        new_code = np.array([place[kind] for kind in self.kinds], dtype=np.uint16)
        return TreeColumns(
            uid=np.frombuffer(b"".join(self.uid), dtype=np.uint8).reshape(-1, 16),
            parent=np.array(self.parent, dtype=np.int32),
            name=self.name,
            kind_names=tuple(names),
            kind_code=new_code[np.array(self.kind, dtype=np.int64)],
            shares=np.array(self.shares, dtype=np.float64),
            inherit=np.array(self.inherit, dtype=np.bool_),
            is_group=np.array(self.is_group, dtype=np.bool_),
            scope_code=np.array(self.scope, dtype=np.uint8),
            scope_sources=self.sources,
            locked=np.array(self.locked, dtype=np.bool_),
        )
