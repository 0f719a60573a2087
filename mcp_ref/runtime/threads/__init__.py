"""Threads: what waits, wakes, writes and ends.

workers     a pool of threads that grows on demand to a limit
places      how many calls and streams an application has at once
outbox      many threads send, one at a time writes
signals     Ctrl-C waits until a message is out
forks       what a forked child may do, and what is its parent's
pipes       what the system knows of a pipe
deadlines   one time limit handed down through the steps of an operation
timers      something to do later
"""
