"""What axe finds where it measures each look once, against what it finds where it measures everything."""

from __future__ import annotations

from typing import Any

from tests.browser.axe import load_axe, run_axe
from tests.browser.conftest import Open, Visit

CONTEXT = {"include": [["html"]]}
PAGE = """<!doctype html><html lang="en"><title>Looks</title><style>
  body { color: #222; background: #fff } .pale { color: #bbb } .dark { background: #333 } .large { font-size: 30px }
  .half { opacity: .3 } .over { position: absolute; background: #333; inset: 0 } .box { position: relative }
</style><main><h1>Looks</h1>
<p id="a">plain</p><p id="b">plain</p>
<p class="pale" id="pale-1">pale</p><p class="pale" id="pale-2">pale</p>
<div class="dark"><p id="on-dark">plain on dark</p><p class="pale" id="pale-on-dark">pale on dark</p></div>
<div class="half"><p id="half">half</p></div>
<div class="box"><i class="over"></i><p id="under">plain under something</p></div>
<p><img src="data:,"><a href="#a"></a></p></main></html>"""


def found(window: Visit, *, every: bool) -> dict[str, list[Any]]:
    load_axe(window.page, window.base)
    rules = run_axe(window.page, CONTEXT, {}, every=every)
    return {rule["id"]: [node["target"][0] for node in rule["nodes"]] for rule in rules}


def test_each_appearance_is_measured(visit: Open, transactional_db: None) -> None:
    window = visit()
    window.page.route("**/looks/", lambda route: route.fulfill(body=PAGE, content_type="text/html"))
    window.go("/looks/")
    every, once = found(window, every=True), found(window, every=False)
    assert set(once) == set(every) == {"color-contrast", "image-alt", "link-name"}
    assert set(every["color-contrast"]) == {"#pale-1", "#pale-2", "#on-dark", "#half"}
    assert set(once["color-contrast"]) == {"#pale-1", "#on-dark", "#half"}


def test_a_changed_appearance_is_measured_again(visit: Open, transactional_db: None) -> None:
    window = visit()
    window.go("/sign-in/")
    assert "color-contrast" not in found(window, every=False)
    window.page.evaluate("document.querySelector('main').style.color = '#eee'; null")
    window.page.evaluate("document.querySelectorAll('main label').forEach((each) => { each.style.color = '#eee'; })")
    n_labels = window.page.locator("main label").count()
    assert len(found(window, every=True)["color-contrast"]) >= n_labels
    assert found(window, every=False)["color-contrast"]
