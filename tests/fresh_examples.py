"""Property tests on examples that nobody has drawn before (`--hypothesis-profile=fresh`), and how to draw them again.

The seed is that of `--hypothesis-seed`; without it one is chosen, for all workers.
"""

from __future__ import annotations

import secrets

import pytest

from tests.examples import FRESH


def is_fresh(config: pytest.Config) -> bool:
    return bool(config.getoption("--hypothesis-profile") == FRESH)


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Before the plugin of hypothesis reads the option; workers get the options of the controller."""
    if is_fresh(config) and config.option.hypothesis_seed is None:
        config.option.hypothesis_seed = str(secrets.randbelow(1 << 32))


def pytest_report_header(config: pytest.Config) -> str | None:
    return f"--hypothesis-seed={config.option.hypothesis_seed}" if is_fresh(config) else None


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    failed = sorted({report.nodeid for report in terminalreporter.getreports("failed")})
    if is_fresh(config) and failed:
        terminalreporter.section("to draw these examples again")
        options = f"--deep --hypothesis-profile={FRESH} --hypothesis-seed={config.option.hypothesis_seed}"
        for name in failed:
            terminalreporter.write_line(f".venv/bin/python -m pytest {options} '{name}'")
        terminalreporter.write_line("What they found stays in its test as @example, once it is mended.")
