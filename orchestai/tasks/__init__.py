"""Tasks: what they are, where they come from, and how they are judged."""

from orchestai.tasks.suite import Suite, data_fingerprint
from orchestai.tasks.suites import load_suite
from orchestai.tasks.task import Task

__all__ = ["Suite", "Task", "data_fingerprint", "load_suite"]
