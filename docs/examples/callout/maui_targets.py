#!/usr/bin/env python3
"""Maui and Moab: fairshare targets of a policy's groups, as lines of maui.cfg. Their own usage, our shares.

curl -H "Authorization: Bearer $TOKEN" "$SITE/api/v1/policies/nordgrid/tree?format=csv" | maui_targets.py > fs.cfg
"""

import csv
import re
import sys

HEAD = "FSPOLICY DEDICATEDPS\nFSDEPTH 14\nFSINTERVAL 24:00:00\nFSDECAY 0.9\nFSWEIGHT 1\nFSACCOUNTWEIGHT 100\n"


def main():
    sys.stdout.write(HEAD)
    for row in csv.DictReader(sys.stdin):
        name = row["path"].strip("/")
        if "/" not in name and re.match(r"[A-Za-z0-9_][A-Za-z0-9_.-]*\Z", name) and row["target"]:
            sys.stdout.write("ACCOUNTCFG[{}] FSTARGET={:.2f}\n".format(name, 100 * float(row["target"])))


if __name__ == "__main__":
    main()
