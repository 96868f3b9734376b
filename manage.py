#!/usr/bin/env python3
"""Entry of every command an operator types, in a clone."""

from __future__ import annotations

from apps.cli.command_line import main

if __name__ == "__main__":
    main()
