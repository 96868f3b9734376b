"""Mutants of a tree's source files, and a sample of them that stays the same where the source stays the same.

The mutations are mutmut's. Left out is what no test should depend on: text for people, annotations, decorators,
declarations of models and forms.
"""

from __future__ import annotations

import ast
import difflib
import hashlib
import importlib
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

ENGINE, INGEST, PERMISSIONS, PUBLISHING = PARTS = ("engine", "ingest", "permissions", "publishing")
_FOLDERS = {ENGINE: "engine", INGEST: "usage", PUBLISHING: "policies"}
_PERMISSIONS = (
    "accounts/actor.py",
    "accounts/selectors.py",
    "accounts/services.py",
    "accounts/token_cache.py",
    "mapping/permissions.py",
    "policies/access/authority.py",
    "policies/access/delegation.py",
    "policies/access/holders.py",
    "policies/access/scope.py",
    "policies/audit_reading.py",
    "policies/requests/inbox.py",
    "priorities/visibility.py",
)
# Mostly they crash wherever they are run, so they say little: only lines without others, and of those one in four.
_CRUDE = {"operator_arg_removal", "operator_assignment"}
_WITHOUT_MUTANTS = ("#", "@", '"', "'", ")", "]", "}", "import ", "from ", "def ", "class ")
_DECLARATIONS = {"admin.py", "apps.py", "models.py", "signals.py"}


@dataclass(frozen=True)
class Mutant:
    part: str
    path: str
    line: int
    statement: tuple[int, int]
    before: str
    after: str

    @property
    def diff(self) -> str:
        lines = difflib.unified_diff(
            self.before.splitlines(), self.after.splitlines(), self.path, self.path, lineterm="", n=2
        )
        return "\n".join(lines)


class _Mutation(NamedTuple):
    node: Any
    replacement: Any
    mutator: str


def files_of(part: str, tree: Path) -> list[Path]:
    permissions = {tree / "apps" / name for name in _PERMISSIONS}
    if part == PERMISSIONS:
        if gone := sorted(str(path) for path in permissions if not path.is_file()):
            raise SystemExit(f"tests/mutants/generated.py names files that are no longer there: {', '.join(gone)}")
        return sorted(permissions)
    found = set((tree / "apps" / _FOLDERS[part]).rglob("*.py")) - permissions
    return sorted(path for path in found if path.name not in _DECLARATIONS and "migrations" not in path.parts)


def sample(tree: Path, parts: list[str], size: int, seed: str) -> list[Mutant]:
    """`size` mutants in equal numbers for each part; each line of code is as likely as any other.

    A hash of each line decides, so a change in one place leaves the sample elsewhere as it was.
    """
    chosen: list[Mutant] = []
    for place, part in enumerate(parts):
        wanted = size // len(parts) + (place < size % len(parts))
        lines = [line for path in files_of(part, tree) for line in _lines(path, str(path.relative_to(tree)), seed)]
        found = filter(None, (_mutant(part, path, tree, line, key) for key, path, line in sorted(lines)))
        chosen += islice(found, wanted)
    return chosen


def _lines(path: Path, name: str, seed: str) -> Iterator[tuple[str, Path, int]]:
    seen: Counter[str] = Counter()
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        seen[line] += 1
        if (code := line.strip()) and not code.startswith(_WITHOUT_MUTANTS):
            yield _hash(f"{seed}\n{name}\n{line}\n{seen[line]}"), path, number


def _mutant(part: str, path: Path, tree: Path, line: int, key: str) -> Mutant | None:
    """One of those that begin in this line; none where Python would read the same program, or no program."""
    module, nodes = _nodes_by_line(path)
    before = str(module.code)
    found = list(_mutations(nodes[line]))
    fine = [each for each in found if each.mutator not in _CRUDE]
    crude = found if key[-1] in "0123" else []
    for node, replacement, _ in sorted(fine or crude, key=lambda each: _hash(key + _code(*each[:2]))):
        after = str(module.deep_replace(node, replacement).code)
        try:
            if ast.dump(ast.parse(before)) == ast.dump(ast.parse(after)):
                continue
        except SyntaxError:
            continue
        return Mutant(part, str(path.relative_to(tree)), line, _statement(before, line), before, after)
    return None


def _statement(source: str, line: int) -> tuple[int, int]:
    """First and last line of the statement around it; of one that holds others, its head."""
    around = (line, line)
    for node in ast.walk(ast.parse(source)):  # outer ones first
        if isinstance(node, ast.stmt):
            last = node.body[0].lineno - 1 if hasattr(node, "body") else node.end_lineno or node.lineno
            if node.lineno <= line <= max(last, node.lineno):
                around = (node.lineno, max(last, node.lineno))
    return around


@cache
def _nodes_by_line(path: Path) -> tuple[Any, dict[int, list[Any]]]:
    """What may be mutated, by the line in which it begins."""
    cst, metadata = _library("libcst"), _library("libcst.metadata")
    wrapper = metadata.MetadataWrapper(cst.parse_module(path.read_text(encoding="utf-8")))
    positions = wrapper.resolve(metadata.PositionProvider)
    found = defaultdict(list)
    for node in _nodes(wrapper.module, inside=False):
        if node in positions:
            found[positions[node].start.line].append(node)
    return wrapper.module, found


def _nodes(node: Any, *, inside: bool) -> Iterator[Any]:
    """Those within functions; elsewhere numbers only: what else a module says while it loads is its declarations."""
    cst = _library("libcst")
    if isinstance(node, (cst.Annotation, cst.Decorator, cst.BaseString)):
        return
    if inside or isinstance(node, cst.BaseNumber):
        yield node
    for child in node.children:
        yield from _nodes(child, inside=inside or isinstance(node, cst.FunctionDef))


def _mutations(nodes: list[Any]) -> Iterator[_Mutation]:
    cst = _library("libcst")
    for node in nodes:
        for kind, mutate in _library("mutmut.mutation.mutators").mutation_operators:
            for replacement in mutate(node) if isinstance(node, kind) else ():
                if not (isinstance(node, cst.Call) and _is_about_text(node, replacement)):
                    yield _Mutation(node, replacement, mutate.__name__)


def _is_about_text(call: Any, replacement: Any) -> bool:
    """Whether the mutation takes a sentence away: how sentences read is not what is measured."""
    kept = {id(argument) for argument in replacement.args}
    texts = [_code(each.value) for each in call.args if id(each) not in kept]
    return any(text.lstrip("frFR")[:1] in ("'", '"') and " " in text for text in texts)


def _code(*nodes: Any) -> str:
    return "\n".join(_library("libcst").Module([]).code_for_node(node) for node in nodes)


@cache
def _library(name: str) -> Any:
    """Only `make mutants` installs them: nothing else may need them, not even for its types."""
    return importlib.import_module(name)


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
