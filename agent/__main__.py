"""`python3 fairshare-agent.pyz …` and `python -m agent …`."""

import sys

from agent.command_line import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
