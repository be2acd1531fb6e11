"""Attacks in what is judged, and how often they turn a verdict."""
