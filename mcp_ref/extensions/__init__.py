"""Extensions of the protocol (section: extensions), one module for each page.

tasks                              io.modelcontextprotocol/tasks, 2026-07-28

For authorization, with 2025-11-25 and 2026-07-28:

client_credentials                 io.modelcontextprotocol/oauth-client-credentials
enterprise_managed_authorization   io.modelcontextprotocol/enterprise-managed-authorization
workload_identity                  io.modelcontextprotocol/auth/wif
dpop                               io.modelcontextprotocol/auth/dpop
"""
