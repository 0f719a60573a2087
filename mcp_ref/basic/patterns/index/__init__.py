"""Request and response (page: basic/patterns/index): one side asks, the other answers, each at any time.

requester  -> responder   {id, method, params}
responder  -> requester   notifications that belong to it: progress, logs
responder  -> requester   {id, result}     or     {id, error}

requester    the requests that we send: sent, waited for, cancelled
responder    the requests that the peer sends: received, run, answered
    context      one of these, as the pages and handlers see it
connection   one peer as a whole: routes what arrives, and ends everything
"""
