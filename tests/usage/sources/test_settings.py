"""What the operator opens for collecting: wrong settings stop the start, each with a remedy."""

from __future__ import annotations

from typing import Any

import pytest

from apps.usage.sources.command import check_collecting


@pytest.mark.parametrize(
    ("setting", "value", "id"),
    [
        ("FAIRSHARE_OUTBOUND_ALLOW", ["10.0.0.0/8"], "usage.E001"),
        ("FAIRSHARE_OUTBOUND_ALLOW", ["*:443"], "usage.E001"),
        ("FAIRSHARE_OUTBOUND_ALLOW", ["slurm.example.org"], "usage.E001"),
        ("FAIRSHARE_OUTBOUND_CA_FILE", "/no/such/file", "usage.E002"),
        ("FAIRSHARE_COLLECT_COMMANDS", ["sacct"], "usage.E003"),
        ("FAIRSHARE_COLLECT_COMMANDS", ["/bin/bash"], "usage.E003"),
        ("FAIRSHARE_COLLECT_FOLDERS", ["spool"], "usage.E004"),
        ("FAIRSHARE_COLLECT_FOLDERS", ["/tmp/.."], "usage.E004"),
    ],
)
def test_unsafe_and_empty_settings_are_reported(setting: str, value: Any, id: str, settings: Any) -> None:
    setattr(settings, setting, value)
    assert [message.id for message in check_collecting(None)] == [id]


def test_valid_settings_are_accepted(settings: Any, tmp_path: Any) -> None:
    settings.FAIRSHARE_OUTBOUND_ALLOW = ["slurm.example.org:6820", "10.0.0.1:6820", "[fd00::1]:6820"]
    settings.FAIRSHARE_COLLECT_COMMANDS = ["/usr/bin/sacct"]
    settings.FAIRSHARE_COLLECT_FOLDERS = [str(tmp_path)]
    assert check_collecting(None) == []
