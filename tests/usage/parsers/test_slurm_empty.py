"""Documents of Slurm without jobs: nothing ran, nothing was found, or a daemon is down."""

from __future__ import annotations

import json
from io import BytesIO, StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

from apps.core.errors import Invalid, Unavailable
from apps.usage.models import Import, Source
from apps.usage.parsers.registry import AUTO, format_of
from tests.usage.parsers.slurm_files import READING

PLUGINS = {  # as 22.05 writes them, with and without escaped slashes, and as 23.11 does
    "squeue-json": (r"openapi\/v0.0.38", "openapi/v0.0.38", r"openapi\/slurmctld"),
    "sacct-json": (r"openapi\/dbv0.0.38", "openapi/dbv0.0.38", r"openapi\/slurmdbd"),
}
EMPTY = [(name, plugin) for name, plugins in PLUGINS.items() for plugin in plugins]
NOTHING = {"description": "Nothing found with query", "error_number": 9003, "error": "Nothing found"}
DOWN = {
    "slurmctld": {"description": "", "error_number": 1800, "error": "Unable to contact slurm controller"},
    "slurmdbd": {"description": "slurmdbd_connect", "error_number": 7000, "error": "Unable to connect to database"},
}


def document(plugin: str, *errors: dict[str, Any]) -> bytes:
    """slurm-wlm 22.05.8 answers so; its JSON has an escaped slash."""
    meta = f'{{"plugin": {{"type": "{plugin}"}}, "Slurm": {{"release": "22.05.8"}}}}'
    return f'{{"meta": {meta}, "errors": {json.dumps(errors)}, "jobs": []}}\n'.encode()


@pytest.mark.parametrize(("name", "plugin"), EMPTY)
@pytest.mark.parametrize("errors", [(), (NOTHING,)], ids=["empty", "nothing found"])
def test_a_document_without_jobs_is_recognised_and_read(name: str, plugin: str, errors: tuple[Any, ...]) -> None:
    result = document(plugin, *errors)
    found = format_of(AUTO, result)
    assert found.name == name
    assert list(found.parse(BytesIO(result), READING)) == []


@pytest.mark.parametrize("daemon", DOWN)
def test_an_unavailable_daemon_is_reported_and_retried(daemon: str) -> None:
    found = document(PLUGINS["sacct-json"][0], NOTHING, DOWN[daemon])
    with pytest.raises(Unavailable, match="can't be reached") as refusal:
        list(format_of(AUTO, found).parse(BytesIO(found), READING))
    assert refusal.value.code == "slurm_unreachable"


def test_another_error_is_reported() -> None:
    found = document(PLUGINS["sacct-json"][0], {"error_number": 2, "error": "No such file"})
    with pytest.raises(Invalid, match="No such file"):
        list(format_of(AUTO, found).parse(BytesIO(found), READING))


def test_a_refused_request_is_reported_with_slurms_message() -> None:
    """As sacct 22.05 answers --json -S where SLURM_TIME_FORMAT is %s: without any list of jobs."""
    error = {"description": "Unable to parse time format", "error_number": 9000, "error": "Query empty"}
    found = document(PLUGINS["sacct-json"][0], error).replace(b', "jobs": []', b"")
    with pytest.raises(Invalid, match="Unable to parse time format"):
        list(format_of(AUTO, found).parse(BytesIO(found), READING))


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("name", PLUGINS)
@pytest.mark.parametrize("more", [[], ["--dry-run"]], ids=["import", "dry run"])
def test_the_command_imports_nothing(tmp_path: Path, name: str, more: list[str]) -> None:
    file = tmp_path / "jobs.json"
    file.write_bytes(document(PLUGINS[name][0], NOTHING))
    out = StringIO()
    call_command("import_usage", "--source", "fram", *more, "--json", str(file), stdout=out)
    assert {name: json.loads(out.getvalue())[name] for name in ("new", "late", "rejected")} == {
        "new": 0,
        "late": 0,
        "rejected": 0,
    }
    assert Source.objects.exists() is Import.objects.exists() is (not more)
