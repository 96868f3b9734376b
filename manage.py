#!/usr/bin/env python3
"""Entry of every command an operator types."""

from __future__ import annotations

import os
import sys


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "fairshare_web.settings")
    try:
        from django.core.management import execute_from_command_line
    except ImportError:
        sys.exit("Django isn't installed here: run `make setup` and use .venv/bin/python manage.py.")
    execute_from_command_line(sys.argv)


if __name__ == "__main__":
    main()
