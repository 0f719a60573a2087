"""HTTP requests with one time limit for the whole, which any thread can end.

addresses    whom an IP address reaches
authorizing  what gives a request its right to be answered
client       the exchanges of one client with its server, and how many run at once
exchange     one request and its response
fetching     documents of servers that strangers name
settings     headers, cookies, proxies and certificates, from a `requests.Session`
sockets      deadlines beneath urllib3, and reads that another thread can end
"""
