"""Where an empty site leads its administrator."""

from __future__ import annotations

from django.test import Client

from apps.accounts.models import User
from tests.pages.page import read
from tests.sign_in import sign_in


def test_an_empty_site_links_its_administrator_to_first_steps(db: None, client: Client) -> None:
    sign_in(client, User.objects.create_superuser("eva"))
    assert read(client.get("/")).has('main a[href="/setup/"]')
    sign_in(client, User.objects.create_user("guest"))
    assert "/setup/" not in client.get("/").content.decode()


def test_steps_that_are_open_lead_there_before_the_first_policy(db: None, client: Client) -> None:
    sign_in(client, User.objects.create_superuser("root"))
    page = read(client.get("/"))
    for step in ("shares", "mapping"):
        assert page.has(f'[data-key="{step}"] a[href="/setup/"]'), step
