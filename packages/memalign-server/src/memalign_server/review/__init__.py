"""Review: which case comes next, what people say of it, and what happens where they differ."""
