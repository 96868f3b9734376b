"""Which tests a change asks for: those that were seen to read it, those that lie beside it, and sets of documents."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from apps.core.code_paths import REPOSITORY
from tests import changed
from tests.file_map import function_of, packed, unpacked, within
from tests.longest_first import deal

MAP = {
    "tests/usage/test_a.py::test_near": ["apps/usage/a.py", "apps/core/x.py"],
    "tests/usage/test_a.py::test_other": ["apps/usage/b.py"],
    "tests/pages/test_p.py::test_far": ["apps/usage/a.py", "apps/core/x.py", "templates/p.html", "apps/pages/p.py"],
    "tests/pages/test_p.py::test_half": ["apps/usage/a.py", "apps/pages/p.py"],
}


@pytest.mark.parametrize(
    ("names", "first"),
    [
        (
            ["apps/usage/a.py"],
            ["tests/usage/test_a.py::test_near", "tests/pages/test_p.py::test_half", "tests/pages/test_p.py::test_far"],
        ),
        (["templates/p.html"], ["tests/pages/test_p.py::test_far", "tests/web/shell"]),
        (["tests/pages/test_p.py"], ["tests/pages/test_p.py", *changed.ALWAYS]),
        (["apps/usage/models.py"], ["tests/usage/test_a.py::test_other", "tests/usage/test_a.py::test_near"]),
        (["tests/made.py"], ["tests/usage/test_b.py"]),
        (["docs/install.md"], ["tests/docsite", "tests/test_documented.py", "tests/test_words.py", "tests/pages/help"]),
        (["nothing.txt"], []),
    ],
    ids=["code", "template", "test", "only imported", "helper of tests", "documents", "unknown"],
)
def test_tests_of_a_change_begin_with_the_nearest(names: list[str], first: list[str]) -> None:
    users = {"apps/usage/models.py": ["apps/usage/a.py", "apps/usage/b.py"], "tests/made.py": ["tests/usage/test_b.py"]}
    assert changed.select(names, MAP, users)[: len(first)] == first
    assert bool(changed.select(names, MAP, users)) == bool(first)


def test_a_module_is_shown_by_the_tests_of_its_folders_without_a_map() -> None:
    tests = changed.select(["apps/contrib/lab/advisor/advise.py"], {}, {})
    assert tests == [*changed.ALWAYS, "tests/contrib/lab/advisor", "tests/contrib/lab"]
    assert changed.existing(["tests/contrib/lab", "tests/contrib/none", "tests/test_changed.py::test_gone"]) == [
        "tests/contrib/lab"
    ]


def test_a_test_is_named_once() -> None:
    names = ["tests/a.py::one", "tests/a.py", "tests/b", "tests/b/c.py::two", "tests/a.py::one", "tests/b/c.py"]
    assert changed._without_repeats(names) == ["tests/a.py::one", "tests/a.py", "tests/b"]


def test_all_that_git_says_has_changed(tmp_path: Path) -> None:
    def git(*arguments: str) -> None:
        own = ("-c", "user.name=a", "-c", "user.email=a@example.org")
        subprocess.run(["git", *own, *arguments], cwd=tmp_path, check=True, capture_output=True)

    git("init", "--quiet")
    for name in ("one.py", "zwei ä.py", "three.py", ".gitignore"):
        (tmp_path / name).write_text("*.log\n")
    git("add", ".")
    git("commit", "--quiet", "-m", "first")
    assert changed.changed_files("HEAD", tmp_path) == []
    (tmp_path / "one.py").write_text("1\n")
    (tmp_path / "zwei ä.py").unlink()
    for name in ("new.py", "made.log"):
        (tmp_path / name).touch()
    git("add", "one.py")
    assert changed.changed_files("HEAD", tmp_path) == ["new.py", "one.py", "zwei ä.py"]


def test_importers_are_those_of_a_module_and_of_a_name_of_it(tmp_path: Path) -> None:
    (tmp_path / "apps").mkdir()
    texts = {"a.py": "import apps.one\n", "b.py": "def f():\n    from apps.two import x\n", "c.py": "1 +\n"}
    for name, text in texts.items():
        (tmp_path / "apps" / name).write_text(text)
    found = changed.find_importers(sorted((tmp_path / "apps").glob("*.py")), tmp_path)
    assert (found["apps/one.py"], found["apps/two.py"], found["apps/two/x.py"]) == (
        {"apps/a.py"}, {"apps/b.py"}, {"apps/b.py"},
    )  # fmt: skip


def test_a_map_is_kept_small_and_read_as_it_was() -> None:
    kept = packed(MAP)
    assert kept["files"].count("apps/usage/a.py") == 1
    assert unpacked(kept) == MAP
    assert unpacked(None) == {}
    assert function_of("tests/a.py::test_b[x::y]") == "tests/a.py::test_b"
    paths = [str(Path(__file__)), "/usr/lib/python3/os.py", "<string>", "Makefile", "nowhere"]
    assert within(paths) == ["Makefile", "tests/test_changed.py"]


def test_each_worker_begins_with_the_nearest_tests() -> None:
    assert deal([(1.0, [n]) for n in range(6)], [], 2) == [0, 2, 4, 1, 3, 5]


def test_calls_drawn_templates_and_opened_files_are_recorded(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(REPOSITORY))
    pytester.makeini("[pytest]\n")
    pytester.makepyfile(
        """
        from django.template import Context, Engine, Origin, Template
        from apps.core.counts import counted
        from tests.changed import REPOSITORY
        KEPT = Template("x", origin=Origin(str(REPOSITORY / "templates/base.html")), engine=Engine())
        def test_calls():
            assert counted(2, "job") == "2 jobs"
        def test_reads():
            assert (REPOSITORY / "Makefile").read_text()
        def test_draws():
            assert KEPT.render(Context()) == "x"
        """
    )
    ended = pytester.runpytest_subprocess("-p", "tests.file_map", "-p", "no:randomly", "--record-files")
    ended.assert_outcomes(passed=3)
    kept = unpacked(json.loads((pytester.path / ".pytest_cache/v/fairshare/files").read_text()))
    files = {test.rpartition("_")[2]: names for test, names in kept.items()}
    assert "apps/core/counts.py" in files["calls"]
    assert "Makefile" in files["reads"]
    assert "templates/base.html" in files["draws"]
    assert not {"Makefile", "templates/base.html"} & set(files["calls"])
