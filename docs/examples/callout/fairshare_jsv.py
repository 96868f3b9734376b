#!/usr/bin/env python3
"""Grid Engine JSV: the POSIX priority of a job at submission, from -1023 (factor 0) to 0 (factor 1).

qconf -mconf: jsv_url script:/usr/local/lib/fairshare_jsv.py; qconf -msconf: weight_priority 1.0 (0 makes -p inert).
Override tickets can't be set at submission: the agent does that (qalter -ot).
"""

import subprocess
import sys

CALLOUT = ["fairshare-callout", "--quiet", "--wait-s", "0.5", "--weight", "1023"]


def priority(parameters):
    """Of a job's parameters; None: leave it as it is."""
    names = [parameters.get("USER", ""), parameters.get("P") or parameters.get("GROUP", "")]
    if not names[0] or names[0].startswith("-"):
        return None
    done = subprocess.run([*CALLOUT, "--group=" + names[1], "--", names[0]], stdout=subprocess.PIPE)
    return int(done.stdout) - 1023 if done.stdout.strip() else None


def main():
    """Speaks the protocol of jsv(1): START, PARAM NAME VALUE …, BEGIN, then the next job or QUIT."""
    parameters = {}
    for line in iter(sys.stdin.readline, ""):
        word, _, rest = line.rstrip("\n").partition(" ")
        if word == "START":
            parameters = {}
            answer = "STARTED"
        elif word == "PARAM":
            name, _, value = rest.partition(" ")
            parameters[name] = value
            continue
        elif word == "BEGIN":
            found = priority(parameters)
            answer = "RESULT STATE ACCEPT" if found is None else f"PARAM p {found}\nRESULT STATE CORRECT"
        elif word == "QUIT":
            return
        else:
            continue  # ENV: nothing here needs it
        sys.stdout.write(answer + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
