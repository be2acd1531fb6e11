"""Review: which case comes next, what people said, what the judge learned of it, and what that changed.

Plain services over the store and the registry; pages and the API call the same ones.
"""
