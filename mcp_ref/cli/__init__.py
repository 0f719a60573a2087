"""The command `mcp-ref`: serve a server, or look at one and call it.

main       the arguments and the exit codes
actions    what each command does
show       what it prints, for people or for scripts
terminal   a form at the terminal, one line a field
"""
