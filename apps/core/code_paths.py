"""Where the code is: in a clone, or where the package is installed. Imported by the settings: without Django."""

from __future__ import annotations

from pathlib import Path

#: The folder with all modules: the clone, or the environment's site-packages.
REPOSITORY = Path(__file__).resolve().parents[2]
_IN_THE_PACKAGE = REPOSITORY / "fairshare_web" / "shipped"
IS_INSTALLED = _IN_THE_PACKAGE.is_dir()
#: What belongs to the code and isn't a module: templates, static files, documents, the terminal's client.
SHIPPED = _IN_THE_PACKAGE if IS_INSTALLED else REPOSITORY
