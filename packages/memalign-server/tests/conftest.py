"""The fixtures of server_support."""

from server_support.fixtures import *  # noqa: F403
