"""Small changes of a module's code, one at a time: each is a fault that a test should notice.

Only code within functions is changed, and constants of the module. A change keeps the number of lines. Sentences,
annotations, assertions and the arguments of `raise` stay as they are: they decide no result.
"""

from __future__ import annotations

import ast
import random
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain

_COMPARISONS = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.Is: (r"is", "is not"),
    ast.IsNot: (r"is\s+not", "is"),
    ast.In: (r"in", "not in"),
    ast.NotIn: (r"not\s+in", "in"),
}
_ARITHMETIC = {
    ast.Add: (r"\+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: (r"\*", "/"),
    ast.Div: ("/", "*"),
    ast.FloorDiv: ("//", "/"),
    ast.Mod: ("%", "*"),
    ast.BitAnd: ("&", "|"),
    ast.BitOr: (r"\|", "&"),
}
_TWINS = {"min": "max", "max": "min", "any": "all", "all": "any"}
_SENTENCES = {"_", "gettext", "gettext_lazy", "ngettext", "ngettext_lazy", "cast"}
_COMPILERS = {"compiled", "compiled_borrowing"}
_STRICT = "strict"  # zip(…, strict=True) guards what a type can't say
_LEAVES = (ast.Return, ast.Raise, ast.Continue, ast.Break)


@dataclass(frozen=True, slots=True)
class Mutant:
    """begin, end: byte offsets in the module's text of what `new` replaces. lines: the whole expression's or
    statement's, from 1. number: which of several equal changes of equal lines in the function, from 1. constant: the
    module's, where no function is changed."""

    path: str
    function: str
    begin: int
    end: int
    new: str
    lines: range
    source: str
    change: str
    number: int = 1
    constant: str = ""

    @property
    def place(self) -> str:
        """The function or constant as a table of claims names it."""
        return f"{self.path}::{self.function or self.constant}"

    @property
    def has_no_result(self) -> bool:
        """Whether a function returns None in place of its result: what runs it notices, whatever it is about."""
        return self.change.endswith(" → None")

    @property
    def name(self) -> str:
        """The same as long as the line and its function are."""
        again = f" ({self.number})" if self.number > 1 else ""
        return f"{self.path}::{self.function}: {self.source}: {self.change}{again}"

    def text(self, source: str) -> str:
        raw = source.encode()
        return (raw[: self.begin] + self.new.encode() + raw[self.end :]).decode()


def mutants_of(
    path: str, source: str, *, places: Collection[str] | None = None, with_compiled: bool = False
) -> list[Mutant]:
    """All of a module that compile, in the order of its lines.

    places: only those of these functions, with the functions in them, and of these constants. with_compiled: also of
    functions that numba compiles.
    """
    counts: Counter[str] = Counter()
    numbered = []
    changes = _changes(path, source, with_compiled=with_compiled)
    for mutant in sorted(changes, key=lambda each: (each.begin, each.end, each.new)):
        counts[mutant.name] += 1
        again = replace(mutant, number=counts[mutant.name])
        is_chosen = places is None or any(is_within(again.place, place) for place in places)
        if is_chosen and _compiles(again.text(source)):
            numbered.append(again)
    return numbered


def places_of(path: str, source: str, *, with_compiled: bool) -> set[str]:
    """The functions and constants of a module that have mutants with a result; not all of those need compile."""
    return {mutant.place for mutant in _changes(path, source, with_compiled=with_compiled) if not mutant.has_no_result}


def is_within(place: str, function: str) -> bool:
    """Whether a place is this function, in it, or this constant."""
    return f"{place}.".startswith(f"{function}.")


def _changes(path: str, source: str, *, with_compiled: bool) -> list[Mutant]:
    changes = _Changes(path, source, with_compiled=with_compiled)
    changes.visit(ast.parse(source))
    return changes.mutants


def _compiles(text: str) -> bool:
    try:
        compile(text, "mutant", "exec")
    except SyntaxError:
        return False
    return True


def _is_compiled(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether numba makes machine code of it: exchanged code of Python wouldn't run."""
    return any(isinstance(each, ast.Name) and each.id in _COMPILERS for each in node.decorator_list)


class _Changes(ast.NodeVisitor):
    def __init__(self, path: str, source: str, *, with_compiled: bool) -> None:
        self.mutants: list[Mutant] = []
        self._with_compiled = with_compiled
        self._constant = ""
        self._path = path
        self._raw = source.encode()
        self._lines = source.splitlines()
        self._starts = [0]
        for line in source.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line.encode()))
        self._within: list[str] = []
        self._is_code = False
        self._generator: list[bool] = []

    # What is visited

    def visit_Module(self, node: ast.Module) -> None:
        for statement in node.body:
            if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                self.visit(statement)
            elif name := constant_name(statement):
                self._is_code, self._constant = True, name
                self.visit(statement)
                self._is_code, self._constant = False, ""

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._within.append(node.name)
        for statement in node.body:
            if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                self.visit(statement)
        self._within.pop()

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        if node.name == "__repr__" or (_is_compiled(node) and not self._with_compiled):
            return
        self._within.append(node.name)
        before, self._is_code = self._is_code, True
        self._generator.append(_is_generator(node))
        for statement in node.body:
            self.visit(statement)
        self._generator.pop()
        self._is_code = before
        self._within.pop()

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_Assert(self, node: ast.Assert) -> None:
        """Says what is known, and changes nothing."""

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Places within f-strings are known from Python 3.12 on."""

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_Expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Constant):
            return  # a docstring
        if isinstance(node.value, ast.Call):
            self._replace(node, "pass")
        self.generic_visit(node)

    def visit_Raise(self, node: ast.Raise) -> None:
        self._replace(node, "pass")

    def visit_Continue(self, node: ast.Continue) -> None:
        self._replace(node, "pass")

    def visit_Break(self, node: ast.Break) -> None:
        self._replace(node, "pass")

    def visit_Delete(self, node: ast.Delete) -> None:
        self._replace(node, "pass")

    def visit_Assign(self, node: ast.Assign) -> None:
        if all(isinstance(target, ast.Attribute | ast.Subscript) for target in node.targets):
            self._replace(node, "pass")
        self.visit(node.value)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        if type(node.op) in _ARITHMETIC:
            self._change_between(node, node.target, node.value, *_ARITHMETIC[type(node.op)])
        self._replace(node, "pass")
        self.visit(node.value)

    def visit_Return(self, node: ast.Return) -> None:
        if node.value is None:
            return
        is_none = isinstance(node.value, ast.Constant) and node.value.value is None
        if not is_none and not (self._generator and self._generator[-1]):
            self._replace(node.value, "None")
        self.visit(node.value)

    def visit_If(self, node: ast.If) -> None:
        self._decide(node.test)
        self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self._decide(node.test)
        self.generic_visit(node)

    def visit_comprehension(self, node: ast.comprehension) -> None:
        for test in node.ifs:
            self._replace(test, "True")
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        left = node.left
        for operator, right in zip(node.ops, node.comparators, strict=True):
            self._change_between(node, left, right, *_COMPARISONS[type(operator)])
            left = right
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        old, new, nothing = ("and", "or", "True") if isinstance(node.op, ast.And) else ("or", "and", "False")
        for left, right in zip(node.values, node.values[1:], strict=False):
            self._change_between(node, left, right, old, new)
        for value in node.values:
            self._replace(value, nothing, whole=node)
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        begin, end = self._begin(node), self._begin(node.operand)
        if isinstance(node.op, ast.Not):
            self._add(node, begin, begin + len("not "), "", self._segment(node), self._segment(node)[len("not ") :])
        elif isinstance(node.op, ast.USub) and not isinstance(node.operand, ast.Constant):
            self._add(node, begin, end, "", self._segment(node), self._segment(node.operand))
        self.visit(node.operand)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        if type(node.op) in _ARITHMETIC and not _is_text(node):
            self._change_between(node, node.left, node.right, *_ARITHMETIC[type(node.op)])
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        if name in _SENTENCES:
            return
        if name in _TWINS:
            self._replace(node.func, _TWINS[name], whole=node)
        for each in (node.func, *node.args, *(word.value for word in node.keywords if word.arg != _STRICT)):
            self.visit(each)

    def visit_Constant(self, node: ast.Constant) -> None:
        value = node.value
        if isinstance(value, bool):
            self._replace(node, str(not value))
        elif isinstance(value, int):
            self._replace(node, str(value + 1))
            self._replace(node, f"({value - 1})" if value < 1 else str(value - 1))
        elif isinstance(value, float):
            self._replace(node, repr(value + 1.0))

    # What is changed

    def _decide(self, test: ast.expr) -> None:
        if not isinstance(test, ast.Constant):
            self._replace(test, "True")
            self._replace(test, "False")

    def _replace(self, node: ast.expr | ast.stmt, new: str, *, whole: ast.expr | None = None) -> None:
        old = self._segment(node)
        shown = old if whole is None or whole is node else self._segment(whole)
        filled = new + "\n" * (_end_line(node) - node.lineno)
        if "\n" in filled and isinstance(node, ast.expr):
            filled = f"({filled})"
        begin, end = self._begin(node), self._end(node)
        if whole is None:
            self._add(node, begin, end, filled, shown, new)
        else:
            at, until = begin - self._begin(whole), end - self._begin(whole)
            raw = self._raw[self._begin(whole) : self._end(whole)]
            self._add(whole, begin, end, filled, shown, (raw[:at] + new.encode() + raw[until:]).decode())

    def _change_between(self, whole: ast.AST, left: ast.expr, right: ast.expr, old: str, new: str) -> None:
        """The operator between two operands."""
        begin, end = self._end(left), self._begin(right)
        word = rf"\b{old}\b" if old[0].isalpha() else old
        place = re.search(word, self._raw[begin:end].decode())
        if place is None or not isinstance(whole, ast.expr | ast.stmt):
            return
        first, last = begin + place.start(), begin + place.end()
        start = self._begin(whole)
        raw = self._raw[start : self._end(whole)]
        after = raw[: first - start] + new.encode() + raw[last - start :]
        self._add(whole, first, last, new, raw.decode(), after.decode())

    def _add(self, node: ast.expr | ast.stmt, begin: int, end: int, new: str, old: str, after: str) -> None:
        if self._is_code:
            lines = range(node.lineno, _end_line(node) + 1)
            source = self._lines[node.lineno - 1].strip()
            change = f"{_on_a_line(old)} → {_on_a_line(after)}"
            function = ".".join(self._within)
            mutant = Mutant(self._path, function, begin, end, new, lines, source, change, constant=self._constant)
            self.mutants.append(mutant)

    def _begin(self, node: ast.AST) -> int:
        assert isinstance(node, ast.expr | ast.stmt)
        return self._starts[node.lineno - 1] + node.col_offset

    def _end(self, node: ast.AST) -> int:
        assert isinstance(node, ast.expr | ast.stmt)
        assert node.end_col_offset is not None
        return self._starts[_end_line(node) - 1] + node.end_col_offset

    def _segment(self, node: ast.AST) -> str:
        return self._raw[self._begin(node) : self._end(node)].decode()


def constant_name(statement: ast.stmt) -> str | None:
    """The one name that a statement of a module assigns to."""
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        target: ast.expr = statement.targets[0]
    elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
        target = statement.target
    else:
        return None
    return target.id if isinstance(target, ast.Name) else None


def _is_text(node: ast.BinOp) -> bool:
    """A sentence and its values: `text % values`."""
    parts = (node.left, node.right)
    return any(
        isinstance(part, ast.JoinedStr) or (isinstance(part, ast.Constant) and isinstance(part.value, str))
        for part in parts
    )


def _is_generator(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any(isinstance(each, ast.Yield | ast.YieldFrom) for each in _own_nodes(node.body))


def _own_nodes(nodes: Sequence[ast.AST]) -> Iterator[ast.AST]:
    """Of a function, without those of functions in it."""
    for node in nodes:
        yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            yield from _own_nodes(list(ast.iter_child_nodes(node)))


def _on_a_line(text: str) -> str:
    return " ".join(text.split())


def _end_line(node: ast.expr | ast.stmt) -> int:
    return node.end_lineno or node.lineno


def statement_lines(source: str) -> dict[int, int]:
    """By line, the first line of the innermost statement that it is in."""
    first: dict[int, int] = {}
    statements = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.stmt)]
    for node in sorted(statements, key=lambda each: (each.lineno, -_end_line(each))):
        first.update(dict.fromkeys(range(node.lineno, _end_line(node) + 1), node.lineno))
    return first


def constants_of(line: int, source: str) -> list[tuple[str, ast.stmt]]:
    """The constant of the statement at this line, and those that follow from it, in the module's order.

    ValueError if code that runs only while the module is imported reads one of them.
    """
    statements = ast.parse(source).body
    first = next(n for n, each in enumerate(statements) if each.lineno <= line <= _end_line(each))
    names: dict[str, ast.stmt] = {}
    for statement in statements[first:]:
        if statement is statements[first] or not _read_at_import(statement).isdisjoint(names):
            name = constant_name(statement)
            if name is None:
                raise ValueError(f"line {statement.lineno} reads it at import")
            names[name] = statement
    return list(names.items())


def _read_at_import(statement: ast.stmt) -> set[str]:
    """Names that a statement of a module reads at once: those in bodies of functions are read later."""
    names: set[str] = set()
    nodes: list[ast.AST] = [statement]
    while nodes:
        node = nodes.pop()
        if isinstance(node, ast.Name):
            names.add(node.id)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            nodes += [*node.decorator_list, *node.args.defaults, *(each for each in node.args.kw_defaults if each)]
        elif isinstance(node, ast.Lambda):
            nodes += node.args.defaults
        elif isinstance(node, ast.AnnAssign):
            nodes += [node.value] if node.value is not None else []
        else:
            nodes += ast.iter_child_nodes(node)
    return names


def uses_of(names: Collection[str], source: str) -> set[int]:
    """The lines within functions that read one of these constants."""
    functions = [
        node
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
    ]
    bodies: Iterator[Sequence[ast.AST]] = (
        [node.body] if isinstance(node, ast.Lambda) else node.body for node in functions
    )
    nodes = chain.from_iterable(map(_own_nodes, bodies))
    return {node.lineno for node in nodes if isinstance(node, ast.Name) and node.id in names}


def in_order(mutants: Iterable[Mutant], seed: int, only: str) -> list[Mutant]:
    """In the seed's order. only: those whose file, function or line contains one of A|B|C."""
    ordered = sorted(mutants, key=lambda each: each.name)
    random.Random(seed).shuffle(ordered)
    return [each for each in ordered if any(text in each.name for text in only.split("|"))]
