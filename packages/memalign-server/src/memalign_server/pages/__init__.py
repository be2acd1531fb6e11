"""The experts' pages: HTML from the server, htmx for what must not wait, nothing from another host."""
