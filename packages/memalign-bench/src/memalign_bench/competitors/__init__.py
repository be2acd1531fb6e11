"""Workers that run in the competitors' own environment: they import a competitor's packages and the standard library, never memalign.

`serve.py` is the program; it loads one of the workers beside it and answers a JSON line for each JSON line.
"""
