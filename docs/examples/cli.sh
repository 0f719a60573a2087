mcp-ref discover -- mcp-ref serve quickstart_server.py
mcp-ref tools -- mcp-ref serve quickstart_server.py
mcp-ref call add a=1 b=2 -- mcp-ref serve quickstart_server.py
mcp-ref call convert --arguments '{"kilos": 2.5}' --json --revision 2025-06-18 -- mcp-ref serve quickstart_server.py
mcp-ref call convert kilos=-1 -- mcp-ref serve quickstart_server.py || echo "exit code $?"
mcp-ref resources -- mcp-ref serve echo.py
mcp-ref read echo://hello --json --revision 2025-06-18 -- mcp-ref serve echo.py
mcp-ref prompt repeat text=hello -- mcp-ref serve echo.py
