"""Bridges to other tools, one module for each; a tool is imported only with its module."""
