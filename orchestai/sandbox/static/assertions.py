"""What the assertions of tests rest on, as their source says."""

from __future__ import annotations

import ast
from typing import Any

_VERDICTS = frozenset(("assertTrue", "assertFalse"))
_ORDERS = frozenset(("assertLess", "assertLessEqual", "assertGreater", "assertGreaterEqual"))
_EQUALITIES = frozenset(
    (
        *("assertEqual", "assertNotEqual", "assertAlmostEqual", "assertNotAlmostEqual", "assertIs", "assertIsNot"),
        *("assertListEqual", "assertDictEqual", "assertTupleEqual", "assertSetEqual", "assertCountEqual"),
    )
)
_VERDICT_WORDS = frozenset(
    ("", "ok", "okay", "yes", "true", "pass", "passed", "valid", "correct", "right", "same", "equal", "match", "none")
)
_OTHER_ASSERTIONS = ("Raises", "RaisesRegex", "Warns", "WarnsRegex", "Logs", "IsInstance")
"""Ends of the names of assertions that judge no value, or its type alone."""
_CHOICES = (ast.For, ast.AsyncFor, ast.IfExp, ast.BoolOp, ast.Match, ast.ListComp, ast.SetComp, ast.GeneratorExp)


def may_fail(node: ast.AST) -> bool:
    """Whether it is an assertion, or fails the test."""
    named = node.func.attr if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else ""
    return isinstance(node, (ast.Assert, ast.Raise)) or named.startswith(("assert", "fail"))


def expects_failure(node: ast.AST) -> bool:
    """Whether it is a block that has to fail (`with self.assertRaises(...)`)."""
    return isinstance(node, (ast.With, ast.AsyncWith)) and any(may_fail(item.context_expr) for item in node.items)


def deciding(node: ast.AST) -> list[ast.expr]:
    """The expressions that an assertion rests on, but for comparisons with a value that only right programs know."""
    if isinstance(node, ast.Assert):
        return _parts(node.test)
    if isinstance(node, (ast.If, ast.While)) and any(map(may_fail, ast.walk(node))):
        return _parts(node.test)
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return []
    if node.func.attr in _VERDICTS:
        return [part for arg in node.args[:1] for part in _parts(arg)]
    equality = node.func.attr in _EQUALITIES or node.func.attr.startswith("assert_")  # of NumPy and pandas
    if node.func.attr in _ORDERS or (equality and not any(map(_is_telling, node.args[:2]))):
        return node.args[:2]
    return []


def letting_pass(node: ast.AST) -> list[ast.AST]:
    """What decides, beside that, whether a test fails: it may have to be none, or nothing, or anything but a value."""
    if isinstance(node, ast.Call):
        name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        if not name.startswith("assert") or name.endswith(_OTHER_ASSERTIONS):
            return []
        return [] if "Not" not in name and any(map(_is_telling, node.args[:2])) else list(node.args[:2])
    if isinstance(node, ast.Compare):
        return [node] if any(isinstance(op, (ast.NotEq, ast.NotIn, ast.IsNot)) for op in node.ops) else []
    if not isinstance(node, _CHOICES) or not any(map(may_fail, ast.walk(node))):
        return []
    if isinstance(node, ast.BoolOp):
        return list(node.values)
    return [part for name in ("test", "iter", "subject", "generators") for part in _listed(getattr(node, name, None))]


def _listed(value: Any) -> list[ast.AST]:
    return value if isinstance(value, list) else [] if value is None else [value]


def _parts(claim: ast.expr) -> list[ast.expr]:
    if isinstance(claim, ast.BoolOp):
        return [part for value in claim.values for part in _parts(value)]
    if isinstance(claim, ast.UnaryOp):
        return _parts(claim.operand)
    if isinstance(claim, ast.Compare):
        sides = [claim.left, *claim.comparators]
        ordered = any(isinstance(op, (ast.Lt, ast.LtE, ast.Gt, ast.GtE)) for op in claim.ops)
        return sides if ordered or not any(map(_is_telling, sides)) else []
    return [claim]


def _is_telling(node: ast.expr) -> bool:
    """Whether it is a literal that a helper which always says the same is not likely to say."""
    try:
        value = ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return False
    return _tells(value)


def _tells(value: Any) -> bool:
    if isinstance(value, (list, tuple, set)):
        return any(map(_tells, value))
    if isinstance(value, str):
        return value.strip(" .!").lower() not in _VERDICT_WORDS
    return bool(value) and value not in (1, 100)
