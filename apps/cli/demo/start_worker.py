"""`python -m apps.cli.demo.start_worker`: the worker of an instance, once Django knows its settings."""

from __future__ import annotations

import django

if __name__ == "__main__":
    django.setup()
    from apps.cli.demo.worker import main

    main()
