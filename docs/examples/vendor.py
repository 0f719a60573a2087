"""Methods of your own: requests and notifications that no page of the specification has."""

import threading

from mcp_ref import Context, Server, connect

server = Server("shop")
sold = threading.Event()


@server.on_request("com.example/price")
def price(params, ctx: Context):
    return {"cents": 250 if params["article"] == "milk" else 0}


@server.on_notification("com.example/sold")
def on_sold(params):
    sold.set()


with connect(server) as client:
    print(client.request("com.example/price", {"article": "milk"})["cents"])
    client.notify("com.example/sold", {"article": "milk"})
    print("heard:", sold.wait(10))

# In the legacy era a server may ask as well.
server.on_request("com.example/order")(lambda params, ctx: ctx.request("com.example/address"))

with connect(server, revision="2025-11-25") as client:
    client.on_request("com.example/address")(lambda params: {"street": "1, High Street"})
    print(client.request("com.example/order")["street"])
