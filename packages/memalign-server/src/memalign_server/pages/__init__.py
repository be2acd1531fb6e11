"""The experts' pages: HTML from the server, one script for what must not wait, nothing from another host."""
