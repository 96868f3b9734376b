"""A database of another version is refused before anything in it changes."""

from __future__ import annotations

import logging

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.db.migrations.recorder import MigrationRecorder

from apps.cli.stack import prepare
from apps.cli.stack.migration_check import check_migrations

FORMER = ("accounts", "0003_idempotent_answers")


def test_a_database_of_this_version_passes(db: None) -> None:
    assert check_migrations(databases=["default"]) == []


def test_unknown_migrations_of_libraries_are_accepted(db: None) -> None:
    MigrationRecorder(connection).record_applied("axes", "0000_squashed_since")
    assert check_migrations(databases=["default"]) == []


@pytest.mark.fault("F26")
def test_migrate_refuses_a_database_of_another_version(db: None) -> None:
    MigrationRecorder(connection).record_applied(*FORMER)
    with pytest.raises(CommandError, match=r"it has the migration accounts\.0003_idempotent_answers, which .* lacks"):
        call_command("migrate", interactive=False, verbosity=0, skip_checks=False)


def test_a_start_with_a_database_of_another_version_names_the_remedy(
    db: None, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    for migration in (FORMER, ("runs", "0001_first_models")):
        MigrationRecorder(connection).record_applied(*migration)
    with caplog.at_level(logging.WARNING, logger="apps"):  # which a start sets for its process
        assert prepare.main([]) == 1
    done = capsys.readouterr().err
    assert "accounts.0003_idempotent_answers and 1 more" in done
    assert "manage.py export_policy" in done
