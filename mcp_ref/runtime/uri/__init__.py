"""URIs.

uris             what is a URI, and whether a part of it could lead out of a directory
templates        URI templates: parsed and filled in
template_match   reads them back
"""
