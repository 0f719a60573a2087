"""`python -m mcp_ref` is the command `mcp-ref`."""

import sys

from mcp_ref.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
