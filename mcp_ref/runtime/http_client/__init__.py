"""HTTP requests with one time limit for the whole, which any thread can end.

client      the exchanges of one client with its server, and how many run at once
exchange    one request and its response
settings    headers, cookies, proxies and certificates, from a `requests.Session`
sockets     deadlines beneath urllib3, and reads that another thread can end
"""
