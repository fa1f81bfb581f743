"""Runs untrusted code against its unit tests, in processes of their own, and reports what passed."""

from orchestai.sandbox.program import Isolation, Limits, Program, Report, TestVerdict
from orchestai.sandbox.sandbox import Sandbox

__all__ = ["Isolation", "Limits", "Program", "Report", "Sandbox", "TestVerdict"]
