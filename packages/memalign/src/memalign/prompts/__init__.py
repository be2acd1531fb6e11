"""Prompts: .jinja files that a person can read and improve.

`rendering` fills the files in, `fitting` decides what of each part a prompt has room for, and
`trace_text` shows a trace.
"""
