"""URIs.

uris             what is a URI, and whether a part of it could lead out of a directory
templates        URI templates, and the values that a URI gives their variables
"""
