"""docs/commands.md: every management command with its arguments, from the parsers that read them."""

from __future__ import annotations

import argparse
import re

from django.core.management import load_command_class
from django.core.management.base import BaseCommand

from apps.cli.stack.paths import REPOSITORY
from docsite.markdown import code, table

_FOLDER = REPOSITORY / "apps/cli/management/commands"
_OF_DJANGO = {
    "--help",
    "--version",
    "--verbosity",
    "--settings",
    "--pythonpath",
    "--traceback",
    "--no-color",
    "--force-color",
    "--skip-checks",
}


def names() -> list[str]:
    return sorted(path.stem for path in _FOLDER.glob("[a-z]*.py"))


def page() -> str:
    """A list of all commands, then one section a command."""
    commands = {name: load_command_class("apps.cli", name) for name in names()}
    overview = table(
        ("command", "does"), [(f"[`{name}`](#{name})", _first_sentence(each)) for name, each in commands.items()]
    )
    return "\n\n".join([overview, *(_section(name, each) for name, each in commands.items())])


def _first_sentence(command: BaseCommand) -> str:
    return re.split(r"(?<=\.)\s", " ".join(command.help.split()), maxsplit=1)[0].rstrip(".")


def _section(name: str, command: BaseCommand) -> str:
    parser = command.create_parser("manage.py", name)
    parts = [f"## {name}", " ".join(command.help.split()), *_arguments(parser, parser.prog)]
    for below in _subparsers(parser):
        for action, sub in below.choices.items():
            text = next((each.help for each in below._choices_actions if each.dest == action), None)
            parts += [f"### {name} {action}", _as_sentence(text), *_arguments(sub, f"manage.py {name} {action}")]
    return "\n\n".join(part for part in parts if part)


def _as_sentence(text: str | None) -> str:
    return f"{text[0].upper()}{text[1:].rstrip('.')}." if text else ""


def _subparsers(parser: argparse.ArgumentParser) -> list[argparse._SubParsersAction[argparse.ArgumentParser]]:
    return [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]


def _arguments(parser: argparse.ArgumentParser, call: str) -> list[str]:
    """The line to type, and a table of what it takes."""
    own = [
        each
        for each in parser._actions
        if not isinstance(each, argparse._SubParsersAction) and not _OF_DJANGO.intersection(each.option_strings)
    ]
    needed = [_shown(each) for each in own if each.required or not each.option_strings]
    optional = "[options]" if any(each.option_strings and not each.required for each in own) else ""
    below = "ACTION …" if _subparsers(parser) else ""
    line = " ".join(part for part in (".venv/bin/python", call, below, *needed, optional) if part)
    rows = [(code(_shown(each)), _meaning(each)) for each in own]
    return [f"```sh\n{line}\n```", *([table(("argument", "is"), rows)] if rows else [])]


def _shown(action: argparse.Action) -> str:
    if not action.option_strings:
        name = _metavar(action)
        return f"{name}…" if action.nargs in ("+", "*") else f"[{name}]" if action.nargs == "?" else name
    takes = action.nargs != 0
    return f"{action.option_strings[-1]} {_metavar(action)}" if takes else action.option_strings[-1]


def _metavar(action: argparse.Action) -> str:
    if isinstance(action.metavar, str):
        return action.metavar
    return "VALUE" if action.choices else action.dest.upper()


def _meaning(action: argparse.Action) -> str:
    parts = [" ".join((action.help or "").replace("%%", "%").split()).replace("%(default)s", str(action.default))]
    if action.choices:
        parts.append("one of " + ", ".join(code(str(choice)) for choice in action.choices))
    elif action.default not in (None, False, argparse.SUPPRESS, [], "") and "default" not in parts[0]:
        parts.append(f"default {code(str(action.default))}")
    return "; ".join(part for part in parts if part)
