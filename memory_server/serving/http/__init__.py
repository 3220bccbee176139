"""MCP and plain calls over HTTP: the middleware, the tenants and the routes. Only this room knows Starlette, uvicorn
and PyJWT."""
