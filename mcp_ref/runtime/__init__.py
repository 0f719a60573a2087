"""What no page of the specification describes: the machinery under every page.

values      a type hint -> its JSON Schema, a loader (JSON -> Python), a dumper (Python -> JSON);
            with codec, hints, scalars, parts, bounds, marks and mismatch
functions   a user's function -> the schemas of its arguments and of its result
texts       a user's function whose arguments come as text
validators  a JSON Schema -> a kept checker; dialects, references and cost under control
patterns    regular expressions of strangers, with an end
checks      what users pass in, named when it is wrong
targets     what was meant by a target that `connect` does not take
hooks       handlers of users, and what they put around all of them
audit       a line for each call of a tool

uris        what is a URI, and whether a part of it could lead out of a directory
templates   URI templates: parsed and filled in; template_match reads them back
files       the files below one directory, and no other
plain       a stranger's text on a terminal
seals       notes that travel through a stranger's hands: signed, bound, short-lived

workers     a pool of threads that grows on demand to a limit
outbox      many threads send, one at a time writes
signals     Ctrl-C waits until a message is out
forks       what a forked child may do, and what is its parent's
pipes       what the system knows of a pipe
calls       a request under way
deadlines   one time limit handed down through the steps of an operation
timers      something to do later
limits      how many calls a second, and how many at once
"""
