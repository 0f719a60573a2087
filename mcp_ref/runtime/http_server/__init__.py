"""The embedded HTTP server: HTTP/1.1 for a WSGI application, one thread for each connection.

It knows nothing of the Model Context Protocol; a reader of the specification can skip it.

server      accepts connections, refuses those above the limit, closes them at the end
connection  serves the requests of one connection, one after another
receiving   reads from the socket, within limits of size and time; the body as the application reads it
request     parses the head of a request
response    writes the response of a WSGI application
reply       a response that an application begins late, under any WSGI server
attendant   looks after responses that are silent: has the client left?
hosts       lists of allowed hosts and origins
"""
