"""`/api/v1`: the command line's operations over HTTP."""
