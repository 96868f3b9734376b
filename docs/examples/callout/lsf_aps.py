#!/usr/bin/env python3
"""LSF, once a minute: the ADMIN factor of absolute priority scheduling of pending jobs. Needs an LSF administrator.

lsb.queues: APS_PRIORITY = WEIGHT[[JPRIORITY, 1] [QPRIORITY, 1]] (without FS, or usage counts twice).
"""

import subprocess

CALLOUT = ["fairshare-callout", "--stdin", "--weight", "1000", "--wait-s", "10", "--quiet"]
PENDING = ["bjobs", "-u", "all", "-p", "-noheader", "-o", "jobid user project delimiter='|'"]


def main():
    listing = subprocess.run(PENDING, stdout=subprocess.PIPE, check=True).stdout.decode()
    jobs = [line.strip().split("|") for line in listing.splitlines() if line.count("|") == 2]
    names = "".join(f"{user}\t{project}\n" for _, user, project in jobs)
    done = subprocess.run(CALLOUT, input=names.encode(), stdout=subprocess.PIPE)
    if done.returncode:
        return  # some numbers are the fallback: what the jobs have stays
    for (job, _, _), value in zip(jobs, done.stdout.decode().split()):
        if job.isdigit():
            subprocess.run(["bmod", "-aps", f"admin={max(int(value), 1)}", job])  # 0 isn't allowed


if __name__ == "__main__":
    main()
