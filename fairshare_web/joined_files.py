"""Joins the scripts and styles of a site, so that a page asks for a few files instead of dozens.

Scripts are ES modules that browsers also run one by one, which developers do. A module that no other imports, or an
`index.js`, is an entry: what pages name. Modules that the same entries need become one file; what `js/frame.js` needs
is on every page and is one file with it. So each module is in one file and runs once on a page, whichever entries it
has. Within a file each module is a function that returns what it exports. That holds for the plain statements that
`_IMPORT` and `_EXPORT` describe; all others are refused with their place. A style sheet takes in those that it imports.

Sites join when they collect static files: plug-ins that a site adds are joined with the product's modules then.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass

from django.core.exceptions import ImproperlyConfigured

FRAME = "js/frame.js"
_IMPORT = re.compile(r"^import\s+(?:(?P<names>\{[^}]*\}|\*\s*as\s+\w+)\s*from\s*)?\"(?P<url>\.[^\"]+)\";[ \t]*", re.M)
_EXPORT = re.compile(r"^export (?=(?:const|class|(?:async )?function\*?) (\w+)\b)", re.M)
_REFUSED = re.compile(r"^(?:import|export)\b.*|^(?!.*\basync\b)\S.*\bawait\b.*|.*\bimport(?:\.meta\b|\([\"']).*", re.M)
_RENAMED = re.compile(r"\s+as\s+")
_SHEET = re.compile(r"^@import \"(?P<url>[^\"]+)\";[ \t]*\n?", re.M)


@dataclass(frozen=True, slots=True)
class _Module:
    """imports: names of modules with what is taken from them (`{ a, b as c }`, `* as d`, or nothing), in order."""

    name: str
    body: str
    imports: tuple[tuple[str, str], ...]
    exports: tuple[str, ...]


def join_scripts(sources: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Join modules. sources: their texts by name, such as `js/figures/index.js`.

    Returns the texts of the files by name, and the name of the file that holds each module. Both names are of modules.

    Raises:
        ImproperlyConfigured: a module imports what isn't there or itself by way of others, or has a statement that
            can't be joined; the message names file and line.
    """
    modules = {name: _read(name, text) for name, text in sources.items()}
    for module in modules.values():
        _check_imports(module, modules)
    order = _in_order(modules)
    entries_of = _entries_of(modules, order)
    files: dict[frozenset[str], list[str]] = {}
    for name in order:
        files.setdefault(entries_of[name], []).append(name)
    # Named by the last one, which needs the others of it.
    file_of = {name: FRAME if FRAME in names else names[-1] for names in files.values() for name in names}
    number = {name: at for at, name in enumerate(sorted(modules))}
    texts = {}
    for names in files.values():
        alone = modules[names[0]] if len(names) == 1 else None
        is_script = alone is not None and not alone.imports and not alone.exports  # perhaps no module at all
        texts[file_of[names[0]]] = sources[names[0]] if is_script else _text(names, modules, file_of, number)
    return texts, file_of


def join_sheets(sources: Mapping[str, str]) -> dict[str, str]:
    """Return those style sheets that import others, with the text of these in the place of each import.

    Raises:
        ImproperlyConfigured: an imported sheet isn't there.
    """

    def whole(name: str) -> str:
        def imported(match: re.Match[str]) -> str:
            other = _path(name, match["url"])
            if other not in sources:
                raise ImproperlyConfigured(f"{name} imports {other}, which isn't there.")
            return whole(other)

        return _SHEET.sub(imported, sources[name])

    return {name: whole(name) for name, text in sources.items() if _SHEET.search(text)}


def _read(name: str, text: str) -> _Module:
    imports = tuple((_path(name, match["url"]), match["names"] or "") for match in _IMPORT.finditer(text))
    exports = tuple(match[1] for match in _EXPORT.finditer(text))
    body = _EXPORT.sub("", _IMPORT.sub(lambda match: "\n" * match[0].count("\n"), text))
    if refused := _REFUSED.search(body):
        line = body.count("\n", 0, refused.start()) + 1
        raise ImproperlyConfigured(
            f"{name}, line {line}: this can't be joined with other modules: {refused[0].strip()[:80]} "
            'Write import { name } from "./file.js"; or export before a const, class or function.'
        )
    return _Module(name, body.strip("\n"), imports, exports)


def _check_imports(module: _Module, modules: Mapping[str, _Module]) -> None:
    for other, names in module.imports:
        if other not in modules:
            raise ImproperlyConfigured(f"{module.name} imports {other}, which isn't there.")
        for name in re.findall(r"(\w+)(?:\s+as\s+\w+)?\s*[,}]", names):
            if name not in modules[other].exports:
                raise ImproperlyConfigured(f"{module.name} imports {name} from {other}, which doesn't export it.")


def _in_order(modules: Mapping[str, _Module]) -> list[str]:
    """Each after all that it imports."""
    order: list[str] = []
    begun: list[str] = []

    def visit(name: str) -> None:
        if name in order:
            return
        if name in begun:
            circle = [*begun[begun.index(name) :], name]
            raise ImproperlyConfigured(f"Modules import each other in a circle: {' → '.join(circle)}.")
        begun.append(name)
        for other, _names in modules[name].imports:
            visit(other)
        begun.pop()
        order.append(name)

    for name in sorted(modules):
        visit(name)
    return order


def _entries_of(modules: Mapping[str, _Module], order: list[str]) -> dict[str, frozenset[str]]:
    """The entries that need each module; of all that the frame needs it is the frame alone."""
    imported = {other for module in modules.values() for other, _names in module.imports}
    entries = {name for name in modules if name not in imported or posixpath.basename(name) == "index.js"}
    entries_of = {name: {name} & (entries | {FRAME}) for name in modules}
    for name in reversed(order):
        for other, _names in modules[name].imports:
            entries_of[other] |= entries_of[name]
    return {name: frozenset({FRAME} if FRAME in needing else needing) for name, needing in entries_of.items()}


def _text(
    names: list[str], modules: Mapping[str, _Module], file_of: Mapping[str, str], number: Mapping[str, int]
) -> str:
    file = file_of[names[0]]
    outside = {other for name in names for other, _taken in modules[name].imports if file_of[other] != file}
    lines = []
    for other_file in sorted({file_of[other] for other in outside}):
        taken = ", ".join(f"${number[other]}" for other in sorted(outside) if file_of[other] == other_file)
        url = posixpath.relpath(other_file, posixpath.dirname(file))
        lines.append(f'import {{ {taken} }} from "{url if url.startswith(".") else f"./{url}"}";')
    for name in names:
        module = modules[name]
        lines += [f"// {name}", f"const ${number[name]} = (() => {{"]
        lines += [_taken(taken, number[other]) for other, taken in module.imports if taken]
        lines += [module.body, f"return {{ {', '.join(module.exports)} }};", "})();"]
    return "\n".join([*lines, f"export {{ {', '.join(f'${number[name]}' for name in names)} }};", ""])


def _taken(names: str, number: int) -> str:
    if names.startswith("*"):
        return f"const {names.split()[-1]} = ${number};"
    return f"const {_RENAMED.sub(': ', names)} = ${number};"


def _path(name: str, url: str) -> str:
    return posixpath.normpath(posixpath.join(posixpath.dirname(name), url))
