"""Static files are collected again when they, or the code that makes them, have changed."""

from __future__ import annotations

import ast
from pathlib import Path

from apps.cli.stack.prepare import _MAKERS, _fingerprint_of_static


def test_a_change_of_the_code_alone_collects_them_again(tmp_path: Path) -> None:
    copies = [tmp_path / maker.name for maker in _MAKERS]
    for copy, maker in zip(copies, _MAKERS, strict=True):
        copy.write_bytes(maker.read_bytes())
    before = _fingerprint_of_static(copies)
    assert before == _fingerprint_of_static(), "the place of the code doesn't matter"
    for copy in copies:
        copy.write_bytes(copy.read_bytes() + b"# other\n")
        after = _fingerprint_of_static(copies)
        assert after != before
        before = after


def test_all_code_of_ours_that_makes_them_is_among_it() -> None:
    imported = {
        node.module.split(".")[-1] + ".py"
        for maker in _MAKERS
        for node in ast.walk(ast.parse(maker.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("fairshare_web")
    }
    assert imported | {"static_files.py"} == {maker.name for maker in _MAKERS}
