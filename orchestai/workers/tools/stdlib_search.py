"""Programming by example: the first standard-library expression that reproduces every visible example.

It reads the examples and never the words, so it is quick, nearly free, and wrong where one example fits many functions.
"""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from types import CodeType
from typing import Any

from orchestai.tasks.visible_examples import Example
from orchestai.text.syntax import parse_literal, parse_python
from orchestai.workers.base import Request, Signature, WorkerError

_UNARY: tuple[str, ...] = (
    # Builtins
    "x",
    "len(x)",
    "sum(x)",
    "max(x)",
    "min(x)",
    "sorted(x)",
    "sorted(x, reverse=True)",
    "abs(x)",
    "-x",
    "str(x)",
    "int(x)",
    "float(x)",
    "bool(x)",
    "not x",
    "list(x)",
    "set(x)",
    "tuple(x)",
    "any(x)",
    "all(x)",
    "bin(x)",
    "hex(x)",
    "oct(x)",
    "chr(x)",
    "ord(x)",
    "round(x)",
    "list(range(x))",
    "list(enumerate(x))",
    # Indexing
    "x[0]",
    "x[-1]",
    "x[::-1]",
    "x[1:]",
    "x[:-1]",
    "x[::2]",
    "x[1::2]",
    "x[1:-1]",
    "x[:len(x) // 2]",
    "x[len(x) // 2:]",
    # Strings
    "x.upper()",
    "x.lower()",
    "x.title()",
    "x.capitalize()",
    "x.swapcase()",
    "x.strip()",
    "x.split()",
    "x.splitlines()",
    "x.isalpha()",
    "x.isdigit()",
    "x.isupper()",
    "x.islower()",
    "x == x[::-1]",
    "len(x.split())",
    "len(set(x))",
    "''.join(x)",
    "' '.join(x)",
    "''.join(sorted(x))",
    "''.join(sorted(set(x)))",
    "''.join(reversed(x))",
    "x.split()[0]",
    "x.split()[-1]",
    "' '.join(x.split())",
    "' '.join(reversed(x.split()))",
    "' '.join(sorted(x.split()))",
    "sorted(x.split())",
    "string.capwords(x)",
    "max(x.split(), key=len)",
    "min(x.split(), key=len)",
    "re.findall(r'\\d+', x)",
    "re.findall(r'\\w+', x)",
    "re.sub(r'\\W+', '', x)",
    "re.sub(r'\\d+', '', x)",
    "re.sub(r'\\s+', '', x)",
    "textwrap.dedent(x)",
    # Lists
    "sorted(set(x))",
    "list(dict.fromkeys(x))",
    "sorted(x, key=len)",
    "sorted(x, key=str.lower)",
    "sorted(x, key=abs)",
    "max(x, key=len)",
    "min(x, key=len)",
    "max(x) - min(x)",
    "math.prod(x)",
    "statistics.mean(x)",
    "statistics.median(x)",
    "statistics.mode(x)",
    "sum(x) / len(x)",
    "sum(x) // len(x)",
    "list(itertools.accumulate(x))",
    "list(itertools.chain.from_iterable(x))",
    "[b - a for a, b in zip(x, x[1:])]",
    "list(map(str, x))",
    "list(map(int, x))",
    "list(map(len, x))",
    "list(map(abs, x))",
    "list(map(ord, x))",
    "list(map(str.upper, x))",
    "list(map(str.lower, x))",
    "list(map(str.title, x))",
    "list(map(str.strip, x))",
    "list(filter(None, x))",
    "[-n for n in x]",
    "[n * n for n in x]",
    "[n for n in x if n > 0]",
    "[n for n in x if n < 0]",
    "sum(map(len, x))",
    "list(zip(x, x[1:]))",
    "list(zip(*x))",
    "dict(x)",
    # Counting
    "dict(collections.Counter(x))",
    "dict(collections.Counter(x.split()))",
    "collections.Counter(x).most_common(1)[0][0]",
    "collections.Counter(x).most_common(1)[0][1]",
    # Dictionaries
    "list(x.keys())",
    "list(x.values())",
    "list(x.items())",
    "sorted(x.values())",
    "sorted(x.items())",
    "sum(x.values())",
    "max(x.values())",
    "min(x.values())",
    "dict(sorted(x.items()))",
    "max(x, key=x.get)",
    "min(x, key=x.get)",
    "sorted(x, key=x.get)",
    "sorted(x, key=x.get, reverse=True)",
    "{value: key for key, value in x.items()}",
    # Integers
    "math.factorial(x)",
    "math.isqrt(x)",
    "x * x",
    "x % 2 == 0",
    "x.bit_length()",
    "x.bit_count()",
    "bin(x)[2:]",
    "hex(x)[2:]",
    "sum(map(int, str(abs(x))))",
    "int(str(x)[::-1])",
    # Dates
    "datetime.date.fromisoformat(x).year",
    "datetime.date.fromisoformat(x).month",
    "datetime.date.fromisoformat(x).day",
    "datetime.date.fromisoformat(x).weekday()",
    "datetime.date.fromisoformat(x).isoweekday()",
    "datetime.date.fromisoformat(x).isocalendar()[1]",
    "datetime.date.fromisoformat(x).toordinal()",
    "datetime.date.fromisoformat(x).timetuple().tm_yday",
    "datetime.date.fromisoformat(x).strftime('%A')",
    "datetime.date.fromisoformat(x).strftime('%a')",
    "datetime.date.fromisoformat(x).strftime('%B')",
    "datetime.date.fromisoformat(x).strftime('%b')",
    "datetime.date.fromisoformat(x).strftime('%d.%m.%Y')",
    "datetime.date.fromisoformat(x).strftime('%d/%m/%Y')",
    "datetime.date.fromisoformat(x).strftime('%Y%m%d')",
    "calendar.isleap(int(x[:4]))",
)

_BINARY: tuple[str, ...] = (
    "a",
    "b",
    "a + b",
    "a - b",
    "a * b",
    "a // b",
    "a / b",
    "a % b",
    "a ** b",
    "b - a",
    "b // a",
    "max(a, b)",
    "min(a, b)",
    "abs(a - b)",
    "divmod(a, b)",
    "math.gcd(a, b)",
    "math.lcm(a, b)",
    "a == b",
    "a < b",
    "a > b",
    "a in b",
    "b in a",
    "b + a",
    "a & b",
    "a | b",
    "[a, b]",
    "(a, b)",
    "a[b]",
    "b[a]",
    "a[:b]",
    "a[b:]",
    "a[-b:]",
    "a.get(b)",
    "a.count(b)",
    "a.index(b)",
    "a.find(b)",
    "a.split(b)",
    "a.startswith(b)",
    "a.endswith(b)",
    "a.removeprefix(b)",
    "a.removesuffix(b)",
    "a.strip(b)",
    "a.replace(b, '')",
    "a.join(b)",
    "b.join(a)",
    "b.join(map(str, a))",
    "a.zfill(b)",
    "a.ljust(b)",
    "a.rjust(b)",
    "a.center(b)",
    "a + ' ' + b",
    "a + str(b)",
    "list(zip(a, b))",
    "dict(zip(a, b))",
    "{**a, **b}",
    "sorted(set(a) & set(b))",
    "sorted(set(a) | set(b))",
    "sorted(set(a) - set(b))",
    "sorted(a + b)",
    "list(dict.fromkeys(a + b))",
    "list(map(operator.add, a, b))",
    "list(map(operator.sub, a, b))",
    "list(map(operator.mul, a, b))",
    "sum(map(operator.mul, a, b))",
    "list(range(a, b))",
    "list(range(a, b + 1))",
    "list(map(a.get, b))",
    "(datetime.date.fromisoformat(a) + datetime.timedelta(days=b)).isoformat()",
    "(datetime.date.fromisoformat(b) - datetime.date.fromisoformat(a)).days",
    "(datetime.date.fromisoformat(a) - datetime.date.fromisoformat(b)).days",
)

_WITH_CONSTANT: tuple[str, ...] = (
    "x[c]",
    "x[:c]",
    "x[c:]",
    "x[-c:]",
    "x.split(c)",
    "x.split(c)[0]",
    "x.split(c)[-1]",
    "x.count(c)",
    "x.strip(c)",
    "x.replace(c, '')",
    "c.join(x)",
    "c.join(map(str, x))",
    "x + c",
    "x * c",
    "x // c",
    "x % c",
    "c - x",
    "x ** c",
    "c + x",
    "[n + c for n in x]",
    "[n * c for n in x]",
    "[n // c for n in x]",
    "[n for n in x if n > c]",
    "[n for n in x if n < c]",
    "{key: value + c for key, value in x.items()}",
    "(datetime.date.fromisoformat(x) + datetime.timedelta(days=c)).isoformat()",
    "a + c + b",
    "a + c + str(b)",
)

_WITH_TWO_CONSTANTS: tuple[str, ...] = ("x.replace(c, d)",)

_MODULES: tuple[str, ...] = (
    "calendar",
    "collections",
    "datetime",
    "itertools",
    "math",
    "operator",
    "re",
    "statistics",
    "string",
    "textwrap",
)
"""Modules that the expressions use."""

_LARGEST = 10_000
"""Larger numbers and longer values are not searched: powers and repetitions of them would take too long."""
_MOST_CONSTANTS = 12

Case = tuple[tuple[Any, ...], Any]


def answer(request: Request) -> str:
    """Source of the function; raises `WorkerError` where there are no examples or nothing fits them."""
    if request.signature is None or not request.examples:
        raise WorkerError("the search needs a function to write and a visible example")
    arity = len(request.signature.parameters)
    cases = [_case(example) for example in request.examples]
    if any(len(args) != arity for args, _ in cases):
        raise WorkerError(f"the examples do not have the function's {arity} arguments")
    if any(not _small(value) for args, result in cases for value in (*args, result)):
        raise WorkerError("the examples are too large to search")
    if (expression := _search(arity, request.examples)) is None:
        raise WorkerError("no expression of the library reproduces the examples")
    return function(request.signature, [expression])


@lru_cache(maxsize=4096)
def _search(arity: int, examples: tuple[Example, ...]) -> str | None:
    """The first expression that reproduces all examples."""
    cases = [_case(example) for example in examples]
    return next((e for e in _candidates(arity, cases) if all(_reproduces(e, *case) for case in cases)), None)


def _case(example: Example) -> Case:
    return tuple(parse_literal(arg) for arg in example.args), parse_literal(example.result)


def _candidates(arity: int, cases: Sequence[Case]) -> Iterator[str]:
    if arity == 1:
        yield from _UNARY
    if arity == 2:
        yield from _BINARY
    names = {"x"} if arity == 1 else {"a", "b"}
    constants = _constants(cases)
    for template in _WITH_CONSTANT:
        if _names(template) & {"x", "a", "b"} == names:
            yield from (_substitute(template, c=constant) for constant in constants)
    if arity == 1:
        texts = [constant for constant in constants if isinstance(constant, str) and len(constant) == 1]
        for template in _WITH_TWO_CONSTANTS:
            yield from (_substitute(template, c=c, d=d) for c in texts for d in texts if c != d)


def _constants(cases: Sequence[Case]) -> list[Any]:
    """Numbers and strings that the first example suggests, the likeliest first."""
    args, result = cases[0]
    found: list[Any] = []
    if isinstance(result, int) and all(isinstance(arg, int) for arg in args):
        found += [result - args[0], result + args[0], *([result // args[0]] if args[0] else [])]
    for value in (*args, result):
        if isinstance(value, str):
            found += re.findall(r"[^\w\s]|[ _]", value)
    if isinstance(result, str) and isinstance(args[0], str) and args[0] and args[0] in result:
        found += [part for part in result.split(args[0], 1) if part]
    if isinstance(result, (list, dict)) and isinstance(args[0], (list, dict)) and result and args[0]:
        first, last = (next(iter(v.values() if isinstance(v, dict) else v)) for v in (args[0], result))
        if isinstance(first, int) and isinstance(last, int):
            found += [last - first, *([last // first] if first else [])]
    distinct = list(dict.fromkeys((type(value), value) for value in found if value != ""))
    numbers = [(int, n) for n in range(2, 11)]
    return [value for _, value in dict.fromkeys([*distinct[:_MOST_CONSTANTS], *numbers])]


def _reproduces(expression: str, args: tuple[Any, ...], result: Any) -> bool:
    names = ("x",) if len(args) == 1 else ("a", "b")
    try:
        value = eval(_compiled(expression), {**_modules(), **dict(zip(names, map(_copy, args), strict=True))})
    except Exception:  # an expression for other types
        return False
    return _same(value, result)


@lru_cache(maxsize=20_000)
def _compiled(expression: str) -> CodeType:
    return compile(expression, "<search>", "eval")


@lru_cache(maxsize=1)
def _modules() -> dict[str, Any]:
    return {name: importlib.import_module(name) for name in _MODULES}


def function(signature: Signature, bodies: Sequence[str]) -> str:
    """Source of a function whose bodies, expressions or statements of ours, are carried out one after the other.

    Raises:
        WorkerError: it cannot be written with these parameters.
    """
    first = signature.parameters[0]
    lines: list[str] = []
    for body in bodies:
        names = (
            dict(zip(("a", "b"), signature.parameters, strict=True)) if len(signature.parameters) == 2 else {"x": first}
        )
        tree = _renamed(body, names if not lines else {"x": first})
        last = tree.body[-1]
        if isinstance(last, ast.Expr) and body is not bodies[-1]:
            tree.body[-1] = ast.Assign([ast.Name(first)], last.value, lineno=0)
        elif isinstance(last, ast.Expr):
            tree.body[-1] = ast.Return(last.value)
        elif body is not bodies[-1]:
            raise WorkerError("what comes after a loop is not written here")
        lines += ast.unparse(tree).splitlines()
    imports = [f"import {module}" for module in _MODULES if module in _names("\n".join(lines))]
    return "\n".join([*imports, f"def {signature}:", *(f"    {line}" for line in lines), ""])


def reproduces(source: str, signature: Signature, examples: Sequence[Example]) -> bool:
    """Whether a function of ours gives the results of examples that are not too large to try."""
    found: dict[str, Any] = {}
    exec(source, found)
    try:
        return all(
            _small(args) and _same(found[signature.name](*map(_copy, args)), result)
            for args, result in map(_case, examples)
        )
    except Exception:  # a function of other types
        return False


@lru_cache(maxsize=20_000, typed=True)
def _substitute(template: str, **constants: Any) -> str:
    """The template with its constants filled in."""
    tree = parse_python(template, "eval")

    class Fill(ast.NodeTransformer):
        def visit_Name(self, node: ast.Name) -> ast.AST:
            return ast.Constant(constants[node.id]) if node.id in constants else node

    return ast.unparse(Fill().visit(tree))


def _renamed(body: str, parameters: dict[str, str]) -> ast.Module:
    """The body with these names for its arguments; of its own names, those that are taken get an underscore."""
    tree = parse_python(body)
    names = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
    own = {node.id for node in names if isinstance(node.ctx, ast.Store)} - set(parameters)
    builtin = {node.id for node in names} - own - set(parameters)
    if not all(name.isidentifier() for name in parameters.values()) or builtin.intersection(parameters.values()):
        raise WorkerError("the function's parameters have names that it needs for something else")
    for node in names:
        taken = node.id in own and node.id in parameters.values()
        node.id = f"{node.id}_" if taken else parameters.get(node.id, node.id)
    return tree


@lru_cache(maxsize=20_000)
def _names(source: str) -> frozenset[str]:
    return frozenset(node.id for node in ast.walk(parse_python(source)) if isinstance(node, ast.Name))


def _same(one: Any, other: Any) -> bool:
    """Equal, and of equal types throughout (`True` is not 1)."""
    if type(one) is not type(other):
        return False
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(_same, one, other))
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    return bool(one == other)


def _copy(value: Any) -> Any:
    return value.copy() if isinstance(value, (list, dict, set)) else value


def _small(value: Any) -> bool:
    if isinstance(value, (int, float)):
        return abs(value) <= _LARGEST
    if isinstance(value, str):
        return len(value) <= _LARGEST
    if isinstance(value, dict):
        return len(value) <= _LARGEST and all(map(_small, (*value, *value.values())))
    return len(value) <= _LARGEST and all(map(_small, value)) if isinstance(value, (list, tuple, set)) else True
