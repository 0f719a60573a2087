"""HTTP requests with one time limit for the whole, which any thread can end.

client      the exchanges of one client with its server
exchange    one request and its response
slots       how many exchanges run at once
settings    headers, cookies, proxies and certificates, from a `requests.Session`
sockets     deadlines beneath urllib3, and reads that another thread can end
"""
