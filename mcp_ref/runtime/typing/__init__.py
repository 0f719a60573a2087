"""Type hints: what they say, as a JSON Schema and as code that reads and writes values.

values      a type hint -> its JSON Schema, a loader (JSON -> Python), a dumper (Python -> JSON);
            with codec, hints, scalars, parts, bounds, marks and mismatch
functions   a user's function -> the schemas of its arguments and of its result
texts       a user's function whose arguments come as text
patterns    regular expressions of strangers, with an end
"""
