"""What tests need beside the code, where it is expected, and one report of what a run could not test."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from pathlib import Path
from typing import NoReturn

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent
GOLDEN = REPOSITORY / "tests" / "golden"
TRACES = REPOSITORY.parent / "shared" / "traces"
VECTORS = REPOSITORY.parent / "shared" / "vectors"
# The same as in .ci/debian; the first draws pages alone, without the window of a browser around them.
BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_PREFIX = "Skipped: "


def missing(what: str, remedy: str) -> NoReturn:
    """Skip with the command that brings it; fail where everything has to be here (FAIRSHARE_REQUIRE_ALL=1)."""
    if os.environ.get("FAIRSHARE_REQUIRE_ALL", "") not in ("", "0"):
        pytest.fail(f"{what}; {remedy} (FAIRSHARE_REQUIRE_ALL is set: this may not be skipped)", pytrace=False)
    pytest.skip(f"{what}; {remedy}")


@pytest.fixture(scope="session")
def golden_dir() -> Path:
    """Measured and computed cases; tests/golden/README.md says where each comes from."""
    return GOLDEN


@pytest.fixture(scope="session")
def traces_dir() -> Path:
    """Logs of other sites: they may not be distributed with the project, so they lie beside the checkout."""
    if not TRACES.is_dir():
        missing("no logs of other sites", f"expected in {TRACES}, see docs/developer.md")
    return TRACES


@pytest.fixture(scope="session")
def vectors_dir() -> Path:
    """Inputs with right numbers that others worked out; beside the checkout, as the logs."""
    if not VECTORS.is_dir():
        missing("no vectors of others", f"expected in {VECTORS}, see docs/developer.md")
    return VECTORS


@pytest.fixture(scope="session")
def chromium_path() -> str:
    """The browser of the system: CHROME_BIN, else the first of BROWSERS."""
    return find_browser()


def find_browser() -> str:
    named = os.environ.get("CHROME_BIN")
    if named and not shutil.which(named):
        missing(f"CHROME_BIN names {named}, which is no program here", "unset it, or name a Chromium")
    found = next(filter(None, map(shutil.which, [named] if named else BROWSERS)), None)
    return found or missing("no Chromium", "apt-get install chromium-headless-shell, or set CHROME_BIN")


def untested(skipped: list[pytest.TestReport]) -> Counter[str]:
    """Skipped cases by reason."""
    return Counter(
        str(report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr).removeprefix(_PREFIX)
        for report in skipped
    )


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Also under xdist: its workers send their reports here."""
    reasons = untested(terminalreporter.stats.get("skipped", []))
    if not reasons:
        return
    n_cases = reasons.total()
    terminalreporter.section(f"NOT TESTED: {n_cases} case{'s' if n_cases > 1 else ''}", "!", red=True, bold=True)
    for reason, count in reasons.most_common():
        terminalreporter.line(f"{count:5}  {reason}", red=True)
