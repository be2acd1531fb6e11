"""Loaders: a folder of tasks, and the published data sets."""
