"""Objects of other packages: the message about an unknown name says which package was refused."""

from __future__ import annotations

from apps.engine.installed import Installed, Refused, rejection_note


def test_an_unknown_name_names_the_package_that_was_refused() -> None:
    refused = (
        Refused("fairshare.operators", "steep", "hills", "no range"),
        Refused("fairshare.operators", "flat", "plains", "no label"),
    )
    installed: Installed[object] = Installed({}, {}, refused)
    assert rejection_note(installed, "flat") == " (package plains was refused: no label)"
    assert rejection_note(installed, "round") == ""
