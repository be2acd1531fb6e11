"""What the judge learned of people's words: the page, taking back, saying better, and teaching."""
