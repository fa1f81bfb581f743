"""The program in a reply, callable under the name that the tests use."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence

from orchestai.sandbox.fences import fenced, parses
from orchestai.tasks.source_code import names, parse
from orchestai.text.delimited import enclosed
from orchestai.workers.prompting.source import longest_program

_TAGS = re.compile(r"\[PYTHON\]"), re.compile(r"\[/PYTHON\]")
"""How Code Llama marks programs."""
_DEFINITIONS = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
_IMPORTS = ast.Import | ast.ImportFrom
_BEGINS = re.compile(r"^(?:def|class|import|from|@)\b", re.MULTILINE)


def reply_program(reply: str, entry_point: str, arity: int) -> str | None:
    """Source that defines `entry_point`: the reply's own function of that name, or else the likeliest under that name.

    The likeliest takes `arity` arguments and serves no other function, in this order; of equally likely ones it is the
    first. Statements that change nothing which its definitions read, such as examples of use, are left out. None where
    no function is found.
    """
    source = _source(reply.replace("\r\n", "\n"))
    if source is None:
        return None
    body = parse(source)
    defined = [node for node in body if isinstance(node, ast.FunctionDef)]
    if not defined:
        return None
    program = "\n".join(ast.unparse(node) for node in _without_examples(body)) + "\n"
    chosen = max(defined, key=lambda node: _likelihood(node, defined, entry_point, arity)).name
    return program if chosen == entry_point else f"{program}\n{entry_point} = {chosen}\n"


def _source(reply: str) -> str | None:
    """The first of: what a fence or Code Llama's tags hold, the reply, the longest part from its first definition."""
    texts = [fenced(reply), next(enclosed(reply, *_TAGS, to_end=True), None), reply]
    for text in texts:
        if text and parses(text) and "def " in text:
            return text
    for text in texts:
        begins = _BEGINS.search(text) if text else None
        if text and begins and (program := longest_program("", text[begins.start() :])):
            return program
    return None


def _without_examples(body: Sequence[ast.stmt]) -> list[ast.stmt]:
    """Imports and definitions, and the other statements that change a name which those that are kept read."""
    needed = {name for node in body if isinstance(node, _DEFINITIONS) for name in names([node]) - _bound(node)}
    needed -= {alias.asname or alias.name for node in body if isinstance(node, _IMPORTS) for alias in node.names}
    kept = []
    for node in reversed(body):
        if not isinstance(node, _DEFINITIONS | _IMPORTS):
            if isinstance(node, ast.Assert) or "__name__" in names([node]) or not _changed(node) & needed:
                continue
            needed |= names([node])
        kept.append(node)
    return kept[::-1]


def _bound(node: ast.stmt) -> set[str]:
    """Parameters and variables of a definition's own."""
    below = list(ast.walk(node))
    shared = {name for one in below if isinstance(one, ast.Global) for name in one.names}
    stored = {one.id for one in below if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)}
    return (stored | {one.arg for one in below if isinstance(one, ast.arg)}) - shared


def _changed(node: ast.stmt) -> set[str]:
    """Names that a statement sets, or whose items, attributes or methods it sets or calls."""
    changed = set()
    for one in ast.walk(node):
        target = one.func if isinstance(one, ast.Call) and isinstance(one.func, ast.Attribute) else one
        if target is one and not isinstance(getattr(one, "ctx", None), ast.Store):
            continue
        while isinstance(target, ast.Attribute | ast.Subscript):
            target = target.value
        if isinstance(target, ast.Name):
            changed.add(target.id)
    return changed


def _likelihood(
    node: ast.FunctionDef, defined: Sequence[ast.FunctionDef], entry_point: str, arity: int
) -> tuple[bool, bool, bool]:
    arguments = node.args
    most = len(arguments.posonlyargs) + len(arguments.args)
    fits = most - len(arguments.defaults) <= arity and (arity <= most or arguments.vararg is not None)
    serves = any(node.name in names([other]) for other in defined if other is not node)
    return node.name == entry_point, fits, not serves
