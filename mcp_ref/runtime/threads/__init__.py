"""Threads: pools, queues, time limits, signals and forks.

workers     a pool of threads that grows on demand to a limit
places      limits on the calls and streams that an application has at once
outbox      many threads send, one at a time writes
signals     Ctrl-C and SIGTERM wait until a message is out
forks       what a forked child may do, and what belongs to its parent
pipes       sizes and readiness of pipes and terminals
flags       events that the handler of a signal may set
deadlines   one time limit handed down through the steps of an operation
timers      functions that run later, on one thread
refreshed   a value that is fetched, used for a while, and fetched again
shared      a context that several users share
"""
