"""docs/commands.md: every management command and its actions, each with the first sentence of its help."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator

from django.core.management import load_command_class
from django.core.management.base import BaseCommand

from apps.core.code_paths import REPOSITORY
from docsite.markdown import code, table


def apps_by_command() -> dict[str, str]:
    """Commands of the core and of plug-ins, each with the dotted name of its app."""
    paths = (REPOSITORY / "apps").rglob("management/commands/[a-z]*.py")
    return {path.stem: ".".join(path.parents[2].relative_to(REPOSITORY).parts) for path in sorted(paths)}


def page() -> str:
    """A row for each command, and one for each action of a command that has several."""
    rows = [
        row for name, app in sorted(apps_by_command().items()) for row in _rows(name, load_command_class(app, name))
    ]
    return table(("command", "does"), rows)


def _rows(name: str, command: BaseCommand) -> Iterator[tuple[str, str]]:
    yield code(name), _first_sentence(command.help)
    for action in command.create_parser("manage.py", name)._actions:
        if isinstance(action, argparse._SubParsersAction):
            for each in action._choices_actions:
                yield code(f"{name} {each.dest}"), _first_sentence(each.help or "")


def _first_sentence(text: str) -> str:
    first = re.split(r"(?<=\.)\s", " ".join(text.split()), maxsplit=1)[0].rstrip(".")
    return first[:1].upper() + first[1:]
