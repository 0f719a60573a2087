"""Request and response (page: basic/patterns/index): one side asks, the other answers, each at any time.

requester  -> responder   {id, method, params}
responder  -> requester   notifications that belong to it: progress, logs
responder  -> requester   {id, result}     or     {id, error}

requester    what we ask: a request is sent, waited for, given up
responder    what we are asked: a request is received, run, answered
    context      one request of those, as the pages see it
connection   one peer as a whole: which message goes where, and the end
"""
