"""What no page of the specification describes: the machinery under every page. It imports nothing but itself.

threads        what waits, wakes, writes and ends
http_server    the embedded HTTP server
http_client    HTTP requests with a time limit
typing         type hints -> JSON Schema, loaders, dumpers
uri            URIs and their templates
stores         what outlives a request, or the process that serves it

json_text      JSON as text: a strict reader, the writer, and what a text weighs
long_strings   long strings of a value, each written once
events         server-sent events, as bytes
checks         what users pass in, named when it is wrong
suggestions    how a text for a server is read; what was meant by one that `connect` does not take
hooks          handlers of users, and what they put around all of them
limits         how many calls a second, and how many at once
audit          a line for each call of a tool
logs           the loggers of the package
untrusted_text a stranger's text on a terminal
jose           JSON web tokens and keys, by a library; what may reach it
seals          notes that travel through a stranger's hands: signed, bound, short-lived
"""
