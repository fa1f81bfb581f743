"""The program in a reply, callable under the name that the tests use."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence

from orchestai.sandbox.fences import fenced, parses
from orchestai.tasks.source_code import names, parse

_TAGGED = re.compile(r"\[PYTHON\](.*?)(?:\[/PYTHON\]|\Z)", re.DOTALL)
"""How Code Llama marks programs."""
_BEGINS = re.compile(r"^(?:def|class|import|from|@)\b", re.MULTILINE)


def reply_program(reply: str, entry_point: str, arity: int) -> str | None:
    """Source that defines `entry_point`: the reply's own function of that name, or else the likeliest under that name.

    The likeliest takes `arity` arguments and serves no other function, in this order; of equally likely ones it is the
    first. Statements that only call something, such as examples of use, are left out. None where no function is found.
    """
    source = _source(reply.replace("\r\n", "\n"))
    if source is None:
        return None
    body = parse(source)
    defined = [node for node in body if isinstance(node, ast.FunctionDef)]
    if not defined:
        return None
    kept = [node for node in body if not _only_calls(node, {node.name for node in defined})]
    program = "\n".join(ast.unparse(node) for node in kept) + "\n"
    chosen = max(defined, key=lambda node: _likelihood(node, defined, entry_point, arity)).name
    return program if chosen == entry_point else f"{program}\n{entry_point} = {chosen}\n"


def _source(reply: str) -> str | None:
    """The first of: what a fence or Code Llama's tags hold, the reply, the longest part from its first definition."""
    tagged = _TAGGED.search(reply)
    for text in (fenced(reply), tagged and tagged[1], reply):
        if text and parses(text) and "def " in text:
            return text
    for text in (fenced(reply), tagged and tagged[1], reply):
        if text and (found := _BEGINS.search(text)):
            lines = text[found.start() :].split("\n")
            for end in range(len(lines), 0, -1):
                if parses(part := "\n".join(lines[:end])):
                    return part
    return None


def _only_calls(node: ast.stmt, functions: set[str]) -> bool:
    """Whether a statement defines nothing that the functions need: an expression, a check, a result of theirs."""
    if isinstance(node, ast.Import | ast.ImportFrom | ast.FunctionDef | ast.ClassDef):
        return False
    return not isinstance(node, ast.Assign | ast.AnnAssign) or bool(names([node]) & functions)


def _likelihood(
    node: ast.FunctionDef, defined: Sequence[ast.FunctionDef], entry_point: str, arity: int
) -> tuple[bool, bool, bool]:
    arguments = node.args
    most = len(arguments.posonlyargs) + len(arguments.args)
    fits = most - len(arguments.defaults) <= arity and (arity <= most or arguments.vararg is not None)
    serves = any(node.name in names([other]) for other in defined if other is not node)
    return node.name == entry_point, fits, not serves
