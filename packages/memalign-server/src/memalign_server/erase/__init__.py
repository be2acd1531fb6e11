"""Erase a person or a text: what holds it, what goes, and the receipt."""
