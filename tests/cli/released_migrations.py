"""`python -m tests.cli.released_migrations`: adds new migrations to the list of those that are released.

A migration in the list is never changed or removed again: databases that it made or converted would differ from new
ones. What has to be otherwise is the work of a new migration.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Mapping
from pathlib import Path

from apps.core.code_paths import REPOSITORY

LIST = Path(__file__).with_suffix(".txt")
COMMAND = "make record-migrations"


def present(repository: Path = REPOSITORY) -> dict[str, str]:
    """The digest of each migration, by its path."""
    paths = (path for path in (repository / "apps").rglob("migrations/*.py") if path.name != "__init__.py")
    return {str(path.relative_to(repository)): hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(paths)}


def recorded(file: Path = LIST) -> dict[str, str]:
    lines = (line.split() for line in file.read_text(encoding="ascii").splitlines())
    return {path: digest for digest, path in lines}


def broken(present: Mapping[str, str], recorded: Mapping[str, str]) -> list[str]:
    """A sentence for each migration that is no longer what was released."""
    changed = [
        f"{path} was changed: restore it, and write a new migration that converts what is there."
        for path, digest in recorded.items()
        if path in present and present[path] != digest
    ]
    removed = [f"{path} is gone: databases have it applied. Restore it." for path in recorded.keys() - present.keys()]
    return [*changed, *sorted(removed)]


def missing(present: Mapping[str, str], recorded: Mapping[str, str]) -> list[str]:
    return [f"{path} is new: run `{COMMAND}`, and commit the list." for path in present.keys() - recorded.keys()]


def main(repository: Path = REPOSITORY, file: Path = LIST) -> int:
    found, known = present(repository), recorded(file) if file.exists() else {}
    if refused := broken(found, known):
        print("\n".join(refused), file=sys.stderr)
        return 1
    file.write_text("".join(f"{digest}  {path}\n" for path, digest in found.items()), encoding="ascii")
    print(f"{len(found)} migrations, {len(found.keys() - known.keys())} of them new")
    return 0


if __name__ == "__main__":
    sys.exit(main())
