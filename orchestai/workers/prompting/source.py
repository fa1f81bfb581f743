"""Pure functions on Python source: what makes a usable program of what a model or a tool wrote."""

from __future__ import annotations

import ast
import re

from orchestai.sandbox.fences import parses
from orchestai.sandbox.static.test_discovery import free_names
from orchestai.text.syntax import parse_python

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

_MOST_PARSED = 200_000
"""Characters, over all ends of a program that are tried: about a tenth of a second."""
_DATETIME_MODULE = re.compile(r"\bdatetime\.(datetime|date|timedelta|time)\b")


def longest_prefix(head: str, body: str) -> str:
    """`head` and as many lines of `body` as form a program; `head` alone if none do (and it does)."""
    return longest_program(head, body) or head + body


def longest_program(head: str, body: str) -> str | None:
    """`head` and as many lines of `body` as form a program; None where none do, or too much would have to be read.

    No line at which parsing fails, or at which what is never closed was opened, is in any program that begins so: the
    next end to try is before it.
    """
    lines, above = body.split("\n"), head.count("\n")
    end, left = len(lines), _MOST_PARSED
    while end >= 0:
        code = head + "\n".join(lines[:end])
        try:
            parse_python(code)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            line = error.lineno if isinstance(error, SyntaxError) else None
            left -= len(code)
            if left < 0:
                return None
            end = min(end, max(line - above, 1) if line else end) - 1
        else:
            return code
    return None


def named(code: str, name: str) -> str:
    """`code` with its only function, if called otherwise, also known as `name`."""
    if not parses(code):
        return code
    functions = [node.name for node in parse_python(code).body if isinstance(node, ast.FunctionDef)]
    return f"{code}\n\n{name} = {functions[0]}\n" if len(functions) == 1 and functions[0] != name else code


def with_imports(code: str) -> str:
    """`code` under the imports of the well-known names that it uses but neither imports nor binds."""
    if not parses(code):
        return code
    missing = free_names(code)
    lines = [statement for name, statement in IMPORTS.items() if name in missing]
    if "datetime" in missing:
        lines.append("import datetime" if _DATETIME_MODULE.search(code) else "from datetime import datetime")
    return "\n".join([*lines, code]) if lines else code
