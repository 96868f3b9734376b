"""`python -m apps.cli` is `manage.py` wherever the code is."""

from apps.cli.command_line import main

main()
