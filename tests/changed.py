"""`make test-changed`: tests that read or run the files of a change, the nearest first, for two minutes.

`--record-files` (make test-map) recorded which files a test reads. A test that is not in that map, and a file that no
test is recorded with, are found by where they lie: the tests of a room, and of the modules that import the file. Files
of documents and layout have sets of their own. Tests that two minutes have no room for are skipped and counted at the
end.
"""

from __future__ import annotations

import argparse
import ast
import os
import subprocess
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from tempfile import NamedTemporaryFile

from tests.file_map import REPOSITORY, Map, read_map

# Sets for what no test can be recorded with: the head of a path, or its end, and the tests.
SETS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("docs/", "", ("tests/docsite", "tests/test_documented.py", "tests/test_words.py", "tests/pages/help")),
    ("", ".md", ("tests/test_words.py", "tests/test_project_files.py")),
    ("static/", "", ("tests/web/shell", "tests/test_project_files.py")),
    ("templates/", "", ("tests/web/shell", "tests/test_words.py")),
    ("", ".html", ("tests/test_words.py", "tests/every_page/test_texts.py")),
    ("docker/", "", ("tests/test_docker.py", "tests/test_deployment.py")),
    ("agent/", "", ("tests/agent",)),
    ("terminal/", "", ("tests/terminal",)),
    ("bench/", "", ("tests/test_bench.py",)),
    ("docsite/", "", ("tests/docsite",)),
    ("fairshare_web/", "", ("tests/test_settings_file.py", "tests/test_setup.py", "tests/web")),
    ("", "pyproject.toml", ("tests/test_project_files.py", "tests/test_architecture.py")),
    ("Makefile", "", ("tests/test_setup.py", "tests/test_project_files.py")),
    (".ci/", "", ("tests/test_setup.py", "tests/test_whole_run.py")),
)
ALWAYS = ("tests/test_architecture.py",)  # of every change of code: seconds
_MOST_TESTS = 4_000  # more than two minutes have room for


def changed_files(base: str, folder: Path = REPOSITORY) -> list[str]:
    """Of the working tree against a commit, with files that git doesn't know yet."""

    def git(*arguments: str) -> list[str]:
        done = subprocess.run(["git", *arguments, "-z"], cwd=folder, capture_output=True, text=True, check=True)
        return [name for name in done.stdout.split("\0") if name]

    return sorted({*git("diff", "--name-only", base), *git("ls-files", "--others", "--exclude-standard")})


def select(changed: Collection[str], by_test: Map, importers: Mapping[str, Collection[str]]) -> list[str]:
    """Tests of a change, the nearest first: functions of the map, files and folders.

    importers: by a file of code, the files that import it.
    """
    code = [name for name in changed if name.endswith(".py")]
    own = [name for name in code if _is_test_file(name)]
    recorded = {name for files in by_test.values() for name in files}
    # What runs while it is imported only is shown by what uses it.
    wide = {*changed, *(user for name in code if name not in recorded for user in importers.get(name, ()))}
    helpers = [name for name in code if name.startswith("tests/")]
    own += [user for name in helpers for user in sorted(importers.get(name, ())) if _is_test_file(user)]
    share = {
        test: hit / len(files) for test, files in by_test.items() if files and (hit := len(wide.intersection(files)))
    }
    near = sorted(share, key=lambda test: (not _is_of_room(test, changed), -share[test], test))
    sets = [test for head, end, tests in SETS for name in changed if _fits(name, head, end) for test in tests]
    rooms = [folder for name in code for folder in _rooms(name)]
    return _without_repeats([*own, *near[:_MOST_TESTS], *(ALWAYS if code else ()), *sets, *rooms])


def _fits(name: str, head: str, end: str) -> bool:
    return name.startswith(head) and name.endswith(end)


def _is_test_file(name: str) -> bool:
    return name.startswith("tests/") and Path(name).name.startswith("test_")


def _is_of_room(test: str, changed: Iterable[str]) -> bool:
    return any(test.startswith(folder) for name in changed for folder in _rooms(name))


def _rooms(name: str) -> list[str]:
    """The folders of tests that mirror the folder of a module, the nearest first."""
    parts = Path(name).parts
    if parts[0] != "apps" or len(parts) < 3:
        return []
    folders = ["/".join(("tests", *parts[1:depth])) for depth in range(len(parts) - 1, 1, -1)]
    return [folder for folder in folders if folder != "tests/contrib"]


def _without_repeats(tests: Iterable[str]) -> list[str]:
    """Each once, without those that a file or folder before it has."""
    chosen: dict[str, None] = {}
    for test in tests:
        file = test.partition("::")[0]
        heads = [file, *(str(parent) for parent in Path(file).parents)]
        if test not in chosen and not any(head in chosen for head in heads):
            chosen[test] = None
    return list(chosen)


def find_importers(paths: Iterable[Path], folder: Path = REPOSITORY) -> dict[str, set[str]]:
    """By each file of code, those that import its module or a name of it, all relative to the folder."""
    importers: dict[str, set[str]] = {}
    for path in paths:
        try:
            tree = ast.parse(path.read_bytes())
        except (SyntaxError, OSError):
            continue
        for name in _imported(tree):
            for file in (f"{name.replace('.', '/')}.py", f"{name.replace('.', '/')}/__init__.py"):
                importers.setdefault(file, set()).add(str(path.relative_to(folder)))
    return importers


def _imported(tree: ast.AST) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module)
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
    return names


def existing(tests: Iterable[str], folder: Path = REPOSITORY) -> list[str]:
    """Without those that are gone since the map was recorded."""
    texts: dict[str, str] = {}
    left = []
    for test in tests:
        file, _, name = test.partition("::")
        path = folder / file
        if not path.exists():
            continue
        if name:
            text = texts.setdefault(file, path.read_text(encoding="utf-8"))
            if f"def {name.rpartition('::')[2]}(" not in text:
                continue
        left.append(test)
    return left


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.changed", description=__doc__.splitlines()[0])
    parser.add_argument("--base", default="HEAD", help="the commit that the working tree is compared with")
    parser.add_argument("--minutes", type=float, default=2.0)
    parser.add_argument("--workers", default="3")
    parser.add_argument("--list", action="store_true", help="print the tests, and run none")
    options, more = parser.parse_known_args(arguments)
    changed = changed_files(options.base)
    by_test = read_map()
    folders = ("apps", "tests", "agent", "docsite", "bench", "fairshare_web", "terminal")
    importers = find_importers(path for name in folders for path in (REPOSITORY / name).rglob("*.py"))
    tests = existing(select(changed, by_test, importers))
    if not tests:
        print("No test reads what has changed." if changed else f"Nothing has changed since {options.base}.")
        return 0
    if options.list:
        print(*tests, sep="\n")
        return 0
    print(
        f"{len(changed)} changed files, {len(tests)} tests or folders of tests"
        + ("." if by_test else "; without a map of what each test reads (make test-map), so by folders and imports.")
    )
    with NamedTemporaryFile("w", suffix=".txt", delete=False) as file:
        file.write("\n".join(tests))
    command = [sys.executable, "-m", "pytest", "-n", options.workers, "--dist", "worksteal", "--changed"]
    os.execv(sys.executable, [*command, f"--minutes={options.minutes:g}", *more, f"@{file.name}"])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
