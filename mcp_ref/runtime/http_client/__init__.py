"""HTTP requests with one time limit for the whole, which another thread can end.

exchanges   a request and its response
settings    what the user's `requests.Session` says of proxies, certificates and the like
sockets     deadlines and an end beneath urllib3
"""
