"""Set up: the judge's question, its cases, and the way to the other screens of an owner."""
