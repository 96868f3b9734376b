"""Grid Engine's share tree, as `qconf -sstree` prints it and `qconf -Astree` reads it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from django.utils.translation import gettext_noop

from apps.policies.files.document import plain_number
from apps.policies.files.parsed_document import DocumentBuilder, ParsedDocument
from apps.policies.formats.base import Format, invalid_line, refuse_many_lines, wrong_format
from apps.policies.formats.escaped_lines import logical_lines
from apps.policies.formats.whole_shares import coded_kinds, plain_names, plain_word, whole_shares
from apps.policies.settings import PolicySettings
from apps.policies.tree.columns import TreeColumns

LABEL = "share tree of Grid Engine"
PROJECT = "project"
MOST_GRIDENGINE_SHARES = 4_294_967_295
_KEYS = ("id", "name", "type", "shares", "childnodes", "version")
_CONTINUED = re.compile(r"(?:(?<![ \t])[ \t]++)?\\[ \t]*+\n[ \t]*+")
_LINE = re.compile(r"\s*+([a-z]++)\s*+=\s*+(.*)")


class _Node(NamedTuple):
    line: int
    values: dict[str, tuple[str, int]]


def read(text: str) -> ParsedDocument:
    refuse_many_lines(text, 6)
    nodes = _nodes(text)
    builder = DocumentBuilder()
    children = {id: _children(builder, node) for id, node in nodes.items()}
    top = _root(builder, nodes, children)
    builder.add(-1, "root", line=nodes[top].line)
    level = [(0, child) for child in children[top]]
    reached = {top}
    while level:
        following = []
        for parent, id in level:
            row = _add_node(builder, parent, nodes[id], is_group=bool(children[id]))
            reached.add(id)
            following += [(row, child) for child in children[id]] if row >= 0 else []
        level = following
    if not builder.problems:
        for id in sorted(set(nodes) - reached):
            builder.problem(
                -1, f"id={id}", "isn't reached from the root: it is in a cycle below itself", nodes[id].line
            )
    return builder.finish(carries=frozenset({"kind", "shares"}))


def _nodes(text: str) -> dict[int, _Node]:
    nodes: dict[int, _Node] = {}
    node: _Node | None = None
    for line, whole in logical_lines(text):
        raw = _CONTINUED.sub(" ", whole)
        if not raw.strip() or raw.startswith("#"):
            continue
        match = _LINE.fullmatch(raw)
        if match is None or match[1] not in _KEYS or (node is None and match[1] not in ("id", "version")):
            if node is None:
                raise wrong_format(LABEL, line, f"{raw.strip()[:60]!r} isn't id=0, the first line of a share tree")
            raise invalid_line(line, f"{raw.strip()[:60]!r} isn't one of {', '.join(_KEYS)} with =")
        key, value = match[1], match[2].rstrip()
        if key == "id":
            id = _whole(value, line, "id")
            if id in nodes:
                raise invalid_line(line, f"id={id} is repeated, first in line {nodes[id].line}")
            node = nodes[id] = _Node(line, {})
        elif node is not None:
            if key in node.values:
                raise invalid_line(line, f"{key} is repeated in one node")
            node.values[key] = (value, line)
    if not nodes:
        raise wrong_format(LABEL, 1, "it contains no node")
    return nodes


def _children(builder: DocumentBuilder, node: _Node) -> list[int]:
    value, line = node.values.get("childnodes", ("NONE", node.line))
    if value.upper() == "NONE" or not value:
        return []
    return [_whole(part.strip(), line, "childnodes") for part in value.split(",")]


def _root(builder: DocumentBuilder, nodes: dict[int, _Node], children: dict[int, list[int]]) -> int:
    """Return the only node that is no child; all others must be a child of exactly one node."""
    parent: dict[int, int] = {}
    for id, below in children.items():
        for child in below:
            line = nodes[id].values["childnodes"][1]
            if child not in nodes:
                raise invalid_line(line, f"childnodes names id={child}, which doesn't exist")
            if child in parent:
                raise invalid_line(
                    line, f"id={child} is a child of id={parent[child]} already: this is a cycle or no tree"
                )
            parent[child] = id
    tops = [id for id in nodes if id not in parent]
    if not tops:
        raise invalid_line(1, "every node is the child of another: the tree is a cycle without a root")
    if len(tops) > 1:
        raise invalid_line(
            nodes[tops[1]].line,
            f"id={tops[1]} is no child of any node, and neither is id={tops[0]}: one root is needed",
        )
    return tops[0]


def _add_node(builder: DocumentBuilder, parent: int, node: _Node, *, is_group: bool) -> int:
    name, line = node.values.get("name", (None, node.line))
    row = builder.add(parent, name, line=line, is_group=is_group)
    if row < 0:
        return row
    kind, line = node.values.get("type", ("0", node.line))
    if kind not in ("0", "1"):
        builder.problem(row, "type", f"{kind[:20]!r} is neither 0 (user) nor 1 (project)", line)
    elif kind == "1":
        builder.kind[row] = builder._kind(row, PROJECT)
    shares, line = node.values.get("shares", ("1", node.line))
    if not re.fullmatch(r"[0-9]{1,10}", shares) or int(shares) > MOST_GRIDENGINE_SHARES:
        builder.problem(
            row, "shares", f"{shares[:40]!r} is not a whole number from 0 to {MOST_GRIDENGINE_SHARES:,}", line
        )
    else:
        builder.shares[row] = float(shares)
    return row


def _whole(text: str, line: int, key: str) -> int:
    if not re.fullmatch(r"[0-9]{1,10}", text):
        raise invalid_line(line, f"{key}: {text[:40]!r} is not a number")
    return int(text)


def fit(tree: TreeColumns) -> TreeColumns:
    """Fit the tree: names without blanks, whole shares (1 where inherited), and kinds reduced to project or none."""
    names = plain_names(tree, [plain_word(name) for name in tree.name], np.zeros(len(tree), dtype=np.bool_))
    kind_names, kind_code = coded_kinds([PROJECT if kind == PROJECT else "" for kind in tree.kind])
    none = np.zeros(len(tree), dtype=np.bool_)
    counted = replace(tree, shares=np.where(tree.inherit, 1.0, tree.shares), inherit=none)
    return replace(
        counted,
        name=names,
        kind_names=kind_names,
        kind_code=kind_code,
        is_group=tree.n_children > 0,
        locked=none,
        shares=whole_shares(counted, MOST_GRIDENGINE_SHARES),
        scope_code=np.zeros(len(tree), dtype=np.uint8),
        scope_sources={},
        dates={},
        members={},
        mount={},
    )


def fit_to(tree: TreeColumns, now: Mapping[str, str]) -> TreeColumns:
    """Fit the tree; groups with fractions keep the scale of their shares in the scheduler, by path."""
    fitted = fit(tree)
    there = np.full(len(tree), np.nan)
    for path, _shares, i in nodes_of(fitted):
        if path in now:
            there[i] = float(now[path])
    counted = replace(tree, shares=np.where(tree.inherit, 1.0, tree.shares), inherit=np.zeros(len(tree), np.bool_))
    return replace(fitted, shares=whole_shares(counted, MOST_GRIDENGINE_SHARES, there))


def nodes_of(fitted: TreeColumns) -> Iterator[tuple[str, str, int]]:
    """Yield path, shares and index of each entry below the root, parents first."""
    paths, shares = [""] * len(fitted), fitted.shares.tolist()
    for parent in np.flatnonzero(fitted.n_children).tolist():
        for i in fitted.listed_children(parent):
            paths[i] = f"{paths[parent]}/{fitted.name[i]}"
            yield paths[i], str(plain_number(shares[i])), i


def write(tree: TreeColumns, settings: PolicySettings) -> Iterator[str]:
    """Write a fitted tree, depth first and numbered in this order, as Grid Engine 8.1.9 requires."""
    shares, kinds = tree.shares.tolist(), tree.kind
    order = list(_depth_first(tree))
    number = {i: n for n, i in enumerate(order)}
    for n, i in enumerate(order):
        below = ",".join(str(number[child]) for child in tree.listed_children(i)) or "NONE"
        name, kind = tree.name[i] if i else "Root", int(kinds[i] == PROJECT)
        yield f"id={n}\nname={name}\ntype={kind}\nshares={plain_number(shares[i])}\nchildnodes={below}\n"


def _depth_first(tree: TreeColumns) -> Iterator[int]:
    waiting = [0]
    while waiting:
        i = waiting.pop()
        yield i
        waiting += reversed(tree.listed_children(i))


def _looks_like(text: str) -> bool:
    return bool(re.search(r"^id=\d+$", text, re.MULTILINE) and re.search(r"^childnodes=", text, re.MULTILINE))


FORMAT = Format(
    name="ge",
    label=gettext_noop("Grid Engine share tree"),
    reference="https://man.archlinux.org/man/extra/gridengine/share_tree.5.en",
    sample="""\
id=0
name=Root
type=0
shares=1
childnodes=1,2
id=1
name=physics
type=1
shares=300
childnodes=NONE
id=2
name=default
type=0
shares=100
childnodes=NONE
""",
    media_type="text/x-sge-sharetree",
    suffix=".sstree",
    carries=("name", gettext_noop("project or not"), "shares"),
    read=read,
    write=write,
    looks_like=_looks_like,
    fit=fit,
    maps_by="share_tree",
)
