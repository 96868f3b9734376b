"""Where the code is: in a clone, or where the package is installed. Imported by the settings: without Django."""

from __future__ import annotations

from pathlib import Path

#: The folder with all modules: the clone, or the environment's site-packages.
REPOSITORY = Path(__file__).resolve().parents[2]
_IN_THE_PACKAGE = REPOSITORY / "fairshare_web" / "shipped"
IS_INSTALLED = _IN_THE_PACKAGE.is_dir()
_PROGRAM = "fairshare" if IS_INSTALLED else "manage.py"
#: What belongs to the code and isn't a module: templates, static files, documents, the terminal's client.
SHIPPED = _IN_THE_PACKAGE if IS_INSTALLED else REPOSITORY


def command_name(command: str) -> str:
    """How an operator types a command here, as texts name it: `manage.py …` in a clone, `fairshare …` of a package."""
    return f"{_PROGRAM} {command}"
