"""Bridges to other tools, one module a tool; each imports its tool only when it is imported itself."""
