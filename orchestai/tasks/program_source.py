"""Pure functions on Python source: what makes a usable program of what a model or a tool wrote."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence

from orchestai.tasks.programs import binds, fenced, find_method, is_test, longest_program, parses, put_above, takes
from orchestai.text.syntax import free_names, names, parse, parse_python

IMPORTS: dict[str, str] = {
    "math": "import math",
    "re": "import re",
    "string": "import string",
    "random": "import random",
    "itertools": "import itertools",
    "functools": "import functools",
    "operator": "import operator",
    "collections": "import collections",
    "statistics": "import statistics",
    "calendar": "import calendar",
    "json": "import json",
    "Counter": "from collections import Counter",
    "defaultdict": "from collections import defaultdict",
    "OrderedDict": "from collections import OrderedDict",
    "deque": "from collections import deque",
    "reduce": "from functools import reduce",
    "accumulate": "from itertools import accumulate",
    "groupby": "from itertools import groupby",
    "date": "from datetime import date",
    "timedelta": "from datetime import timedelta",
    "List": "from typing import List",
    "Dict": "from typing import Dict",
    "Tuple": "from typing import Tuple",
    "Optional": "from typing import Optional",
    "Any": "from typing import Any",
}
"""Names that programs use without importing them, and the import that they mean."""

_DATETIME_MODULE = re.compile(r"\bdatetime\.(datetime|date|timedelta|time)\b")


def longest_prefix(head: str, body: str) -> str:
    """`head` and as many lines of `body` as form a program; `head` alone if none do (and it does)."""
    return longest_program(head, body) or head + body


def named(code: str, name: str) -> str:
    """`code` with what it defines, if called otherwise, also known as `name`: a method of that name, or the only
    function that is no test, or the only method of an only class."""
    if not parses(code):
        return code
    body = parse_python(code).body
    functions = [node.name for node in body if isinstance(node, ast.FunctionDef) and not is_test(node, name)]
    classes = [node for node in body if isinstance(node, ast.ClassDef) and not is_test(node)]
    if binds(body, name):
        return code
    public = [one.name for node in classes for one in node.body if isinstance(one, ast.FunctionDef)]
    public = [method for method in public if not method.startswith("_")]
    wanted = name if name in public else public[0] if len(public) == len(classes) == 1 else ""
    if not functions and find_method(body, wanted) is not None:
        owner = next(node.name for node in classes if wanted in [getattr(one, "name", "") for one in node.body])
        return f"{code}\n\n{name} = {owner}().{wanted}\n"
    return f"{code}\n\n{name} = {functions[0]}\n" if len(functions) == 1 else code


def with_imports(code: str) -> str:
    """`code` under the imports of the well-known names that it uses but neither imports nor binds."""
    if not parses(code):
        return code
    missing = free_names(code)
    lines = [statement for name, statement in IMPORTS.items() if name in missing]
    if "datetime" in missing:
        lines.append("import datetime" if _DATETIME_MODULE.search(code) else "from datetime import datetime")
    return put_above("\n".join(lines), code) if lines else code


_DEFINITIONS = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
_IMPORTS = ast.Import | ast.ImportFrom


def reply_program(reply: str, entry_point: str, arity: int) -> str | None:
    """Source that defines `entry_point`: the reply's own function of that name, or else the likeliest under that name.

    The likeliest takes `arity` arguments and serves no other function, in this order; of equally likely ones it is the
    first. Statements that change nothing which its definitions read, such as examples of use, are left out. None where
    no function is found.
    """
    source = fenced(reply, entry_point, arity)
    if source is None or not parses(source := longest_prefix("", source)):
        return None
    body = parse(named(source, entry_point))
    defined = [node for node in body if isinstance(node, ast.FunctionDef)]
    if not defined and not binds(body, entry_point):
        return None
    program = "\n".join(ast.unparse(node) for node in _without_examples(body, entry_point)) + "\n"
    if binds(body, entry_point):
        return program

    def likelihood(node: ast.FunctionDef) -> tuple[bool, bool, bool]:
        serves = any(node.name in names([other]) for other in defined if other is not node)
        return not is_test(node, entry_point), takes(node, arity), not serves

    return f"{program}\n{entry_point} = {max(defined, key=likelihood).name}\n"


def _without_examples(body: Sequence[ast.stmt], entry_point: str) -> list[ast.stmt]:
    """Imports and definitions, and the other statements that change a name which those that are kept read."""
    needed = {name for node in body if isinstance(node, _DEFINITIONS) for name in names([node]) - _bound(node)}
    needed.add(entry_point)
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
