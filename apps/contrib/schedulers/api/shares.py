"""Shares in a scheduler's own fairshare: differences from the policy, orders to set them, and adopting them."""

from __future__ import annotations

from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.contrib.schedulers import bounds as of_schedulers
from apps.contrib.schedulers import selectors, share_orders
from apps.contrib.schedulers.following import follow_scheduler, plan_following
from apps.contrib.schedulers.models import ShareOrder
from apps.contrib.schedulers.permissions import require_manage
from apps.contrib.schedulers.services import find_to_change
from apps.contrib.schedulers.share_difference import ShareChange, ShareDifference
from apps.contrib.schedulers.share_listing import Key
from apps.contrib.schedulers.share_orders import MOST_ORDER_LINES
from apps.core import clock
from apps.pages.policies.api.documents import DocumentDifferenceSerializer
from apps.policies.files.import_export import PolicyImport
from apps.web import bounds
from apps.web.rest.authentication import POLICIES_READ, POLICIES_WRITE, Scopes, actor_of
from apps.web.rest.bounded_fields import BoundedListField
from apps.web.rest.inputs import read_body
from apps.web.rest.records import record_serializer
from apps.web.rest.shapes import UtcTimeField, list_response, list_schema, utc_text
from apps.web.rest.views import APIView

READ = frozenset({POLICIES_READ, POLICIES_WRITE})
WRITE = frozenset({POLICIES_WRITE})
MOST_SHOWN_SHARES = 5_000


class AssociationSerializer(serializers.Serializer[Any]):
    group = serializers.CharField(
        max_length=bounds.ENTRY, help_text="Account of Slurm, or path of a node of a share tree"
    )
    user = serializers.CharField(
        max_length=bounds.USER,
        allow_blank=True,
        required=False,
        default="",
        help_text="Empty: the shares of the account or node itself",
    )


AssociationSharesSerializer = record_serializer(
    ShareChange,
    component="AssociationShares",
    only="group user scheduler policy agreed command",
    renamed={"group": "key.group", "user": "key.user", "scheduler": "before", "policy": "after"},
    texts={
        "scheduler": 'Shares in the scheduler: an integer, or "parent"',
        "policy": "Shares in the policy",
        "agreed": "Shares that both had last",
        "command": "Command by which the agent sets the policy's shares; empty: the agent rejects the name",
    },
)


class SharesSerializer(serializers.Serializer[Any]):
    tag = serializers.CharField(allow_null=True, help_text="Identifies this difference in an order")
    cluster = serializers.CharField()
    taken_at = UtcTimeField(allow_null=True, help_text="When the agent listed the shares; null: never")
    to_send = AssociationSharesSerializer(many=True, help_text="Shares that the policy changed")
    by_hand = AssociationSharesSerializer(many=True, help_text="Shares that were changed in the scheduler by hand")
    only_in_policy = AssociationSerializer(many=True)
    only_in_scheduler = AssociationSerializer(many=True)
    notes = serializers.ListField(child=serializers.CharField())


class NewOrderSerializer(serializers.Serializer[Any]):
    tag = serializers.CharField(max_length=of_schedulers.TAG)
    put_back = BoundedListField(
        child=AssociationSerializer(),
        required=False,
        allow_null=True,
        default=None,
        max_length=MOST_ORDER_LINES,
        help_text="Associations changed by hand that are to be reset; null: send the changes of the policy",
    )


class TakeOverSerializer(serializers.Serializer[Any]):
    tag = serializers.CharField(max_length=of_schedulers.TAG)
    lines = BoundedListField(child=AssociationSerializer(), max_length=MOST_ORDER_LINES)


class FollowSerializer(serializers.Serializer[Any]):
    dry_run = serializers.BooleanField(
        required=False, default=False, help_text="true: return the difference and make no draft"
    )


class OrderLineSerializer(serializers.Serializer[Any]):
    group = serializers.CharField()
    user = serializers.CharField()
    before = serializers.CharField()
    after = serializers.CharField()
    outcome = serializers.CharField(help_text="done, already, missing, changed_meanwhile, denied, …; empty: pending")
    detail = serializers.CharField()


class ShareOrderSerializer(serializers.Serializer[Any]):
    id = serializers.IntegerField()
    state = serializers.ChoiceField(ShareOrder.State.choices)
    revision = serializers.IntegerField(source="revision_number", help_text="Revision of the policy")
    created_at = UtcTimeField()
    created_by = serializers.CharField()
    ended_at = UtcTimeField(allow_null=True)
    lines = OrderLineSerializer(many=True)


class DraftedSerializer(serializers.Serializer[Any]):
    change_set = serializers.IntegerField()


class SharesView(APIView):
    reach = "objects"
    scopes: ClassVar[Scopes] = {"GET": READ}

    @extend_schema(operation_id="get_scheduler_shares", responses=SharesSerializer)
    def get(self, request: Request, scheduler: str) -> Response:
        """Differences between the policy's shares and the scheduler's, as its agent last listed them."""
        difference = selectors.get_share_difference(name=scheduler, at=clock.now(), actor=actor_of(request))
        return Response(shares_json(difference))


class _ChangedView(APIView):
    def before_body(self, request: Request, *, scheduler: str) -> None:
        at, actor = clock.now(), actor_of(request)
        require_manage(find_to_change(scheduler, actor, at).policy, actor, at)


class ShareOrderListView(_ChangedView):
    reach = "objects"
    scopes: ClassVar[Scopes] = {"GET": READ, "POST": WRITE}

    @extend_schema(operation_id="list_scheduler_share_orders", responses=list_schema(ShareOrderSerializer))
    def get(self, request: Request, scheduler: str) -> Response:
        """Orders of shares, newest first, with the outcome of each line."""
        orders = selectors.list_share_orders(name=scheduler, at=clock.now(), actor=actor_of(request))
        return list_response(ShareOrderSerializer(orders, many=True).data)

    @extend_schema(
        operation_id="order_scheduler_shares", request=NewOrderSerializer, responses={201: ShareOrderSerializer}
    )
    def post(self, request: Request, scheduler: str) -> Response:
        """Order the agent to set shares: those that the policy changed, or those in `put_back`. At most 5,000."""
        body = read_body(NewOrderSerializer, request)
        put_back = None if body["put_back"] is None else _keys(body["put_back"])
        order = share_orders.order_shares(
            name=scheduler, tag=body["tag"], put_back=put_back, at=clock.now(), actor=actor_of(request)
        )
        return Response(ShareOrderSerializer(order).data, status=201)


class ShareOrderView(APIView):
    reach = "objects"
    scopes: ClassVar[Scopes] = {"DELETE": WRITE}

    @extend_schema(operation_id="cancel_scheduler_share_order", responses=ShareOrderSerializer)
    def delete(self, request: Request, scheduler: str, order: int) -> Response:
        """Cancel the pending lines of an order. Shares that are already set stay."""
        share_order = share_orders.cancel_share_order(
            name=scheduler, order_id=order, at=clock.now(), actor=actor_of(request)
        )
        return Response(ShareOrderSerializer(share_order).data)


class TakeOverView(_ChangedView):
    reach = "objects"
    scopes: ClassVar[Scopes] = {"POST": WRITE}

    @extend_schema(
        operation_id="take_over_scheduler_shares", request=TakeOverSerializer, responses={201: DraftedSerializer}
    )
    def post(self, request: Request, scheduler: str) -> Response:
        """Copy shares of the scheduler into the caller's draft of the policy."""
        body = read_body(TakeOverSerializer, request)
        draft = share_orders.take_over_shares(
            name=scheduler, tag=body["tag"], keys=_keys(body["lines"]), at=clock.now(), actor=actor_of(request)
        )
        return Response({"change_set": draft.pk}, status=201)


class FollowView(_ChangedView):
    reach = "objects"
    scopes: ClassVar[Scopes] = {"POST": WRITE}

    @extend_schema(
        operation_id="follow_scheduler",
        request=FollowSerializer,
        responses={200: DocumentDifferenceSerializer, 201: DocumentDifferenceSerializer},
    )
    def post(self, request: Request, scheduler: str) -> Response:
        """Propose the accounts and users that the agent last listed, without their shares: 201 with the draft.

        200 with `dry_run`, and where nothing differs. An open draft that changes the same is the answer.
        """
        body = read_body(FollowSerializer, request)
        common: dict[str, Any] = {"name": scheduler, "at": clock.now(), "actor": actor_of(request)}
        done = PolicyImport(plan_following(**common)) if body["dry_run"] else follow_scheduler(**common)
        response = Response(done.to_json(), status=200 if done.change_set is None else 201)
        if done.change_set is not None:
            slug = done.plan.policy.slug
            response["Location"] = f"/api/v1/policies/{slug}/changesets/{done.change_set.pk}"
        return response


def shares_json(difference: ShareDifference | None) -> dict[str, Any]:
    none: list[ShareChange] = []
    return {
        "tag": difference and difference.tag,
        "cluster": difference.cluster if difference else "",
        "taken_at": utc_text(difference.listing.taken_at) if difference else None,
        "to_send": AssociationSharesSerializer(
            (difference.to_send if difference else none)[:MOST_SHOWN_SHARES], many=True
        ).data,
        "by_hand": AssociationSharesSerializer(
            (difference.by_hand if difference else none)[:MOST_SHOWN_SHARES], many=True
        ).data,
        "only_in_policy": [key._asdict() for key in (difference.only_here if difference else ())[:MOST_SHOWN_SHARES]],
        "only_in_scheduler": [
            key._asdict() for key in (difference.only_there if difference else ())[:MOST_SHOWN_SHARES]
        ],
        "notes": list(difference.notes) if difference else [],
    }


def _keys(lines: list[dict[str, str]]) -> list[Key]:
    return [Key(each["group"], each["user"]) for each in lines]
