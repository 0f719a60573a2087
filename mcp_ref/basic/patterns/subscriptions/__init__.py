"""Subscriptions (page: basic/patterns/subscriptions): which client hears of which changes, in either era.

In 2026-07-28, as follows; before, changes of lists are reported to every client, and changes of resources to
the clients that sent resources/subscribe:

    client -> server   subscriptions/listen {notifications: {toolsListChanged?, resourceSubscriptions?, ...}}
    server -> client   notifications/subscriptions/acknowledged {notifications: what it agreed to}
    server -> client   notifications/tools/list_changed, notifications/resources/updated {uri}, ...
    server -> client   {resultType, _meta: {subscriptionId}}    when the server ends it; on stdio after
                                                                notifications/cancelled
    client -> server   notifications/cancelled                  when the client ends it; over HTTP it closes
                                                                the stream

The headings of the page are the steps of this one exchange. Each step has a half on either side:

    server   the shapes; acknowledges, reports changes, ends the stream
    client   opens the stream, hears of changes, opens it again after a loss
"""
