"""Stores: data that must outlive a request, or the process that serves it.

    store     the interface of stores: entries, and the operations on them
    memory    entries in this process
    sqlite    entries in a file, which several processes of one machine share, and which outlives them
    secrets   tokens of a client, by key, in a file that its owner alone reads

Parts of `memory` and `sqlite`:

    changes   threads that wait for a change of an entry, and listeners that hear of all changes
    database  a file that processes share: opened, checked, locked, and its errors in words
    runners   which of these processes are alive
"""
