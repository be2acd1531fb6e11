"""`memalign demo`: a support bot's judge learns tone from five pieces of feedback, and forgets one again."""

from memalign.demo.story import run_demo

__all__ = ["run_demo"]
