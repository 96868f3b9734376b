"""Where the code keeps state of its own: caches and mutable names of modules, tables, and modules that write files."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, MutableMapping
from functools import cache
from operator import attrgetter
from pathlib import Path
from types import ModuleType
from typing import Any

from cachetools import Cache
from django.apps import apps as installed

from apps.core.code_paths import REPOSITORY
from apps.core.derived_state import Kept
from docsite.derived_state import declared, module_names

_EMPTY = {"dict", "OrderedDict", "WeakValueDictionary", "WeakKeyDictionary", "defaultdict", "Counter", "list", "set"}
_WRITING = {"write_bytes", "write_text", "mkstemp", "share_columns", "NamedTemporaryFile", "TemporaryDirectory"}
_ROUTES = {"urlpatterns", "rest"}
_OF_OS = {"open", "replace", "link", "rename"}


def in_memory() -> set[str]:
    """Names below `apps`: caches, functions and methods with one, objects with attributes, and what begins empty."""
    return {f"{name.removeprefix('apps.')}.{each}" for name in module_names() for each in _kept_by(sys.modules[name])}


def tables() -> set[str]:
    """`module.Model` below `apps`."""
    models = [model for model in installed.get_models() if model.__module__.startswith("apps.")]
    return {f"{model.__module__.removeprefix('apps.')}.{model.__name__}" for model in models}


def modules_with_files() -> set[str]:
    """Modules below `apps` that write, link or move files."""
    paths = [path for path in sorted((REPOSITORY / "apps").rglob("*.py")) if "migrations" not in path.parts]
    return {
        ".".join(path.relative_to(REPOSITORY / "apps").with_suffix("").parts)
        for path in paths
        if any(map(_writes, ast.walk(ast.parse(path.read_text(encoding="utf-8")))))
    }


def _kept_by(module: ModuleType) -> Iterator[str]:
    tree = ast.parse(Path(str(module.__file__)).read_text(encoding="utf-8"))
    made = {target.id for node in tree.body for target in _targets(node) if isinstance(target, ast.Name)}
    for name, value in list(vars(module).items()):
        if isinstance(value, type):
            if value.__module__ == module.__name__:
                yield from (f"{name}.{each}" for each, member in vars(value).items() if _has_cache(member))
        elif (
            isinstance(value, Cache)
            or (_has_cache(value) and getattr(value, "__module__", "") == module.__name__)
            or _is_object_of(module, value)
            or (name in made and type(value) in _kinds_of_register())
        ):
            yield name
    yield from _begun_empty(tree)


def _targets(node: ast.stmt) -> list[ast.expr]:
    return node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []


@cache
def _kinds_of_register() -> frozenset[type]:
    """Classes of ours whose objects the register has: another object of one, in any module, is such a state, too."""
    kept = (
        attrgetter(name)(sys.modules[f"apps.{module}"])
        for module, state in declared()
        if state.kept is Kept.MEMORY
        for name in state.names
    )
    return frozenset(type(each) for each in kept if type(each).__module__.startswith("apps."))


def _has_cache(value: Any) -> bool:
    function = getattr(value, "__func__", value)
    return hasattr(function, "cache_info") or isinstance(getattr(function, "cache", None), MutableMapping)


def _is_object_of(module: ModuleType, value: Any) -> bool:
    """Whether it has attributes that may change, and is of a class of this module."""
    kind = type(value)
    is_frozen = getattr(getattr(kind, "__dataclass_params__", None), "frozen", False)
    return (
        kind.__module__ == module.__name__
        and kind.__module__.startswith("apps.")
        and hasattr(value, "__dict__")
        and not is_frozen
    )


def _begun_empty(module: ast.Module) -> Iterator[str]:
    """Names that begin empty, or that a function assigns again; constants of uppercase letters and routes are none."""
    for node in module.body:
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        is_empty = isinstance(node, ast.Assign | ast.AnnAssign) and _is_empty(node.value)
        if is_empty and isinstance(target, ast.Name) and not target.id.isupper() and target.id not in _ROUTES:
            yield target.id
    for each in ast.walk(module):
        if isinstance(each, ast.Global):
            yield from each.names


def _is_empty(value: ast.expr | None) -> bool:
    if isinstance(value, ast.Dict):
        return not value.keys
    if isinstance(value, ast.List):
        return not value.elts
    return isinstance(value, ast.Call) and not value.args and getattr(value.func, "id", "") in _EMPTY


def _writes(node: ast.AST) -> bool:
    if not isinstance(node, ast.Call):
        return False
    if isinstance(node.func, ast.Name):
        return node.func.id in _WRITING
    if not isinstance(node.func, ast.Attribute):
        return False
    owner = node.func.value.id if isinstance(node.func.value, ast.Name) else ""
    return node.func.attr in _WRITING or (owner == "os" and node.func.attr in _OF_OS)
