"""Workers, broker and peers are away for hours or days, and a reader goes on asking."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from django.test import Client

from apps.accounts.models import User
from apps.policies.tree.stored import load_tree
from apps.priorities.models import Snapshot
from apps.priorities.serving import store
from tests.priority_site import Site
from tests.sign_in import sign_in

_ROUNDED_S = 0.001


class Reader:
    """Asks look-ups and pages; `differences` says where they aren't of the last good snapshot, or don't say its age."""

    def __init__(self) -> None:
        self._user = User.objects.create_superuser("reader")

    def differences(self, sites: Sequence[Site], at: datetime) -> list[str]:
        client, differences = sign_in(Client(), self._user), list[str]()
        store.poll()
        for site in sites:
            stored = Snapshot.objects.filter(is_live=True, policy=site.policy).order_by("-id").first()
            if stored is None:
                continue
            differences += self._look_up(client, site, stored, at)
            differences += self._pages(client, site)
        return differences

    @staticmethod
    def _look_up(client: Client, site: Site, stored: Snapshot, at: datetime) -> list[str]:
        answer = client.get(f"/api/v1/policies/{site.slug}/priorities", {"account": "alice"})
        if answer.status_code != 200:
            return [f"a look-up in {site.slug} answers {answer.status_code}: {answer.content[:300]!r}"]
        read: dict[str, Any] = answer.json()
        age_s = max((at - datetime.fromisoformat(read["as_of"])) / timedelta(seconds=1), 0.0)
        differences = []
        if read["snapshot"] != stored.pk:
            differences.append(f"snapshot {read['snapshot']} of {site.slug} is answered, and {stored.pk} is the last")
        if abs(read["age_s"] - age_s) > _ROUNDED_S:
            differences.append(f"{site.slug}: {read['age_s']} s are answered as age, and it is {age_s}")
        return differences

    @staticmethod
    def _pages(client: Client, site: Site) -> list[str]:
        tree = load_tree(site.policy)
        entries = [f"/policy/{site.slug}/n/{tree.uuid(place)}/x/" for place in range(min(len(tree), 3))]
        addresses = ["/", f"/policy/{site.slug}/", f"/policy/{site.slug}/tree.csv", *entries]
        answers = {each: client.get(each, follow=True) for each in addresses}
        return [
            f"{address} answers {answer.status_code} with {len(answer.getvalue())} bytes"
            for address, answer in answers.items()
            if answer.status_code != 200 or not answer.getvalue()
        ]
