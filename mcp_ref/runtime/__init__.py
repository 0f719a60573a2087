"""What no page of the specification describes: the machinery under every page.

values      a type hint -> its JSON Schema, a loader (JSON -> Python), a dumper (Python -> JSON)
functions   a user's function -> the schemas of its arguments and of its result
validators  a JSON Schema -> a kept checker; dialects, references and cost under control
deadlines   one time limit handed down through the steps of an operation
outbox      many threads send, one at a time writes
workers     a pool of threads that grows on demand to a limit
limits      how many calls a second, and how many at once
"""
