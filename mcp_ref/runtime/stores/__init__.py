"""Stores: what must outlive a request, or the process that serves it.

    store     what a store is: entries, and what may be done with them
    memory    entries in this process
    sqlite    entries in a file, which several processes of one machine share, and which outlives them
    secrets   tokens of a client, by key, in a file that its owner alone reads

What the first two are made of:

    changes   which threads wait for a change of an entry, and who hears of all
    database  a file that processes share: opened, checked, locked, and its errors in words
    runners   which of these processes are alive
"""
