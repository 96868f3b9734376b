"""A day on which peers fail, cheat and vanish, and what each site must have noted of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import timedelta

from tests.ring.grid import REFRESH_S, publication_at
from tests.ring.peers import FaultyFront, faulty_front
from tests.ring.ring import Ring

#: Faulty to the end: what ran there isn't reported correctly, so it doesn't count in the shares of the others.
INFLATES, CLOCK_AHEAD = "site-5", "site-6"
#: For some hours what their peers get isn't what they publish.
SLOW, FORGED, REPLAYED = "site-2", "site-3", "site-4"
FRONTS = {SLOW: "slow", FORGED: "forge", REPLAYED: "replay"}
REDIRECTED_AT = "site-1"
TENFOLD = 10.0
LONGEST_S = 5.0  # that a site waits for a whole answer; the product's minute would be waited for again and again
# Hours of a day of 24; a shorter run has them in proportion.
_FROM = 1.0
_HALF_OF_THE_DAY = (4.0, 16.0)
_SOME_HOURS = (6.0, 12.0)
_ONE_HOUR = (6.0, 7.0)


@dataclass
class FaultyDay:
    ring: Ring
    fronts: Mapping[str, FaultyFront]
    hours: float = 24.0
    _is_away: bool = False

    @property
    def address_of(self) -> dict[str, str]:
        return {name: front.address for name, front in self.fronts.items() if name in FRONTS}

    def aim(self) -> None:
        """Where each front leads, once the instances have their ports."""
        for name, front in self.fronts.items():
            front.target = self.ring.instances["project" if name == "redirect" else name].address

    def set_up(self) -> None:
        """Beside the grid: a mount that will be redirected, and one of the VO at its own project, which is a circle."""
        ring = self.ring
        ring.tell(ring.sites, "wait_at_most", lambda _: {"total_s": LONGEST_S})
        project, site = ring.instances["project"], ring.instances[REDIRECTED_AT]
        project.request("change", operations=[_add("/", "P-X"), _add("/P-X", "U-X"), _add("/", "view")])
        project.request("publish", entry="/P-X", name="p-x")
        site.request("change", operations=[_add("/", "elsewhere")])
        settings = {"most_points": 100, "every_s": REFRESH_S}
        site.request(
            "mount",
            entry="/elsewhere",
            url=publication_at(self.fronts["redirect"].address, "p-x"),
            fingerprint=project.request("fingerprint"),
            settings=settings,
        )
        vo = ring.instances["vo-b"]
        project.request(
            "mount",
            entry="/view",
            url=publication_at(vo.address, "vo-b"),
            fingerprint=vo.request("fingerprint"),
            settings=settings,
        )

    def before_round(self) -> None:
        """What begins or ends at this hour."""
        ring, instances = self.ring, self.ring.instances
        hour = ring.now_s / 3600 * 24 / self.hours
        if hour >= _FROM:
            ring.inflates[INFLATES] = TENFOLD
            instances[CLOCK_AHEAD].clock_is_off = timedelta(hours=1)
        is_away = _HALF_OF_THE_DAY[0] <= hour < _HALF_OF_THE_DAY[1]
        if is_away and not self._is_away:
            instances["vo-a"].kill_web()
        if self._is_away and not is_away:
            instances["vo-a"].launch_web()
            instances["vo-a"].await_web()
        self._is_away = is_away
        for name, mode in FRONTS.items():
            begins, ends = _ONE_HOUR if mode == "slow" else _SOME_HOURS
            self.fronts[name].mode = mode if begins <= hour < ends else "pass"
        if hour >= _SOME_HOURS[0]:
            self.fronts["redirect"].mode = "redirect"

    def expected_at_last(self, site: str) -> Iterator[tuple[str, str]]:
        """(at what, what is still wrong with it) when the day is over: what was repaired has been ingested again."""
        if site == REDIRECTED_AT:
            yield "project.example, p-x", "address_refused"
        if site != CLOCK_AHEAD:
            for feed in ("vo-a", "vo-b"):
                yield f"{CLOCK_AHEAD}.example, {feed}", "issued_ahead"

    def expected_codes(self) -> Iterator[tuple[str, str, str]]:
        """(who looked, at what, how the look must have ended at least once)."""
        for site in self.ring.sites:
            yield site, "vo-a.example, vo-a", "unreachable unreachable"
            peers = {
                INFLATES: "held",
                CLOCK_AHEAD: "refused issued_ahead",
                SLOW: "unreachable too_slow",
                FORGED: "refused bad_signature",
                REPLAYED: "refused older_version",
            }
            for peer, found in peers.items():
                if peer != site:
                    for feed in ("vo-a", "vo-b"):
                        yield site, f"{peer}.example, {feed}", found
        yield REDIRECTED_AT, "project.example, p-x", "refused address_refused"
        yield "project", "vo-b.example, vo-b", "refused mount_loop"


def _add(parent: str, name: str) -> dict[str, object]:
    return {"op": "add", "parent": parent, "name": name, "kind": "project", "shares": 0}


@contextmanager
def fronts_of_a_faulty_day() -> Iterator[dict[str, FaultyFront]]:
    with ExitStack() as stack:
        yield {name: stack.enter_context(faulty_front()) for name in (*FRONTS, "redirect")}
