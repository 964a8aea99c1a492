"""Uses the generated Python client against a running server. Usage: use.py BASE KEY, with the generated package on the path."""

import sys
import time

from holdfast_client import AuthenticatedClient
from holdfast_client.api.audit import list_audit
from holdfast_client.api.deliveries import explain, list_deliveries
from holdfast_client.api.events import list_events, post_events
from holdfast_client.api.subscriptions import create_subscription, list_subscriptions
from holdfast_client.api.urls import freeze_url, list_urls
from holdfast_client.models import CreatedSubscription, NewEvent, NewSubscription, Problem

DELIVERY_S = 30


def until(what: str, check):
    deadline = time.monotonic() + DELIVERY_S
    while not (found := check()):
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {DELIVERY_S} s: {what}")
        time.sleep(0.05)
    return found


def main() -> None:
    base, key = sys.argv[1:]
    with AuthenticatedClient(base_url=base, token=key, raise_on_unexpected_status=True) as client:
        new = NewSubscription(url=f"{base}/dev/receiver/200", event_types=["order.*"])
        subscription = create_subscription.sync(client=client, body=new)
        assert isinstance(subscription, CreatedSubscription) and subscription.secret.startswith("whsec_"), subscription
        twice = create_subscription.sync(client=client, body=new)
        assert isinstance(twice, Problem) and twice.status == 409, twice
        listed = list_subscriptions.sync(client=client)
        assert [one.id for one in listed.items] == [subscription.id], listed

        event = NewEvent(id="order-1", type_="order.created", subject="orders/1", data={"number": 1})
        accepted = post_events.sync(client=client, body=event)
        assert (accepted.id, accepted.deliveries, accepted.duplicate) == ("order-1", 1, False), accepted
        events = list_events.sync(client=client, subject="orders/1")
        assert [(one.id, one.type_, one.deliveries) for one in events.items] == [("order-1", "order.created", 1)], events
        assert events.next_ is None, events

        deliveries = until("it is delivered", lambda: list_deliveries.sync(client=client, event="order-1").items)
        assert deliveries[0].state == "delivered" and deliveries[0].attempts[0].status == 200, deliveries
        why = explain.sync(client=client, event="order-1", subscription=subscription.id)
        assert why.verdict == "delivered" and why.attempts == 1, why

        url = list_urls.sync(client=client).items[0]
        assert freeze_url.sync(id=url.id, client=client).state == "frozen"
        audit = list_audit.sync(client=client)
        actions = [(entry.action, entry.target, entry.role) for entry in audit.items]
        assert actions == [
            ("url.frozen", url.id, "operator"),
            ("subscription.created", subscription.id, "operator"),
        ], actions
    print("the generated Python client creates, posts, lists, explains and audits")


if __name__ == "__main__":
    main()
