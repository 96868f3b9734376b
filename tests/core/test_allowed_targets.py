"""The operator's list of private targets, given as a file, applies as it is now."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from django.conf import LazySettings

from apps.core.addresses import Refused, is_allowed, target_of
from apps.usage.sources.command import check_collecting

HERE = "http://127.0.0.1:8001/vo-a.fairshare"


@pytest.fixture
def listed(tmp_path: Path, settings: LazySettings) -> Path:
    file = tmp_path / "outbound_allow"
    file.write_text("peer.example:8443\n")
    settings.FAIRSHARE_OUTBOUND_ALLOW_FILE = str(file)
    settings.FAIRSHARE_OUTBOUND_ALLOW = ["127.0.0.1:8001"]  # as it was at the start
    return file


def test_a_target_is_allowed_and_revoked_without_a_restart(listed: Path) -> None:
    with pytest.raises(Refused):
        target_of(HERE)
    listed.write_text("# the VO on this host\npeer.example:8443, 127.0.0.1:8001  # until March\n")
    assert is_allowed(target_of(HERE))
    replaced = listed.with_suffix(".new")
    replaced.write_text("peer.example:8443\n")
    os.replace(replaced, listed)
    with pytest.raises(Refused):
        target_of(HERE)


def test_an_unreadable_file_allows_nothing(listed: Path, caplog: pytest.LogCaptureFixture) -> None:
    listed.unlink()
    with pytest.raises(Refused):
        target_of(HERE)
    assert "allows nothing" in caplog.text


def test_the_check_reports_an_invalid_line_of_the_file(listed: Path) -> None:
    listed.write_text("10.0.0.0/8\n")
    assert [found.id for found in check_collecting(None)] == ["usage.E001"]
