#!/usr/bin/env python3
"""HTCondor, once a minute: the priority factor of each submitter, from 1 (factor 1) to 1000 (factor 0).

Needs `pip install htcondor` and ADMINISTRATOR rights at the negotiator. condor_config: PRIORITY_HALFLIFE = 60, so that
HTCondor's own real priority follows what runs now and usage of the past counts once.
"""

import subprocess

import htcondor2

CALLOUT = ["fairshare-callout", "--stdin", "--wait-s", "10", "--quiet"]
WORST = 1000.0


def account(name):
    """user, accounting group of group_physics.ann@example.org"""
    group, _, user = name.partition("@")[0].rpartition(".")
    return user, group.replace("group_", "", 1)


def main():
    negotiator = htcondor2.Negotiator()
    names = [ad["Name"] for ad in negotiator.getPriorities() if "@" in ad["Name"]]
    lines = "".join("{}\t{}\n".format(*account(name)) for name in names)
    done = subprocess.run(CALLOUT, input=lines.encode(), stdout=subprocess.PIPE)
    if done.returncode:
        return  # some numbers are the fallback: the factors stay
    for name, factor in zip(names, done.stdout.decode().split()):
        negotiator.setFactor(name, round(1.0 + (WORST - 1.0) * (1.0 - float(factor)), 1))


if __name__ == "__main__":
    main()
