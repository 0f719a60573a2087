"""Things built with the package: directories of files as resources, and an authorization server."""
