"""What no page of the specification describes: the machinery under every page.

values      a type hint -> its JSON Schema, a loader (JSON -> Python), a dumper (Python -> JSON);
            with codec, hints, scalars, parts, bounds and mismatch
functions   a user's function -> the schemas of its arguments and of its result
validators  a JSON Schema -> a kept checker; dialects, references and cost under control
patterns    regular expressions of strangers, with an end
checks      what users pass in, named when it is wrong
hooks       handlers of users, and what they put around all of them

workers     a pool of threads that grows on demand to a limit
outbox      many threads send, one at a time writes
signals     Ctrl-C waits until a message is out
pipes       what the system knows of a pipe
calls       a request under way
deadlines   one time limit handed down through the steps of an operation
timers      something to do later
limits      how many calls a second, and how many at once
"""
