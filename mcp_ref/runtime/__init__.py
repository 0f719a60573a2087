"""The machinery under the pages of the specification, which none of them describes.

It imports nothing from the rest of the package.

threads        workers, timers, outboxes, deadlines: what waits, wakes, writes and ends
http_server    the embedded HTTP server
http_client    HTTP requests with a time limit
typing         type hints -> JSON Schema, loaders, dumpers
uri            URIs and their templates
stores         data that outlives a request, or the process that serves it

errors         the base of all exceptions, and those that begin on this side
json_text      JSON as text: a strict reader, the writer, and an estimate of the memory that a text takes
long_strings   the long strings of a value, each encoded once
events         server-sent events, as bytes
brief          a short repr of what a peer sent
checks         checks of arguments; the error names the wrong one
suggestions    how a text that names a server is read, and what one that `connect` refuses probably meant
hooks          the handlers that users write, and the functions that they put around all of them
limits         how many calls a second, and how many at once
audit          a log line for each call of a tool
logs           the loggers of the package
untrusted_text text from a peer, made safe for a terminal and a log
jose           JSON web tokens and keys: what may reach the library that reads them
seals          values that a client keeps for the server: signed, bound to one purpose, short-lived
digests        SHA-256 and HMAC, loaded late
chance         random numbers for pauses
"""
