"""Examples of bodies of this plug-in's requests, by operation id."""

from __future__ import annotations

from typing import Any

_SPEC: dict[str, Any] = {
    "workload": {"kind": "replay", "days": 90},
    "variants": [{"name": "Two weeks", "settings": {"window": {"half_life_s": 1_209_600}}}],
    "seed": 1,
}
REQUESTS: dict[str, Any] = {
    "make_experiment": {"name": "Half-life 7 or 14 days?", **_SPEC},
    "estimate_experiment": {"name": "Half-life 7 or 14 days?", **_SPEC},
    "attach_experiment": {"change_set": 12},
    "upload_trace": {
        "name": "spring.swf",
        "text": "; UnixStartTime: 1772323200\n1 0 60 7200 32 -1 -1 32 10800 -1 1 4 2 -1 1 1 -1 -1\n",
    },
}
