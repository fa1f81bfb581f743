"""Tools for what needs no model, in English and German; see `evaluator`."""

from orchestai.workers.tools.everyday.evaluator import answer, steps

__all__ = ["answer", "steps"]
