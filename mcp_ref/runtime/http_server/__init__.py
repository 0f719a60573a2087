"""The embedded HTTP server: HTTP/1.1 for a WSGI application, with a thread for each connection.

Not a word of the protocol is in here; a reader of the specification needs none of it.

serving         accepts connections, and ends them
connections     one connection: request after request
intake          bytes as they come, with limits on size and time
requests_in     a request's head and body
responses_out   a response's head and body
places          which host and origin a request names
"""
