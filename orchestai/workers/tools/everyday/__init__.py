"""Tools for what needs no model, in English and German; see `evaluator`."""

from orchestai.workers.tools.everyday.evaluator import answer

__all__ = ["answer"]
