"""Files for people and programs at the root: their links lead somewhere, and their forms are complete."""

from __future__ import annotations

import configparser
import os
import re
import tomllib
from pathlib import Path

import pytest
import yaml

from apps.core.code_paths import REPOSITORY

MOST_TEMPLATE_CHARACTERS = 200  # of a line
FORMS = sorted((REPOSITORY / ".github/ISSUE_TEMPLATE").glob("*.yml"))


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "SECURITY.md", "CODE_OF_CONDUCT.md"])
def test_each_link_of_a_page_leads_to_a_file_and_a_heading(name: str) -> None:
    for target in re.findall(r"\]\((?!https?:)([^)#]+)(?:#[^)]*)?\)", (REPOSITORY / name).read_text(encoding="utf-8")):
        assert (REPOSITORY / target).exists(), target


def test_each_line_of_a_template_is_readable_in_a_comparison() -> None:
    """Attributes of a long element go on lines of their own; a newline within a tag changes no page."""
    templates = [path for path in REPOSITORY.rglob("templates/**/*.html") if ".venv" not in path.parts]
    too_long = [
        f"{path.relative_to(REPOSITORY)}:{number}: {len(line)}"
        for path in templates
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if len(line) > MOST_TEMPLATE_CHARACTERS
    ]
    assert templates
    assert not too_long, "\n".join(too_long)


def test_vulnerabilities_have_one_address() -> None:
    policy = (REPOSITORY / "SECURITY.md").read_text(encoding="utf-8")
    assert "docs/security.md#report-a-vulnerability" in policy
    assert "\n## Report a vulnerability\n" in (REPOSITORY / "docs/security.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("path", [path for path in FORMS if path.name != "config.yml"], ids=lambda path: path.stem)
def test_an_issue_form_is_complete(path: Path) -> None:
    form = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert {"name", "description", "labels", "body"} == set(form)
    fields = [field for field in form["body"] if field["type"] != "markdown"]
    assert len({field["id"] for field in fields}) == len(fields) >= 3
    assert all(field["attributes"]["label"] for field in fields)
    assert any(field.get("validations", {}).get("required") for field in fields)


def test_editors_use_the_width_that_style_checks_allow() -> None:
    parser = configparser.ConfigParser()
    parser.read_string("[top]\n" + (REPOSITORY / ".editorconfig").read_text(encoding="utf-8"))
    ruff = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["ruff"]
    assert parser["*.py"]["max_line_length"] == str(ruff["line-length"])
    assert parser["Makefile"]["indent_style"] == "tab"


def test_every_change_is_checked_by_the_same_command_as_here() -> None:
    workflow = yaml.safe_load((REPOSITORY / ".github/workflows/checks.yml").read_text(encoding="utf-8"))
    (job,) = workflow["jobs"].values()
    assert job["steps"][-1]["run"] == ".ci/run"
    assert "pull_request" in workflow[True], "YAML reads `on` as true"
    assert os.access(REPOSITORY / ".ci/run", os.X_OK)
