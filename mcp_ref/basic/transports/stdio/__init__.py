"""stdio (page: basic/transports/stdio; basic/transports until 2025-11-25): a child process and two pipes.

    client                                          server (child)
    start -> server/discover or initialize ------>  read a line, act, write a line
    close: close stdin, wait, SIGTERM, wait, SIGKILL        end of input: finish and exit

The headings of the page, and where they are:

    Sending and Receiving Messages      framing: lines of bytes
    Shutdown, Unexpected Termination    server, client: the process at either end
    Backward Compatibility              backward_compatibility: which era the server speaks
"""
