"""`python -m apps.cli` is `manage.py` wherever the code lies."""

from apps.cli.command_line import main

main()
