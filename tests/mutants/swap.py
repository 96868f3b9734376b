"""Put a mutant into this process: the code of functions that exist is exchanged, or a constant of a module.

Nothing is imported again, so that what was registered, decorated or cached keeps its identity.
"""

from __future__ import annotations

import ast
import gc
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

from apps.core.code_paths import REPOSITORY
from tests.mutants.changes import Mutant, constants_of

Functions = Mapping[tuple[str, str, int], list[FunctionType]]


class NotApplied(Exception):
    """Nothing of this process would run the changed code."""


def functions_of(paths: Iterable[str]) -> Functions:
    """The functions that exist of these files, by file, dotted name and first line."""
    files = {str(REPOSITORY / path) for path in paths}
    functions: dict[tuple[str, str, int], list[FunctionType]] = defaultdict(list)
    gc.unfreeze()
    for each in gc.get_objects():
        if type(each) is FunctionType and each.__code__.co_filename in files:
            code = each.__code__
            functions[code.co_filename, code.co_qualname, code.co_firstlineno].append(each)
    gc.freeze()
    return functions


def module_of(path: str) -> str:
    return ".".join(Path(path).with_suffix("").parts).removesuffix(".__init__")


def apply(mutant: Mutant, before: str, functions: Functions) -> list[str]:
    """The names of what was exchanged; NotApplied if that is nothing. before: the text that was imported."""
    file = str(REPOSITORY / mutant.path)
    after = mutant.text(before)
    module = sys.modules[module_of(mutant.path)]
    if mutant.function:
        names = list(_exchange(compile(before, file, "exec"), compile(after, file, "exec"), functions))
    else:
        names = list(_exchange_constants(module, mutant.lines.start, after))
    if not names:
        raise NotApplied("nothing of this process differs")
    for value in vars(module).values():
        forget = getattr(value, "cache_clear", None)
        if callable(forget) and getattr(value, "__module__", "") == module.__name__:
            forget()
    return names


def _exchange(old: CodeType, new: CodeType, functions: Functions) -> Iterator[str]:
    for old_part, new_part in zip(_codes(old), _codes(new), strict=False):
        if _essence(old_part) == _essence(new_part):
            continue
        existing = functions.get((old_part.co_filename, old_part.co_qualname, old_part.co_firstlineno), [])
        for function in existing:
            try:
                function.__code__ = new_part
            except ValueError as refusal:
                raise NotApplied(str(refusal)) from refusal  # it has other free variables
            yield function.__qualname__
        yield from _exchange(old_part, new_part, functions)  # functions that it has made already


def _codes(code: CodeType) -> list[CodeType]:
    return [each for each in code.co_consts if isinstance(each, CodeType)]


def _essence(code: CodeType) -> tuple[Any, ...]:
    """What runs, without the places in the text."""
    constants = tuple(_essence(each) if isinstance(each, CodeType) else repr(each) for each in code.co_consts)
    return code.co_code, constants, code.co_names, code.co_varnames, code.co_freevars


def _exchange_constants(module: ModuleType, line: int, after: str) -> Iterator[str]:
    """In the module and in those that import them by their names, with the constants that follow from the first."""
    try:
        statements = constants_of(line, after)
    except ValueError as refusal:
        raise NotApplied(str(refusal)) from refusal
    scope = dict(vars(module))
    for name, statement in statements:
        try:
            exec(compile(ast.Module([statement], []), str(module.__file__), "exec"), scope)  # noqa: S102 - our own code
        except Exception as error:
            raise NotApplied(f"the module can't be imported: {error!r}") from error
        former = vars(module)[name]
        if repr(former) == repr(scope[name]):
            continue
        for other in list(sys.modules.values()):
            if getattr(other, "__name__", "").startswith(("apps.", "tests.")) and vars(other).get(name) is former:
                setattr(other, name, scope[name])
        yield name
