"""Blocks of ```console in the documentation: what is typed, what is answered, and running both."""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote, urlsplit

from django.db import connection
from django.test import Client

from tests.commands import run_manage
from tests.loaded_script import run_script

_BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_ASSIGNED = re.compile(r"(?:export )?(\w+)=\$\((.+)\)")
_VARIABLE = re.compile(r"\$(\w+)")
_MANAGE = [".venv/bin/python", "manage.py"]
ANYTHING = "…"


@dataclass(frozen=True)
class Step:
    """One line behind `$`, and what the page shows beneath it."""

    place: str
    command: str
    answer: str


@dataclass
class Shell:
    """Runs the commands of one page: manage.py and `fairshare` as processes, curl in this one.

    program: the terminal client, as the running site hands it out.
    """

    program: Path
    variables: dict[str, str] = field(default_factory=dict)
    client: Client = field(default_factory=lambda: Client(headers={"host": "127.0.0.1"}))

    def run(self, command: str) -> str:
        if assigned := _ASSIGNED.fullmatch(command):
            words = shlex.split(assigned[2])
            self.variables[assigned[1]] = manage(words[2:], with_errors=False).strip()
            return ""
        head, *pipes = command.split(" | ")
        text = self._run_one(head)
        for pipe in pipes:
            if pipe != "python3 -m json.tool":
                raise ValueError(f"{pipe!r} is not known here")
            text = json.dumps(json.loads(text), indent=4, ensure_ascii=False)
        return text

    def _run_one(self, command: str) -> str:
        words = [_VARIABLE.sub(lambda found: self.variables[str(found[1])], word) for word in shlex.split(command)]
        if words[:2] == _MANAGE:
            return manage(words[2:])
        if words[0] == "fairshare":
            return self._fairshare(words[1:])
        if words[0] == "curl":
            return self._curl(words[1:])
        raise ValueError(f"{words[0]!r} is not known here")

    def _fairshare(self, words: list[str]) -> str:
        environment = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "TZ": "UTC", "HOME": str(self.program.parent)}
        environment |= {name: value for name, value in self.variables.items() if name == "FAIRSHARE_TOKEN"}
        _status, out, errors = run_script(self.program, words, env=environment, cwd=Path.cwd())
        return out + errors

    def _curl(self, words: list[str]) -> str:
        headers, body, url = {}, None, ""
        rest = iter(words)
        for word in rest:
            if word in ("-H", "--header"):
                name, _, value = next(rest).partition(": ")
                headers[name] = value
            elif word in ("-d", "--data", "--data-binary"):
                body = next(rest)
            elif not word.startswith("-"):
                url = word
        parts = urlsplit(url)
        kind = headers.pop("Content-Type", "application/x-www-form-urlencoded")
        path = f"{parts.path}?{parts.query}"
        if body is None:
            answer = self.client.get(path, headers=headers)
        else:
            answer = self.client.post(path, data=body, content_type=kind, headers=headers)
        return b"".join(answer).decode()


def manage(
    arguments: Sequence[str], *, with_errors: bool = True, stdin: str = "", status: int | None = None, **settings: str
) -> str:
    """What a terminal shows; without errors: what `$(…)` gets.

    `call_command` reads no arguments as a terminal does. status: exit status that it must have.
    """
    database = connection.settings_dict
    host = quote(str(database["HOST"]), safe="")
    url = f"postgres://{quote(database['USER'])}:{quote(database['PASSWORD'])}@/{database['NAME']}"
    environment = {**os.environ, **settings, "DATABASE_URL": f"{url}?host={host}&port={database['PORT']}"}
    done = run_manage(
        *arguments,
        env=environment,
        stdin=stdin.encode(),
        cwd=Path.cwd(),
        text=True,
        is_terminal=with_errors,
        timeout_s=900.0,
    )
    assert status is None or done.returncode == status, f"{arguments}: {done.stdout} {done.stderr}"
    return done.stdout


def steps_of(page: Path) -> Iterator[Step]:
    text = page.read_text(encoding="utf-8")
    for block in _BLOCK.finditer(text):
        line = text[: block.start()].count("\n") + 1
        for typed in re.split(r"^\$ ", block[1], flags=re.MULTILINE)[1:]:
            joined = typed.replace("\\\n", " ")
            command, _, answer = joined.partition("\n")
            yield Step(f"{page.name}:{line}", re.sub(r"\s+", " ", command).strip(), answer.rstrip())


def is_answer(shown: str, given: str) -> bool:
    """Whether the output is what the page shows; `…` matches anything."""
    parts = (re.escape(part) for part in _trimmed(shown).split(ANYTHING))
    return re.fullmatch(".*?".join(parts), _trimmed(given), re.DOTALL) is not None


def _trimmed(text: str) -> str:
    """Without spaces at the ends of lines, and without empty lines around it."""
    return "\n".join(line.rstrip() for line in text.rstrip().splitlines()).strip("\n")
