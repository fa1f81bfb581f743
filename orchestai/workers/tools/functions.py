"""Tools that write functions: from examples, and from arithmetic in words.

`functions.yaml` has the expressions that are searched and the wordings of arithmetic. The search reads the examples and
never the words, so it is quick, nearly free, and wrong where one example fits many.
"""

from __future__ import annotations

import ast
import importlib
import operator
import re
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache, partial
from importlib.resources import files
from typing import Any

import yaml

from orchestai.tasks.visible_examples import Example
from orchestai.text.syntax import parse_literal, parse_python
from orchestai.workers.base import Request, Signature, WorkerError
from orchestai.workers.prompting.prompts import without_example

_MODULES = (
    *("calendar", "collections", "datetime", "itertools", "math"),
    *("operator", "re", "statistics", "string", "textwrap"),
)
"""Modules that the expressions use."""
_SCOPE = {name: importlib.import_module(name) for name in _MODULES}
_compiled = lru_cache(maxsize=20_000)(partial(compile, filename="<search>", mode="eval"))
_LARGEST = 10_000
"""Larger numbers and longer values are not searched: powers and repetitions of them would take too long."""
_MOST_CONSTANTS = 12
_LARGEST_EXPONENT = 1000

_MANY_BITS, _FEWER_BITS = 14, 8
"""What examples hold, a sign three and a truth value one, that hardly one of two hundred expressions gives by chance;
of three or more, fewer each."""

Case = tuple[tuple[Any, ...], Any]


@lru_cache
def _data() -> dict[str, Any]:
    found: dict[str, Any] = yaml.load(
        (files(__package__) / "functions.yaml").read_text("utf-8"), getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    )
    return found


# From examples


def search(request: Request) -> str:
    """Source of the first library function that reproduces the examples; raises `WorkerError` where none does."""
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
    return _written(request.signature, expression)


def describe(request: Request) -> str:
    """`search` by examples that hold more than chance gives.

    Raises:
        WorkerError: they do not, or `search` says.
    """
    shown = len({example.args for example in request.examples})
    said = {example.result for example in request.examples if example.result not in example.args}
    bits = sum(1 if one in ("True", "False", "None") else 3 * len(re.findall(r"\w", one)) for one in said)
    if shown < 2 or bits < (_MANY_BITS if shown == 2 else _FEWER_BITS):
        raise WorkerError("it shows too few examples to find a function by")
    return search(request)


@lru_cache(maxsize=4096)
def _search(arity: int, examples: tuple[Example, ...]) -> str | None:
    """The first expression that reproduces all examples."""
    cases = [_case(example) for example in examples]
    return next((e for e in _candidates(arity, cases) if all(_reproduces(e, *case) for case in cases)), None)


def _case(example: Example) -> Case:
    return tuple(parse_literal(arg) for arg in example.args), parse_literal(example.result)


def _candidates(arity: int, cases: Sequence[Case]) -> Iterator[str]:
    table = {name: re.split(r";\s+", text.strip()) for name, text in _data()["search"].items()}
    if arity in (1, 2):
        yield from table["one" if arity == 1 else "two"]
    constants = _constants(cases)
    for template in table["with_constant"]:
        if _names(template) & {"x", "a", "b"} == ({"x"} if arity == 1 else {"a", "b"}):
            yield from (_substitute(template, c=constant) for constant in constants)
    if arity == 1:
        texts = [constant for constant in constants if isinstance(constant, str) and len(constant) == 1]
        yield from (_substitute("x.replace(c, d)", c=c, d=d) for c in texts for d in texts if c != d)


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
        value = eval(_compiled(expression), {**_SCOPE, **dict(zip(names, map(_copy, args), strict=True))})
    except Exception:  # an expression for other types
        return False
    return _same(value, result)


def _written(signature: Signature, expression: str) -> str:
    """Source of a function that returns the expression; raises `WorkerError` where its parameters need other names."""
    parameters = signature.parameters
    names = dict(zip(("a", "b"), parameters, strict=True)) if len(parameters) == 2 else {"x": parameters[0]}
    returned = ast.unparse(_renamed(expression, names))
    imports = [f"import {module}" for module in _MODULES if module in _names(returned)]
    return "\n".join([*imports, f"def {signature}:", f"    return {returned}", ""])


@lru_cache(maxsize=20_000, typed=True)
def _substitute(template: str, **constants: Any) -> str:
    """The template with its constants filled in."""
    tree = parse_python(template, "eval")

    class Fill(ast.NodeTransformer):
        def visit_Name(self, node: ast.Name) -> ast.AST:
            return ast.Constant(constants[node.id]) if node.id in constants else node

    return ast.unparse(Fill().visit(tree))


def _renamed(expression: str, parameters: dict[str, str]) -> ast.expr:
    """The expression with these names for its arguments; of its own names, those that are taken get an underscore."""
    tree = parse_python(expression, "eval").body
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


# From arithmetic in words: nothing but arithmetic, on one number (`multiply it by 3 and add 1`) or on two

_WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
_NUMBERS = {word: str(i) for i, word in enumerate(_WORDS)} | {"twenty": "20", "hundred": "100", "thousand": "1000"}
_FILLER = re.compile(
    r"(?:[\s,;.:]|\b(?:and|then|finally|next|the result|take|compute|find|calculate|return|give|get|choose|pick)\b)*"
)


def formula(words: str, signature: Signature) -> str:
    """Python expression in the signature's parameters that the words describe, every word accounted for."""
    if (arity := len(signature.parameters)) not in (1, 2):
        raise WorkerError("the calculator takes one number or two")
    value, names = signature.parameters[0], dict(zip("ab", signature.parameters, strict=False))
    text = re.sub(r"\s+", " ", without_example(words).lower()).strip(" .")
    text = re.sub(r"[a-z]+", lambda match: _NUMBERS.get(match[0], match[0]), text)
    place, steps = _FILLER.match(text).end(), 0  # type: ignore[union-attr]
    while place < len(text):
        rules = _wordings("two" if arity == 2 and not steps else "one")
        matches = [(match, template) for wording, template in rules if (match := wording.match(text, place))]
        if not matches:
            raise WorkerError(f"the calculator does not understand {text[place : place + 40]!r}")
        match, template = max(matches, key=lambda pair: pair[0].end())
        number = next((group for group in match.groups() if group), "")
        value = template.format(x=f"({value})" if steps else value, n=number, **names)
        place, steps = _FILLER.match(text, match.end()).end(), steps + 1  # type: ignore[union-attr]
    if not steps:
        raise WorkerError("the calculator sees no arithmetic in the words")
    return value


@lru_cache
def _wordings(arity: str) -> list[tuple[re.Pattern[str], str]]:
    parts = _data()["arithmetic"]["parts"]
    return [
        (re.compile(rf"(?:{re.sub('|'.join(parts), lambda part: parts[part[0]], words)})\b"), template)
        for words, template in _data()["arithmetic"][arity]
    ]


_OPERATORS: dict[type[ast.AST], Callable[..., float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
}


def calculate(expression: str) -> float:
    """Value of an arithmetic expression, an `int` where it is one.

    Raises:
        ValueError: it is something else, or a power in it is too large.
        ArithmeticError: it has no value.
    """
    try:
        return _value(parse_python(expression.strip(), "eval").body)
    except (SyntaxError, RecursionError, MemoryError) as error:
        raise ValueError(f"not arithmetic: {expression[:80]!r}") from error


def _value(node: ast.AST) -> float:
    if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
        return node.value
    if isinstance(node, ast.UnaryOp) and type(node.op) in _OPERATORS:
        return _OPERATORS[type(node.op)](_value(node.operand))
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        left, right = _value(node.left), _value(node.right)
        if isinstance(node.op, ast.Pow) and (abs(right) > _LARGEST_EXPONENT or abs(left) > 10**6):
            raise ValueError("the power is too large")
        return _OPERATORS[type(node.op)](left, right)
    raise ValueError("not arithmetic")
