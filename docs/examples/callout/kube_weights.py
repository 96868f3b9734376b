#!/usr/bin/env python3
"""Kueue and Volcano, once a minute: factors as weights of queues. `kube_weights.py kueue|volcano QUEUE …`

Both divide what is free now by weight and remember nothing: the factor brings in usage of the past. Each queue is an
account of the same name, which counts at its group. Kueue: fairSharing must be enabled in its configuration.
"""

import json
import subprocess
import sys

CALLOUT = ["fairshare-callout", "--stdin", "--wait-s", "10", "--quiet"]


def patch(kind, factor):
    """Resource and merge patch. Kueue: a quantity above 0 (0 means never). Volcano: an integer from 1."""
    if kind == "kueue":
        return "clusterqueue", {"spec": {"fairSharing": {"weight": f"{max(factor, 0.001):.3f}"}}}
    return "queue.scheduling.volcano.sh", {"spec": {"weight": 1 + round(factor * 999)}}


def main():
    kind, queues = sys.argv[1], sys.argv[2:]
    done = subprocess.run(CALLOUT, input="".join(q + "\n" for q in queues).encode(), stdout=subprocess.PIPE)
    if kind not in ("kueue", "volcano") or done.returncode:
        sys.exit(1)  # some numbers are the fallback: the weights stay
    for queue, factor in zip(queues, done.stdout.decode().split()):
        resource, document = patch(kind, float(factor))
        subprocess.run(["kubectl", "patch", resource, "--type=merge", "-p", json.dumps(document), "--", queue])


if __name__ == "__main__":
    main()
