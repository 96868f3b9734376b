"""Examples of bodies of this plug-in's requests, by operation id."""

from __future__ import annotations

from typing import Any

REQUESTS: dict[str, Any] = {
    "begin_setup": {
        "outputs": "sacctmgr -P show assoc\nCluster|Account|User|Share\numea|ocean|alice|10\n",
        "name": "umea",
    },
    "publish_setup": {"version": 3, "policy": "nordgrid", "scheduler": "umea", "reason": "First policy"},
    "read_slurm_config": {"text": "PriorityType=priority/multifactor\nPriorityDecayHalfLife=14-0\n"},
}
