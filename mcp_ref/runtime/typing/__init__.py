"""Type hints, turned into JSON Schemas and into code that reads and writes values.

values      a type hint -> its JSON Schema, a loader (JSON -> Python), a dumper (Python -> JSON);
            with hints, codec, bounds, formats, parts and alternatives, which it is made of
functions   a user's function -> the schemas of its arguments and of its result; with docstrings
texts       a user's function whose arguments come as text
mismatch    what is wrong with a value, and where
ecma262     regular expressions as JSON Schema has them, in the words of Python's `re`
patterns    searches with regular expressions, which are not begun if they could take long
budget      what one validation may cost
"""
