"""Planning many verdicts: what they cost, how long they take, and what a cascade of two judges saves."""
