"""Answers of a fixed site, stored to be compared before and after a change that must not alter any.

`python -m tests.reference_answers store FOLDER` writes pages, fragments, CSV and JSON of the rights matrix and of the
sample, and what commands print. `python -m tests.reference_answers compare BEFORE AFTER` lists what differs.
"""

from __future__ import annotations

import difflib
import io
import os
import re
import sys
from collections import Counter, deque
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any
from urllib.parse import urljoin, urlsplit

import pytest

FOLDER = "FAIRSHARE_REFERENCE_FOLDER"
READERS = ("admin", "pia", "alice")
SAMPLE_READERS = ("admin", "maria", "kimberg")
MOST_OF_A_ROUTE = 2  # addresses of the sample
NOT_FOLLOWED = ("/admin/", "/static/", "/sign-out", "/jsi18n", "/healthz", "/readyz", "/metrics")
LINK = re.compile(r"""\b(?:href|hx-get|data-[\w-]+|src)=["'](/[^"']*)["']""")
UUID = re.compile(r"(?<![0-9a-f])[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b")
# What differs from one run to the next.
UNSTABLE = (
    (re.compile(r'(name="csrfmiddlewaretoken" value=)"[^"]*"'), r'\1""'),
    (re.compile(r'((?:nonce|data-csrf|content)=)"[A-Za-z0-9+/=_-]{16,}"'), r'\1""'),
    (re.compile(r'("X-CSRFToken"|&quot;X-CSRFToken&quot;|&quot;x-csrftoken&quot;): ?("|&quot;)\w+'), r"\1"),
    (re.compile(r'"request_id": ?"\w+"'), '"request_id":""'),
    (re.compile(r"127\.0\.0\.1:\d+"), "127.0.0.1:0"),
    (re.compile(r"\b\d+(\.\d+)?(?=\sms\b)"), "0"),
    (re.compile(r"\bfsh_\w*(?:…\w+)?"), "fsh_"),
    (re.compile(r'<time datetime="[\d:T-]+\.\d+\+00:00" title="[^"]*">[^<]*'), "<time>"),  # sessions: by the clock
    (re.compile(r"(?:<span>[0-9a-f]{4}</span>)+"), "<span>0</span>"),
    (re.compile(r'shape-rendering="crispEdges"><path d="[^"]*"'), 'shape-rendering="crispEdges"><path'),
    (re.compile(r"(?<=\?secret=)[A-Z2-7]+"), ""),
    (re.compile(r'(?<=data-testid="peer-key">)[0-9a-f ]+'), ""),
    (re.compile(r'(?<=uid: )"?([0-9a-f-]{36})"?'), r"\1"),  # YAML quotes those that look like a number
    (re.compile(r"\b[0-9a-f]{4}…[0-9a-f]{4}\b"), "…"),
    (re.compile(r"\b(?:[0-9a-f]{16}|[0-9a-f]{32}|[0-9a-f]{64})\b"), "0"),
    (re.compile(r"\b(?:[A-Z2-7]{4} ){7}[A-Z2-7]{4}\b"), ""),
    (re.compile(r"\b(?:[0-9a-f]{4}\s){15}[0-9a-f]{4}\b"), ""),
    (re.compile(r'name="ticket" value="[^"]+"'), ""),
    (re.compile(r"(/static/[\w/.-]+?)\.[0-9a-f]{8,12}\."), r"\1."),
    (re.compile(r"(?<=\btook )[\d.]+"), "0"),
    (re.compile(r'("(?:duration_s|took_s|waited_s|elapsed_s)": ?)[\d.]+'), r"\1 0"),
    (re.compile(r'("(?:date_joined|last_login|expire_date)": ?)"[^"]*"'), r'\1""'),
    (re.compile(r'(\\?"(?:key|public|signature|last_four)\\?": ?)\\?"[^"]*"'), r'\1""'),
    (re.compile(r'"[0-9a-f]{8}-[0-9a-f]{12}\\?"'), '"0"'),
)


def stable(text: str, names: dict[str, str]) -> str:
    """Without what differs from run to run; each uid by the order of its first mention in this run."""
    for pattern, instead in UNSTABLE:
        text = pattern.sub(instead, text)
    return UUID.sub(lambda match: names.setdefault(match[0], f"uid-{len(names)}"), text)


def body_of(answer: Any) -> bytes:
    return b"".join(answer.streaming_content) if answer.streaming else answer.content


def written(answer: Any) -> tuple[str, str]:
    """The answer as text, and the ending of its file."""
    kind = answer.headers.get("Content-Type", "").partition(";")[0]
    data = body_of(answer)
    head = f"{answer.status_code} {kind} {answer.headers.get('Location', '')}\n"
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return f"{head}{len(data)} bytes\n", "bin"
    if kind.endswith("json"):
        return head + re.sub(r"(?<=[,{\[])", "\n", text), "json"  # for a difference by line
    if kind == "text/html":
        return head + re.sub(r"\s*\n\s*", "\n", re.sub(r"(?<=>)\s+(?=<)", "\n", text)), "html"
    return head + text, "txt"


class Store:
    """Writes answers into a folder, each into a file of its own."""

    def __init__(self, part: str) -> None:
        self.folder = Path(os.environ[FOLDER]) / part
        self.folder.mkdir(parents=True, exist_ok=True)
        self.names: dict[str, str] = {}
        self.numbers: Counter[str] = Counter()

    def add(self, name: str, text: str, ending: str = "txt") -> None:
        name = re.sub(r"[^a-zA-Z0-9]+", "-", re.sub(r"<\w+:(\w+)>", r"\1", name)).strip("-") or "overview"
        self.numbers[name] += 1
        (self.folder / f"{name[:150]}.{self.numbers[name]}.{ending}").write_text(stable(text, self.names))

    def answer(self, name: str, answer: Any) -> str:
        text, ending = written(answer)
        self.add(name, text, ending)
        return text


if FOLDER in os.environ:
    from django.test import Client
    from django.urls import Resolver404, resolve

    from tests.rights_world import World
    from tests.worlds import fresh_process  # noqa: F401 - fixture

    pytestmark = [pytest.mark.django_db, pytest.mark.timeout(1800)]

    @pytest.mark.parametrize("reader", READERS)
    def test_of_the_rights_matrix(world: World, reader: str, monkeypatch: pytest.MonkeyPatch) -> None:
        from tests.rights_world import cache_navigation_counts
        from tests.test_idor_matrix import READS

        cache_navigation_counts(monkeypatch)
        store = Store(f"matrix-{reader}")
        for row in READS:
            store.answer(row.route, world.ask(row, reader))

    @pytest.mark.parametrize("reader", SAMPLE_READERS)
    def test_of_the_sample(sample_grid: None, reader: str) -> None:
        from apps.accounts.models import User
        from apps.priorities.serving import store as snapshots

        snapshots.poll()
        client, store = Client(REMOTE_ADDR="192.0.2.7"), Store(f"sample-{reader}")
        client.force_login(User.objects.get(username=reader), backend="django.contrib.auth.backends.ModelBackend")
        waiting, known, of_route = deque(["/", "/me/priority/"]), set[str](), Counter[str]()
        while waiting:
            address = waiting.popleft()
            path = urlsplit(address).path
            try:
                route = resolve(path).route
            except Resolver404:
                continue
            if address in known or of_route[route] == MOST_OF_A_ROUTE or path.startswith(NOT_FOLLOWED):
                continue
            known.add(address)
            of_route[route] += 1
            text = store.answer(route, client.get(address, headers={"HX-Request": "true"} if "/_" in route else {}))
            for link in LINK.findall(text):
                waiting.append(urljoin(address, link.replace("&amp;", "&").partition("#")[0]))

    COMMANDS = (
        "priorities grid",
        "priorities grid --json",
        "export_policy --policy grid --format json",
        "export_policy --policy grid --format csv",
        "export_policy --policy grid --format sacctmgr",
        "goal grid /physics --by 2026-12-20 --json",
        "check_usage --json",
        "about_person alice",
        "analyse grid profiles",
        "analyse grid resolution --json",
        "analyse grid steps --csv",
        "analyse grid job-size",
        "sam grid",
        "scheduler list",
        "federation list",
        "verify_audit",
        *(f"compute {path}" for path in sorted(map(str, Path(__file__).parent.glob("golden/*/compute*.json")))),
    )

    def test_of_commands(world: World, capsys: pytest.CaptureFixture[str]) -> None:
        from django.core.management import call_command, get_commands
        from django.core.management.base import CommandError

        store = Store("commands")
        for command in COMMANDS:
            output = io.StringIO()
            with redirect_stdout(output), redirect_stderr(output):
                try:
                    call_command(*command.split(), stdout=output, stderr=output)
                except (CommandError, SystemExit) as refusal:
                    output.write(f"\n{type(refusal).__name__}: {refusal}\n")
            store.add(command.replace(str(Path(__file__).parent), ""), output.getvalue())
        for name, app in sorted(get_commands().items()):
            if app.startswith("apps."):
                output = io.StringIO()
                with redirect_stdout(output), pytest.raises(SystemExit):
                    call_command(name, "--help")
                store.add(f"help-{name}", output.getvalue())


def compare(before: Path, after: Path) -> int:
    """Print what differs; the number of files that do."""
    names = sorted({str(path.relative_to(root)) for root in (before, after) for path in root.rglob("*.*")})
    n_different = 0
    for name in names:
        texts = [path.read_text() if path.exists() else "" for path in (before / name, after / name)]
        if texts[0] == texts[1]:
            continue
        n_different += 1
        lines = list(difflib.unified_diff(texts[0].splitlines(), texts[1].splitlines(), lineterm="", n=0))
        print(f"{name}: {sum(line[:1] in '+-' for line in lines[2:])} lines")
        print(*(line[:240] for line in lines[2:12]), sep="\n")
    print(f"{len(names):,} answers, {n_different:,} differ")
    return n_different


if __name__ == "__main__":
    if len(sys.argv) == 3 and sys.argv[1] == "store":
        os.environ[FOLDER] = str(Path(sys.argv[2]).absolute())
        sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", "-p", "no:randomly", __file__]))
    if len(sys.argv) == 4 and sys.argv[1] == "compare":
        sys.exit(1 if compare(Path(sys.argv[2]), Path(sys.argv[3])) else 0)
    sys.exit(__doc__)
