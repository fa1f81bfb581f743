"""Arithmetic in words or symbols.

Where a function is wanted, the words must be nothing but arithmetic, on one number (`multiply it by 3 and add 1`) or on
two (`the product of both arguments`). Where text is wanted, they are the everyday tools' (see `everyday`).
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable

from orchestai.text.syntax import parse_python
from orchestai.workers.base import Request, Signature, WorkerError
from orchestai.workers.prompting.prompts import without_example

_WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
_NUMBERS = {word: str(i) for i, word in enumerate(_WORDS)} | {"twenty": "20", "hundred": "100", "thousand": "1000"}

_IT = r"(?:it|(?:the|this|that) (?:number|integer|value|result|input))"
_N = r"(-?\d+)"
_DOWN = r"(?:,? (?:rounding|rounded) (?:it )?down|,? (?:with|using) integer division)"

_ONE: tuple[tuple[str, str], ...] = (
    (rf"subtract {_IT} from {_N}|(?<!\S){_N} minus {_IT}", "{n} - {x}"),
    (rf"multiply {_IT} (?:by|with) itself|square(?: {_IT})?|(?:its|the) square(?: of {_IT})?", "{x} ** 2"),
    (rf"raise {_IT} to the power of {_N}|{_IT} to the power of {_N}", "{x} ** {n}"),
    (rf"cube(?: {_IT})?|(?:its|the) cube(?: of {_IT})?", "{x} ** 3"),
    (rf"double(?: {_IT})?|(?:its|the) double(?: of {_IT})?|twice {_IT}", "{x} * 2"),
    (rf"triple(?: {_IT})?|(?:its|the) triple(?: of {_IT})?", "{x} * 3"),
    (rf"(?:halve(?: {_IT})?|half(?: of)? {_IT}){_DOWN}", "{x} // 2"),
    (rf"halve(?: {_IT})?|half(?: of)? {_IT}", "{x} / 2"),
    (rf"(?:the )?remainder (?:after|of|when|from) (?:dividing {_IT}|its division) by {_N}", "{x} % {n}"),
    (rf"(?:{_IT} |reduce {_IT} |its value )?(?:modulo|mod) {_N}", "{x} % {n}"),
    (rf"floor-divide {_IT} by {_N}|(?:{_IT} )?floor-divided by {_N}|divide {_IT} by {_N}{_DOWN}", "{x} // {n}"),
    (rf"divide(?: {_IT}| the result)? by {_N}|(?:{_IT} )?divided by {_N}", "{x} / {n}"),
    (rf"multiply(?: {_IT})? (?:by|with) {_N}|(?:{_IT} )?times {_N}|{_N} times(?: {_IT})?", "{x} * {n}"),
    (rf"add {_N}(?: to {_IT})?|increase(?: {_IT})? by {_N}|(?:{_IT} )?plus {_N}", "{x} + {n}"),
    (rf"(?:the number that is )?{_N} (?:more|greater|larger)(?: than {_IT})?", "{x} + {n}"),
    (
        rf"(?:subtract|take away) {_N}(?: from {_IT})?|(?:decrease|reduce)(?: {_IT})? by {_N}|(?:{_IT} )?minus {_N}",
        "{x} - {n}",
    ),
    (rf"(?:the number that is )?{_N} (?:less|smaller)(?: than {_IT})?", "{x} - {n}"),
    (rf"(?:its|the) absolute value(?: of {_IT})?|its distance (?:from|to) (?:0|zero)|drop its sign", "abs({x})"),
    (rf"negate(?: {_IT})?|(?:flip|change) its sign|(?:its|the) (?:negative|opposite)(?: of {_IT})?", "-{x}"),
)
"""(wording, formula): `x` is the value so far, `n` the number in the words. The longest wording that matches counts."""

_BOTH = r"(?:the two|both|the)(?: numbers| integers| arguments| values)?"
_FIRST, _SECOND = (rf"(?:the )?{word}(?: number| argument| integer| value)?" for word in ("first", "second"))
_TWO: tuple[tuple[str, str], ...] = (
    (rf"add {_BOTH}|(?:the )?sum of {_BOTH}|add {_SECOND} to {_FIRST}|{_FIRST} plus {_SECOND}", "{a} + {b}"),
    (
        rf"subtract {_SECOND} from {_FIRST}|{_FIRST} minus {_SECOND}|(?:reduce|decrease) {_FIRST} by {_SECOND}",
        "{a} - {b}",
    ),
    (rf"(?:the )?absolute difference (?:of|between) {_BOTH}", "abs({a} - {b})"),
    (
        rf"multiply {_BOTH}|(?:the )?product of {_BOTH}|{_FIRST} times {_SECOND}|multiply {_FIRST} by {_SECOND}",
        "{a} * {b}",
    ),
    (rf"divide {_FIRST} by {_SECOND}{_DOWN}", "{a} // {b}"),
    (rf"(?:the )?remainder (?:after|of|when) dividing {_FIRST} by {_SECOND}|{_FIRST} modulo {_SECOND}", "{a} % {b}"),
    (rf"(?:the )?(?:larger|maximum|greater|bigger)(?: one)? of {_BOTH}", "max({a}, {b})"),
    (rf"(?:the )?(?:smaller|minimum|lesser)(?: one)? of {_BOTH}", "min({a}, {b})"),
)

_FILLER = re.compile(
    r"(?:[\s,;.:]|\b(?:and|then|finally|next|the result|take|compute|find|calculate|return|give|get|choose|pick)\b)+"
)

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
_LARGEST_EXPONENT = 1000


def answer(request: Request) -> str:
    """A function where one is wanted, else a result in words; raises `WorkerError` where the words ask for neither."""
    if request.signature is None:
        from orchestai.workers.tools import everyday

        return everyday.answer(request, "arithmetic")
    return f"def {request.signature}:\n    return {formula(request.instruction, request.signature)}\n"


def formula(words: str, signature: Signature) -> str:
    """Python expression in the signature's parameters that the words describe, every word accounted for."""
    if len(signature.parameters) == 1:
        rules, value, names = _ONE, signature.parameters[0], {}
    elif len(signature.parameters) == 2:
        rules, value, names = _TWO, "", dict(zip("ab", signature.parameters, strict=True))
    else:
        raise WorkerError("the calculator takes one number or two")
    text = re.sub(r"\s+", " ", without_example(words).lower()).strip(" .")
    text = re.sub(r"[a-z]+", lambda match: _NUMBERS.get(match[0], match[0]), text)
    place, steps = _skip(text, 0), 0
    while place < len(text):
        match, template = _longest(rules, text, place)
        number = next((group for group in match.groups() if group), "")
        value = template.format(x=f"({value})" if steps else value, n=number, **names)
        place, steps = _skip(text, match.end()), steps + 1
        if names:
            rules, names = _ONE, {}
    if not steps:
        raise WorkerError("the calculator sees no arithmetic in the words")
    return value


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


def _skip(text: str, place: int) -> int:
    match = _FILLER.match(text, place)
    return match.end() if match else place


def _longest(rules: tuple[tuple[str, str], ...], text: str, place: int) -> tuple[re.Match[str], str]:
    """The rule that takes up most of the text from `place` on."""
    matches = [
        (match, formula) for words, formula in rules if (match := re.compile(rf"(?:{words})\b").match(text, place))
    ]
    if not matches:
        raise WorkerError(f"the calculator does not understand {text[place : place + 40]!r}")
    return max(matches, key=lambda pair: pair[0].end())


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
