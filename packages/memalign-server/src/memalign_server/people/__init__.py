"""People: who makes a request, what they may do, and what keeps others from doing it for them."""
