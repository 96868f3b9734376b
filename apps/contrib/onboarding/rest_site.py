"""Begin a first policy with slurmrestd alone: its address and a token give the tree, the configuration, the shares
and the usage.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.db import transaction
from django.utils.translation import gettext as _

from apps.accounts.actor import Actor
from apps.contrib.onboarding.first_policy_draft import read_tree, require_setup
from apps.contrib.onboarding.models import FirstPolicyDraft
from apps.contrib.onboarding.slurm_outputs import LOG_DAYS
from apps.contrib.onboarding.slurmrestd_outputs import read_site_by_rest
from apps.core import clock
from apps.core.errors import Conflict, FieldProblem
from apps.usage.models import Source
from apps.usage.sources.services import collect_now, set_up_source
from apps.usage.sources.slurmrestd import Slurmrestd

REST_TIMEOUT_S = 60.0  # of each answer, while an administrator waits
_DAY_S = 86_400


@dataclass(frozen=True)
class RestSite:
    """A site that slurmrestd answers for, and the usage source that is made for it; its token file has that name."""

    address: str
    source_slug: str
    user: str = ""  # for whom the token is


@dataclass(frozen=True)
class BegunByRest:
    """has_config: whether the daemon shows its configuration, as that of Slurm 26.05 does."""

    draft: FirstPolicyDraft
    source: Source
    has_config: bool


def begin_by_rest(site: RestSite, *, at: datetime, actor: Actor) -> BegunByRest:
    """Create the draft, or replace its tree. The usage source collects the last 90 days now, then at its interval.

    Nothing is stored unless all answers are whole.

    Raises:
        Unavailable: no whole answer. Invalid: the address isn't open, or the token is refused; with the remedy.
        Conflict: another source has this name.
    """
    require_setup(actor)
    address = site.address.strip().rstrip("/")
    source = Source.objects.filter(slug=site.source_slug).first()
    if source is not None and source.collecting.get("address") != address:
        message = _("Another usage source has this name.")
        raise Conflict(message, code="source_exists", fields=[FieldProblem("source_name", message)])
    outputs = read_site_by_rest(Slurmrestd(address, site.source_slug, site.user, REST_TIMEOUT_S, clock.now))
    with transaction.atomic():
        if source is None:
            collecting = {"address": address, "user": site.user, "look_back_s": LOG_DAYS * _DAY_S}
            new_settings = {"name": site.source_slug, "kind": Source.Kind.SLURM_REST, "collecting": collecting}
            source = set_up_source(slug=site.source_slug, new_settings=new_settings, at=at, actor=actor)
        content = outputs.text.encode()
        draft = read_tree(content=content, file_name=address, format="sacctmgr", at=at, actor=actor)
        collect_now(slug=source.slug, at=at, actor=actor)
    return BegunByRest(draft, source, outputs.has_config)
