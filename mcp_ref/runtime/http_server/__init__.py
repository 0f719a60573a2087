"""The embedded HTTP server: HTTP/1.1 for a WSGI application, one thread for each connection.

It knows nothing of the Model Context Protocol; a reader of the specification can skip it.

server      accepts connections, refuses those above the limit, closes them at the end
connection  serves the requests of one connection, one after another
receiving   reads heads and bodies from the socket, within limits of size and time
request     parses the head of a request
response    writes the response of a WSGI application
reply       a response that any thread may begin, write and end, under any WSGI server
attendant   one thread that looks after silent responses, and notices clients that have left
hosts       lists of allowed hosts and origins
"""
