#!/usr/bin/env python3
"""Give each pending job of Slurm the factor that Fairshare has for its account, as site factor.

Environment: FAIRSHARE_LOOKUP, the address …/api/v1/policies/POLICY/priorities/lookup; FAIRSHARE_TOKEN with the scope
priorities:read; FAIRSHARE_NAMESPACE, whose user names these are; FAIRSHARE_WEIGHT, what a factor of 1 is worth.
Run it as SlurmUser every minute. If the service doesn't answer, jobs keep the site factor that they have.
"""

import json
import os
import subprocess
import sys
import urllib.error
import urllib.request

MOST = 10_000  # accounts in one look-up


def pending_jobs() -> list[tuple[str, str, str]]:
    """Job, user and account of each pending job; a pending array is one job, by the number of the array."""
    listed = subprocess.run(
        ["squeue", "--noheader", "--states=PENDING", "--Format=JobID:|,UserName:|,Account:|"],
        check=True,
        capture_output=True,
        text=True,
    )
    rows = (line.split("|")[:3] for line in listed.stdout.splitlines() if line.strip())
    return [(job.strip(), user.strip(), account.strip()) for job, user, account in rows]


def look_up(accounts: list[dict[str, str]]) -> list[float]:
    """The factors of accounts, in their order."""
    request = urllib.request.Request(
        os.environ["FAIRSHARE_LOOKUP"],
        data=json.dumps({"accounts": accounts}).encode(),
        headers={"Authorization": f"Bearer {os.environ['FAIRSHARE_TOKEN']}", "Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=10) as answer:
        return [result["factor"] for result in json.load(answer)["results"]]


def main() -> int:
    weight = int(os.environ.get("FAIRSHARE_WEIGHT", "100000"))
    namespace = os.environ["FAIRSHARE_NAMESPACE"]
    jobs: dict[tuple[str, str], list[str]] = {}
    for job, user, account in pending_jobs():
        jobs.setdefault((user, account), []).append(job)
    names = list(jobs)
    for begin in range(0, len(names), MOST):
        part = names[begin : begin + MOST]
        try:
            factors = look_up([{"user": user, "group": group, "namespace": namespace} for user, group in part])
        except (urllib.error.URLError, TimeoutError) as error:
            print(f"no priorities: {error}; site factors stay", file=sys.stderr)
            return 1
        for name, factor in zip(part, factors):
            site_factor = f"SiteFactor={round(weight * factor)}"
            subprocess.run(["scontrol", "update", f"JobId={','.join(jobs[name])}", site_factor], check=False)
    return 0


if __name__ == "__main__":
    sys.exit(main())
