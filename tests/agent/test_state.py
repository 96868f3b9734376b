"""The table of values on disk."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from agent.files import replace_file
from agent.records import Refused
from agent.state import FILE, MISSES, open_table


def test_the_saved_table_is_loaded(tmp_path: Path) -> None:
    table = open_table(str(tmp_path / "state"))
    table.intend([("1", 5), ("2", 6)])
    table.confirm(["1"])
    table.facts["knob"] = "nice"
    table.save()
    again = open_table(str(tmp_path / "state"))
    assert (again.confirmed("1"), again.confirmed("2"), again.value("2"), again.facts) == (5, None, 6, {"knob": "nice"})


def test_nothing_is_written_when_nothing_changed(tmp_path: Path) -> None:
    table = open_table(str(tmp_path))
    table.intend([("1", 5)])
    table.save()
    before = (tmp_path / FILE).stat().st_ino
    table.save()
    assert (tmp_path / FILE).stat().st_ino == before, "a new file has another number"


def test_a_failed_write_keeps_the_old_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = open_table(str(tmp_path))
    table.intend([("1", 5)])
    table.save()

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    table.intend([("1", 9)])
    with pytest.raises(OSError, match="No space"):
        table.save()
    monkeypatch.undo()
    assert open_table(str(tmp_path)).value("1") == 5
    assert os.listdir(tmp_path) == [FILE]


@pytest.mark.parametrize(
    "content", ["", "{", "[]", "null", '{"format":2,"facts":{},"rows":{}}', '{"format":1,"facts":{},"rows":{"1":[5]}}']
)
def test_a_damaged_table_is_moved_aside(tmp_path: Path, content: str) -> None:
    (tmp_path / FILE).write_text(content)
    table = open_table(str(tmp_path))
    assert (len(table), table.was_broken) == (0, True)
    assert (tmp_path / (FILE + ".broken")).read_text() == content


def test_a_partial_file_of_a_killed_write_is_removed(tmp_path: Path) -> None:
    (tmp_path / f"{FILE}.abc").write_text("half")
    open_table(str(tmp_path))
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("name", ["values", ".values", "a b"])
def test_what_a_killed_write_left_is_removed_by_the_next_one_and_nothing_else(tmp_path: Path, name: str) -> None:
    others = [f"{name}.bak", f"{name}.new", f"{name}.new-of-mine", f"{name}2.new-abcd_123", f"x{name}.new-abcd_123"]
    for each in [*others, f"{name}.new-abcd_123"]:
        (tmp_path / each).write_text("half")
    replace_file(str(tmp_path / name), b"whole", 0o644)
    assert sorted(os.listdir(tmp_path)) == sorted([name, *others])
    assert ((tmp_path / name).read_bytes(), (tmp_path / name).stat().st_mode & 0o777) == (b"whole", 0o644)


def test_a_job_is_removed_after_several_listings_without_it(tmp_path: Path) -> None:
    table = open_table(str(tmp_path))
    table.intend([("1", 5), ("2", 5)])
    for _ in range(MISSES - 1):
        table.seen(frozenset({"2"}))
    assert "1" in table
    table.seen(frozenset({"1", "2"}))
    for _ in range(MISSES):
        assert "1" in table
        table.seen(frozenset({"2"}))
    assert (len(table), "2" in table) == (1, True)


def test_comparing_confirms_sent_values_and_counts_foreign_changes(tmp_path: Path) -> None:
    table = open_table(str(tmp_path))
    table.intend([("1", 5), ("2", 6), ("3", 7)])
    table.confirm(["3"])
    assert table.compare({"1": 5, "2": 0, "3": 8, "4": 9}) == 1
    assert (table.confirmed("1"), table.confirmed("2")) == (5, None)


def test_a_lost_value_makes_unlisted_values_uncertain(tmp_path: Path) -> None:
    table = open_table(str(tmp_path))
    table.intend([("1", 5), ("2", 6)])
    table.confirm(["1", "2"])
    assert table.compare({"1": 5}) == 0
    assert table.confirmed("2") == 6
    assert table.compare({"1": 0}) == 1
    assert (table.confirmed("2"), table.value("2")) == (None, 6)


def test_a_folder_writable_by_others_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    with pytest.raises(Refused, match="Others may write"):
        open_table(str(tmp_path))


def test_the_state_file_is_private(tmp_path: Path) -> None:
    table = open_table(str(tmp_path))
    table.save()
    assert (tmp_path / FILE).stat().st_mode & 0o777 == 0o600
    assert json.loads((tmp_path / FILE).read_text())["rows"] == {}
