"""Slurm's configuration by REST, as settings to propose."""

from __future__ import annotations

from pathlib import Path

from tests.rest_site import Caller, refused
from tests.small_site import Site


def test_a_configuration_of_slurm_becomes_settings_to_propose(computed_site: Site, golden_dir: Path) -> None:
    admin = Caller(user=computed_site.admin)
    text = (golden_dir / "slurm/config/depth-oblivious.txt").read_text()
    found = admin.post("slurm-config", {"text": text}).json()
    assert found["cluster"] == "c1"
    assert found["settings"]["algorithm"] == {"name": "slurm-depth-oblivious", "damping_factor": 3}
    carried = {line["name"] for line in found["lines"] if line["is_carried"]}
    assert "PriorityUsageResetPeriod" in carried
    assert found["settings"]["window"]["reset"] == "monthly"
    proposed = {"base_revision": 2, "operations": [{"op": "set_policy", "settings": found["settings"]}]}
    assert admin.post("policies/grid/changesets", {**proposed, "reason": "x"}).status_code == 201
    answer = refused(admin.post("slurm-config", {"text": "no"}))
    assert answer == (422, "no_slurm_config", ["PriorityType"])
