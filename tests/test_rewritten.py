"""What the first process of a run rewrites is what pytest takes."""

from __future__ import annotations

from pathlib import Path

import pytest
from _pytest.assertion import rewrite

from tests.rewritten import kept, outdated, rewrite_all

SOURCE = "def test_one() -> None:\n    assert 1 + 1 == 2\n"


def test_what_is_rewritten_ahead_is_taken_by_the_import_and_again_after_a_change(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    files = [tmp_path / "a" / "test_one.py", tmp_path / "test_two.py", tmp_path / "conftest.py"]
    files[0].parent.mkdir()
    for file in files:
        file.write_text(SOURCE)
    (tmp_path / "helper.py").write_text(SOURCE)
    (tmp_path / "test_broken.py").write_text("def test_(:\n")
    broken = tmp_path / "test_broken.py"
    assert outdated(tmp_path) == sorted([*files, broken])
    rewrite_all(outdated(tmp_path), request.config)
    assert outdated(tmp_path) == [broken]
    for file in files:
        code = rewrite._read_pyc(file, kept(file))
        assert code is not None
        assert "@pytest_ar" in code.co_names, "its assertions are rewritten"
    files[0].write_text(SOURCE.replace("2", "3"))
    assert outdated(tmp_path) == sorted([files[0], broken])
    assert rewrite._read_pyc(files[0], kept(files[0])) is None
