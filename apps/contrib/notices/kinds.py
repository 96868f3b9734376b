"""All kinds of notices: what each checks, whom it is for, what it says, and its limits."""

from __future__ import annotations

from django.utils.translation import gettext_lazy as _

from apps.contrib.notices import audience, findings, sentences
from apps.contrib.notices.kind import Kind, Term
from apps.contrib.notices.models import Notice
from apps.contrib.notices.visibility import Reader
from apps.core.errors import NotFound
from apps.core.plugins import with_additions

_OWN: tuple[Kind, ...] = (
    Kind(
        name="waiting_decisions",
        title=_("Pending reviews and requests"),
        about=_("A change or a request for shares waits for a decision."),
        watches="policy",
        find=findings.waiting_decisions,
        is_for=audience.deciders,
        describe=sentences.waiting_decisions,
        leads_to="change_set",
        terms=(Term("days", _("Pending for"), _("days"), 3, 1, 366),),
    ),
    Kind(
        name="request_decided",
        title=_("Decided requests"),
        about=_("A request for shares was granted or declined."),
        watches="policy",
        find=findings.decided_requests,
        is_for=audience.subject,
        describe=sentences.request_decided,
        leads_to="change_set",
        terms=(Term("days", _("Shown for"), _("days"), 14, 1, 366),),
    ),
    Kind(
        name="shares_changed",
        title=_("Changed shares"),
        about=_("A publication changed the shares in the group of an entry of yours."),
        watches="policy",
        find=findings.changed_shares,
        is_for=audience.affected,
        describe=sentences.shares_changed,
        leads_to="entry",
        terms=(Term("days", _("Shown for"), _("days"), 14, 1, 366),),
    ),
    Kind(
        name="late_source",
        title=_("Late usage sources"),
        about=_(
            "The last contact of a source is older than twice its interval, plus the grace time, or no collection has "
            "worked yet."
        ),
        watches="source",
        find=findings.late_source,
        is_for=audience.administrators,
        describe=sentences.late_source,
        leads_to="source",
        terms=(Term("grace_h", _("Grace time"), _("hours"), 1, 0, 8784),),
    ),
    Kind(
        name="unmapped_usage",
        title=_("Unmapped usage"),
        about=_("Unmapped accounts exceed this percentage of all usage."),
        watches="policy",
        find=findings.unmapped_usage,
        is_for=audience.mappers_of_all,
        describe=sentences.unmapped_usage,
        leads_to="mappings",
        terms=(Term("percent", _("Threshold"), _("%"), 5, 0, 100, is_whole=False),),
    ),
    Kind(
        name="account_claimed",
        title=_("Claimed accounts"),
        about=_("A user claims an account and waits for a decision."),
        watches="policy",
        find=findings.claimed_accounts,
        is_for=audience.mappers_of_entry,
        describe=sentences.account_claimed,
        leads_to="members",
    ),
    Kind(
        name="recompute_failed",
        title=_("Failed recomputes"),
        about=_("The newest recompute of a policy failed, so that its last priorities stay."),
        watches="policy",
        find=findings.failed_recomputes,
        is_for=audience.administrators,
        describe=sentences.recompute_failed,
        leads_to="algorithm",
    ),
    Kind(
        name="backup_failing",
        title=_("Failing backups"),
        about=_("A backup by schedule failed, or there was no good one for two days."),
        watches="site",
        find=findings.failing_backup,
        is_for=audience.administrators,
        describe=sentences.backup_failing,
        leads_to="",
    ),
    Kind(
        name="stale_peer",
        title=_("Lost peers"),
        about=_(
            "A mount, or usage of another site, was not confirmed within its maximum age, or it is blocked until an "
            "administrator decides."
        ),
        watches="policy",
        find=findings.lost_peers,
        is_for=audience.who_mounts,
        describe=sentences.stale_peer,
        leads_to="remote",
    ),
)
_BY_NAME: dict[str, Kind] = with_additions({kind.name: kind for kind in _OWN}, "notice_kinds")
KINDS = tuple(_BY_NAME.values())


def is_kind(name: str) -> bool:
    return name in _BY_NAME


def kind_of(name: str) -> Kind:
    if name not in _BY_NAME:
        raise NotFound(f"There is no kind of notice {name[:40]!r}; known: {', '.join(_BY_NAME)}.")
    return _BY_NAME[name]


def is_visible(reader: Reader, notice: Notice) -> bool:
    """Whether the reader may see the notice. Notices of a kind that this version lacks are visible to no one."""
    kind = _BY_NAME.get(notice.kind)
    if kind is None or (reader.actor.user is not None and not reader.actor.user.is_active):
        return False
    return kind.is_for(reader, notice)
