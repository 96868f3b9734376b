"""No argument of a command of ours takes the name of one of Django's own options, also in subcommands."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from django.core.management import get_commands, load_command_class
from django.core.management.base import BaseCommand

from tests.each_case import each_case

OURS = sorted(name for name, app in get_commands().items() if app.startswith("apps."))
#: What BaseCommand.run_from_argv, handle_default_options and execute take out of the options.
DJANGOS = {
    *("settings", "pythonpath", "traceback", "verbosity", "no_color", "force_color", "skip_checks"),
    *("version", "stdout", "stderr", "args"),
}


class _Plain(BaseCommand):
    def handle(self, *args: object, **options: object) -> None: ...


def _own_actions(parser: argparse.ArgumentParser, base: set[str]) -> Iterator[argparse.Action]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for below in action.choices.values():
                yield from _own_actions(below, set())
        elif not base.intersection(action.option_strings):
            yield action


def test_there_are_commands() -> None:
    assert {"up", "import_usage", "recompute"} <= set(OURS)


def test_names_are_those_of_django() -> None:
    parser = _Plain().create_parser("manage.py", "plain")
    assert {action.dest for action in parser._actions} - {"help"} <= DJANGOS


@each_case("name", OURS)
def test_no_argument_has_a_name_of_djangos_options(name: str) -> None:
    base = {text for action in _Plain().create_parser("manage.py", "plain")._actions for text in action.option_strings}
    parser = load_command_class(get_commands()[name], name).create_parser("manage.py", name)
    taken = [(action.option_strings or action.dest) for action in _own_actions(parser, base) if action.dest in DJANGOS]
    assert taken == []
