#!/usr/bin/env python3
"""Flux, in place of `flux account-update-fshare`: our factors as fairshare of each association. `flux_fairshare.py DB`

The multi-factor priority plug-in (mf_priority.so) multiplies them by its fairshare weight. Afterwards:
flux account-priority-update
"""

import sqlite3
import subprocess
import sys

CALLOUT = ["fairshare-callout", "--stdin", "--wait-s", "10", "--quiet"]


def main():
    with sqlite3.connect(sys.argv[1]) as database:
        rows = database.execute("SELECT username, bank FROM association_table WHERE active = 1").fetchall()
        names = "".join("{}\t{}\n".format(*row) for row in rows)
        done = subprocess.run(CALLOUT, input=names.encode(), stdout=subprocess.PIPE)
        if done.returncode:
            sys.exit(1)  # some numbers are the fallback: what is there stays
        factors = map(float, done.stdout.decode().split())
        update = "UPDATE association_table SET fairshare = ? WHERE username = ? AND bank = ?"
        database.executemany(update, [(factor, user, bank) for factor, (user, bank) in zip(factors, rows)])


if __name__ == "__main__":
    main()
