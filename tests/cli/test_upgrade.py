"""An upgrade: released migrations stay as they are."""

from __future__ import annotations

from pathlib import Path

import pytest

from apps.core.code_paths import REPOSITORY
from tests.cli import released_migrations


def test_released_migrations_are_never_changed_or_removed() -> None:
    found, known = released_migrations.present(), released_migrations.recorded()
    assert released_migrations.broken(found, known) == []
    assert released_migrations.missing(found, known) == []


def test_a_changed_or_removed_migration_is_named_and_a_new_one_is_added_by_a_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, file = tmp_path / "apps/usage/migrations", tmp_path / "list.txt"
    folder.mkdir(parents=True)
    (folder / "__init__.py").touch()
    for name in ("0001_tables", "0002_more"):
        (folder / f"{name}.py").write_text(name)
    assert released_migrations.main(tmp_path, file) == 0
    (folder / "0003_new.py").write_text("new")
    new = released_migrations.present(tmp_path)
    assert released_migrations.missing(new, released_migrations.recorded(file)) == [
        "apps/usage/migrations/0003_new.py is new: run `make record-migrations`, and commit the list."
    ]
    assert released_migrations.main(tmp_path, file) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "3 migrations, 1 of them new"
    (folder / "0001_tables.py").write_text("rewritten")
    (folder / "0002_more.py").unlink()
    before = file.read_text()
    assert released_migrations.main(tmp_path, file) == 1
    assert file.read_text() == before
    assert capsys.readouterr().err.splitlines() == [
        "apps/usage/migrations/0001_tables.py was changed: restore it, and write a new migration that converts what is"
        " there.",
        "apps/usage/migrations/0002_more.py is gone: databases have it applied. Restore it.",
    ]


def test_the_command_that_adds_migrations_is_a_target_and_documented() -> None:
    makefile = (REPOSITORY / "Makefile").read_text(encoding="utf-8")
    assert "\nrecord-migrations: setup\n\t@$(PY) -m tests.cli.released_migrations\n" in makefile
    assert released_migrations.COMMAND in (REPOSITORY / "docs/developer.md").read_text(encoding="utf-8")
