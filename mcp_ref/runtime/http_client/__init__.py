"""HTTP requests with one time limit for the whole exchange, which any thread can end.

addresses    kinds of IP addresses: public, private, this machine itself
authorizing  what adds credentials to requests, and is told of those that are refused
client       the exchanges of one client with its server, and how many run at once
exchange     one request and its response
fetching     documents from URLs that strangers name
routes       the proxy and the certificates, from a `requests.Session` and the environment
session_rules  which sessions are refused, since not all that they say would count
settings     headers, cookies, proxies and certificates, from a `requests.Session`
sockets      deadlines beneath urllib3, and reads that another thread can end
"""
