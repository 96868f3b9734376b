"""What the documentation says to type is there: addresses, scopes, commands with their options, bodies of requests."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from typing import Any

import pytest
from django.core.management import CommandError, get_commands, load_command_class
from django.urls import Resolver404, resolve

from apps.contrib.forecast.api.forecasts import FactorAheadSerializer
from apps.contrib.jobs.algorithms import solve_job_case
from apps.contrib.jobs.api import ANSWER
from apps.core.code_paths import REPOSITORY
from apps.pages.algorithm.api import AlgorithmSerializer
from apps.pages.my_priority.api.views import ExplainedSerializer, LevelEffectSerializer, WalkStepSerializer
from apps.pages.tree.api import TreeSerializer
from apps.policies.operations.apply import KINDS
from apps.usage.parsers.records_json import parse_records
from apps.web.rest.priority_fields import PrioritySerializer

pytestmark = pytest.mark.product
PAGES = [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").rglob("*.md"))]
_COMMAND = re.compile(r"manage\.py ([a-z_]+)((?: +(?:\"[^\"]*\"|[^\s`|;&>\"]+))*)")
_ADDRESS = re.compile(r"\b(GET|POST|PUT|PATCH|DELETE)\s+(?:https?://[^/\s]+)?(/api/v1/[^\s`?,;)]*)")


def lines() -> Iterator[tuple[str, str]]:
    for page in PAGES:
        for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
            yield f"{page.name}:{number}", line


def view_at(path: str) -> Any:
    """The view of an address with its placeholders filled; None where there is none."""
    filled = re.sub(r"\{[^}]*\}", "1", path).rstrip(".:")
    try:
        found = resolve(filled)
    except Resolver404:
        return None
    return getattr(found.func, "view_class", found.func)


def test_documented_routes_accept_the_method() -> None:
    wrong = [
        f"{place}: {method} {path}"
        for place, line in lines()
        for method, path in _ADDRESS.findall(line)
        if (view := view_at(path)) is None or not hasattr(view, method.lower())
    ]
    assert wrong == []


def test_documented_commands_and_their_options_exist() -> None:
    wrong = []
    for place, line in lines():
        for name, rest in _COMMAND.findall(line):
            if name not in get_commands():
                wrong.append(f"{place}: {name}")
                continue
            parser = load_command_class(get_commands()[name], name).create_parser("manage.py", name)
            known = options_of(parser)
            wrong += [f"{place}: {name} {option}" for option in re.findall(r"--[a-z-]+", rest) if option not in known]
    assert wrong == []


def test_documented_commands_have_the_arguments_that_they_take() -> None:
    """Those with arguments; a command or a subcommand alone is only named."""
    wrong = []
    for place, line in lines():
        for part in re.findall(r"`([^`]+)`", line) or [line]:
            for name, rest in _COMMAND.findall(part):
                words = shlex.split(rest.replace("'", "").rstrip("\\"), comments=True)
                parser = load_command_class(get_commands()[name], name).create_parser("manage.py", name)
                if not words or (len(words) == 1 and words[0] in _subcommands_of(parser)):
                    continue
                try:
                    parser.parse_args(words)
                except CommandError as error:
                    wrong.append(f"{place}: {name} {rest}: {error}")
    assert wrong == []


def _subcommands_of(parser: Any) -> set[str]:
    return {name for action in parser._actions if isinstance(action.choices, dict) for name in action.choices}


def options_of(parser: Any) -> set[str]:
    """Those of the command and of all its subcommands."""
    found = {"--", *(option for action in parser._actions for option in action.option_strings)}
    for action in parser._actions:
        for below in (action.choices or {}).values() if isinstance(action.choices, dict) else ():
            found |= options_of(below)
    return found


def test_the_documented_records_are_accepted() -> None:
    text = (REPOSITORY / "docs/sources.md").read_text(encoding="utf-8")
    body = re.search(r"^POST /api/v1/usage/records\S*\n(.+)$", text, re.MULTILINE)
    assert body
    found = parse_records(body[1].encode(), content_type="application/json", zone=None)
    assert (len(found.batch), found.rejections) == (1, [])


IN_CONTRACTS = {
    "account",
    "entry",
    "factor",
    "rank",
    "of",
    "priorities",
    "vector",
    "provisional",
    "error",
    "steps",
    "name",
    "kind",
    "shares",
    "target",
    "target_global",
    "actual",
    "priority",
    "uid",
    "mount",
    "children",
    "label",
    "formula",
    "reference",
    "parameters",
    "policy",
    "revision",
    "snapshot",
    "as_of",
    "path",
    "state",
    "n_children",
    "sentence",
    "sentences",
}


def test_every_field_beyond_the_contracts_is_documented() -> None:
    """By its description in the schema."""
    answers = (
        PrioritySerializer,
        ExplainedSerializer,
        WalkStepSerializer,
        LevelEffectSerializer,
        TreeSerializer,
        AlgorithmSerializer,
        FactorAheadSerializer,
    )
    missing = {
        f"{each.__name__}.{name}"
        for each in answers
        for name, field in each().get_fields().items()
        if name not in IN_CONTRACTS and not field.help_text
    }
    assert missing == set()


def test_every_sam_field_beyond_the_contract_is_documented() -> None:
    listed = set(re.findall(r'[`"]([a-z0-9_]+)[`"]', json.dumps(ANSWER)))
    job = {"id": "j", "group": "g", "benefit": 1}
    answer = solve_job_case({"algorithm": {"name": "sam"}, "shares": {"g": 1}, "jobs": [job]})
    fields = {*answer, *answer["jobs"]["j"], *answer["ledger"], *answer["ledger"]["groups"]["g"]}
    assert fields - {"id", "jobs", "queue", "priority", "fraction_after"} - listed == set()


def test_every_change_set_operation_is_documented_with_its_fields() -> None:
    text = (REPOSITORY / "docs/rest.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `([a-z_]+)` \| (`entry`[^|]*|`parent`[^|]*|`settings`) \|", text, re.MULTILINE))
    listed = {kind: set(re.findall(r"`([a-z_]+)`", fields)) for kind, fields in rows.items()}
    assert listed == {kind: set(known.keys) for kind, known in KINDS.items()}


def test_addresses_of_examples_name_policies_of_the_sample() -> None:
    """Or that of the page's own example; copied unchanged they answer on a new installation."""
    named = re.compile(r"(?:/api/v1/| )policies/([a-z][a-z-]*)/")
    others = {
        f"{place}: {name}"
        for place, line in lines()
        for name in named.findall(line)
        if name not in ("nordgrid", "physics" if place.startswith("policies-as-code") else "linux")
    }
    assert others == set()
