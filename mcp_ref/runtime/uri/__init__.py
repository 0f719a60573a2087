"""URIs.

uris             whether a text is a URI, and whether a part of one could lead out of a directory
templates        URI templates, and the values that a URI gives their variables
"""
