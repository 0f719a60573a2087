"""`python -m mcp_ref.examples` lists the examples and runs them."""

import sys

from mcp_ref.examples import main

if __name__ == "__main__":
    sys.exit(main())
