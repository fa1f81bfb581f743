"""Tools for what needs no model, in English and German; see `requests`."""

from orchestai.workers.tools.everyday.requests import answer

__all__ = ["answer"]
