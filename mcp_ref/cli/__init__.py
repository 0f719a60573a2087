"""The command `mcp-ref`: serve a server, or look at one and call it.

main       the arguments and the exit codes
actions    what each command does
follow     what `call --task` and `tasks --wait` do while a task runs, and on Ctrl-C
servers    which server a command line means
login      `mcp-ref login` and `logout`, and the tokens of `--auth`
shell      `mcp-ref shell`: one command after another, over one connection
show       what it prints, for people or for scripts
terminal   a form at the terminal, one line for each field
"""
