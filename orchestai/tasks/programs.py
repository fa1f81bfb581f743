"""Programs in what models write: in Markdown's code fences, in tags, or between paragraphs of prose."""

from __future__ import annotations

import ast
import json
import re
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import unescape
from typing import Any

from orchestai.text.spoken import enclosed, spoken
from orchestai.text.syntax import free_names, parse_literal, parse_python

_MOST_PARSED = 200_000
"""Characters, over all ends of a program that are tried: about a tenth of a second."""
_MOST_CANDIDATES = 32
_OPENING = re.compile(r"^(?P<lead>[^\n`~]*)(?P<mark>`{3,}|~{3,})[ \t]*(?P<info>[^\n`]*)$", re.MULTILINE)
_MARKS = re.compile(r"[ \t>]*(`{3,}|~{3,})")
_ONE_LINE = re.compile(r"```(?:py\w*\s)?([^`\n]+)```|`((?:def |(?:\w+ = )?lambda )[^`\n]+)`")
_TAGS = tuple(
    (re.compile(opening, re.IGNORECASE), re.compile(closing, re.IGNORECASE))
    for opening, closing in (
        (r"\[(?:PYTHON|CODE)\]", r"\[/(?:PYTHON|CODE)\]"),
        (r"^[ \t]*(?-i:\[BEGIN\])", r"(?-i:\[DONE\])"),
        (
            r"<(?:code|python|solution|answer|parameter)\b[^<>\n]{0,80}>",
            r"</(?:code|python|solution|answer|parameter)>",
        ),
        (r"<pre\b[^<>\n]{0,80}>", "</pre>"),
    )
)
"""How Code Llama, HTML and others mark programs."""
_TAG_LINE = re.compile(r"^[ \t]*\[/?(?:PYTHON|CODE|BEGIN|DONE)\][ \t]*$", re.MULTILINE)
_HTML = re.compile(r"</?(?:span|code|b|i|em|strong)\b[^<>\n]{0,200}>|(?<=>)\n(?=<br)")
_ENTITY = re.compile(r"&(?:lt|gt|amp|quot|#\d+|#x[0-9a-f]+);", re.IGNORECASE)
_JSON = re.compile(r"[{\[]\s*[\"'{]|\A\s*\"")
_MOST_VALUES = 8
_PATCH = re.compile(r"^(?:@@|diff --git |\*\*\* (?:Begin|Update|Add) |<{5,} |--- [^\n]*\n\+\+\+ )", re.MULTILINE)
_PATCH_HEAD = re.compile(r"diff --git |index \w+\.\.|new file|@@|\*\*\* |--- /dev/null|\+\+\+ |\\ No newline")
_OTHER_LANGUAGES = re.compile(
    r"(?:ba|z)?sh|shell|console|cmd|powershell|json\w*|ya?ml|toml|xml|html|css|(?:java|type)script|[jt]sx?|sql|c|cpp|c\+\+"
    r"|java|go|rust|ruby|php|te?xt|plain\w*|output|markdown|md|diff",
    re.IGNORECASE,
)
_BEGINS = re.compile(r"^[ \t]*(?:(?:def|class|async def|import|from) |@|\w+ = )")
_PROMPTED = re.compile(r"^[ \t]*(?:>>> |In \[\d+\]: )(?=def |class |@|async |import |from |\w+ = )", re.MULTILINE)
_LINE_MARKS = tuple(
    map(re.compile, (r"[ \t]*>>> ?|In \[\d+\]: |\s*\.\.\.:?(?: |$)", r"> ?", r"\+ ?", r"\s*\d+\s?[:|.)]?"))
)
"""What may stand before every line of a program: prompts, a quotation's mark, a patch's, numbers."""
_FUTURE = re.compile(r"^from __future__ import [^\n(]+$", re.MULTILINE)
_INVISIBLE = {ord(mark): None for mark in "\u200b\u200c\u200d\u2060\ufeff\u00ad\u200e\u200f"} | {
    ord(mark): " " for mark in "\u00a0\u2002\u2003\u2009\u202f\u3000"
}
_TYPOGRAPHIC = _INVISIBLE | {ord(mark): "'" for mark in "‘’"} | {ord(mark): '"' for mark in "“”"}
_NAMED = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


@dataclass
class _Budget:
    """How many characters may yet be parsed."""

    left: int = _MOST_PARSED

    def parse(self, code: str) -> ast.Module | None:
        if self.left < 0:
            return None
        self.left -= len(code)
        return _parsed(code)


def fenced(text: str, name: str = "", arity: int | None = None) -> str | None:
    """The likeliest of the `programs` of a text, or None."""
    return next(iter(programs(text, name, arity)), None)


def programs(text: str, name: str = "", arity: int | None = None) -> list[str]:
    """The programs in a text, the likeliest first; all of them define `name` if one does.

    Of the programs that a text holds, likelier is what defines `name` (a method of a class without arguments will do),
    then what parses, has a body, takes `arity` arguments, is not a test, and comes later. Definitions that a program
    lacks are taken from the text's other programs. Thoughts hold none.
    """
    text = spoken(text).replace("\r\n", "\n").replace("\r", "\n")
    values = list(_in_json(text))
    text = text if "\n" in text.strip() else text.replace("\\n", "\n")  # a text of JSON that was never read as one
    budget = _Budget()
    whole = budget.parse(text)
    if whole is not None and any(isinstance(node, _NAMED) for node in whole.body) and not _TAG_LINE.search(text):
        return [text]
    found = [code for block, info in (*values, *_blocks(text, budget)) if (code := _read(block, info, budget))]
    if _PATCH.search(text):
        found += [code for code in [_unpatched(text)] if code]
    elif not any(_defines_something(code) for code in found):
        without_marks = "\n".join("" if _MARKS.match(line) else line for line in text.split("\n"))
        found += [code for code in [_between_prose(without_marks, budget)] if code]
    found = list(dict.fromkeys(found))[-_MOST_CANDIDATES:]
    ranks = {code: _rank(code, place, name, arity) for place, code in enumerate(found)}
    ordered = sorted(found, key=ranks.__getitem__, reverse=True)
    if name and ordered and ranks[ordered[0]][0]:
        ordered = [code for code in ordered if ranks[code][0]]
    return [_completed(code, found, name) for code in ordered]


def longest_program(head: str, body: str, budget: _Budget | None = None) -> str | None:
    """`head` and as many lines of `body` as form a program; None where none do, or too much would have to be read.

    No line at which parsing fails, or at which what is never closed was opened, is in any program that begins so: the
    next end to try is before it.
    """
    budget = budget or _Budget()
    lines, above = body.split("\n"), head.count("\n")
    end = len(lines)
    while end >= 0:
        code = head + "\n".join(lines[:end])
        try:
            parse_python(code)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            line = error.lineno if isinstance(error, SyntaxError) else None
            budget.left -= len(code)
            if budget.left < 0:
                return None
            end = min(end, max(line - above, 1) if line else end) - 1
        else:
            return code
    return None


def parses(code: str) -> bool:
    """Whether `code` is Python."""
    return _parsed(code) is not None


def unfenced(text: str, name: str = "") -> str:
    """The program in a text that is no Python itself but holds some; else the text."""
    begins = re.match(r"\s*(?:[{\[\"]|>>> |In \[)", text)
    if not begins and (parses(text) or not re.search("```|~~~|</|^>>> ", text, re.MULTILINE)):
        return text
    return fenced(text, name) or text


def _parsed(code: str) -> ast.Module | None:
    try:
        return parse_python(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def put_above(head: str, code: str) -> str:
    """`head` above `code`, with the imports of the future of both, which have to come first, above all."""
    both = f"{head}\n{code}"
    futures = dict.fromkeys(_FUTURE.findall(both))
    return "\n".join([*futures, _FUTURE.sub("", both)]) if futures else both


def _in_json(text: str, depth: int = 3) -> Iterator[tuple[str, str]]:
    """The programs that are texts of JSON, which may again be texts of such."""
    for begins in list(_JSON.finditer(text))[:_MOST_VALUES] if depth else ():
        try:
            values: list[Any] = [json.JSONDecoder(strict=False).raw_decode(text[begins.start() :].lstrip())[0]]
        except (ValueError, RecursionError):
            try:  # as Python prints it
                values = [parse_literal(text.strip())]
            except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError):
                continue
        for value in values:
            if isinstance(value, list) and all(isinstance(line, str) for line in value):
                value = "\n".join(value)
            if isinstance(value, str) and re.search("def|class|lambda", value):
                yield from list(_in_json(value, depth - 1)) or [(code, "") for code in [fenced(value)] if code]
            elif isinstance(value, dict | list):
                values += value.values() if isinstance(value, dict) else value


def _unpatched(block: str) -> str | None:
    """What a patch makes of nothing; None where it changes something, which is not there."""
    if (replaced := re.search(r"^<{5,}[^\n]*\n={5,}\n(.*?)^>{5,}", block, re.MULTILINE | re.DOTALL)) is not None:
        return replaced[1]
    lines = [line for line in block.split("\n") if line.strip() and not _PATCH_HEAD.match(line)]
    return "\n".join(line[1:] for line in lines) if all(line.startswith("+") for line in lines) else None


def _of_html(block: str) -> str:
    """A block without marks of HTML, where those of its own are escaped."""
    plain = re.sub(r"<br\s*/?>\n?", "\n", _HTML.sub("", block), flags=re.IGNORECASE)
    return unescape(plain) if _ENTITY.search(plain) and "<" not in plain else plain


def _blocks(text: str, budget: _Budget) -> Iterator[tuple[str, str]]:
    """What stands in fences and tags, and the language that it is said to be.

    A fence ends with the first line of such a mark, or a later one where a text of the program's own would be cut off.
    """
    for place, (opening, closing) in enumerate(_TAGS):
        for block in enclosed(text, opening, closing, to_end=place < 2):
            yield _of_html(block) if place > 1 else block, "python"
    if _PROMPTED.search(text):
        yield "\n".join(line for line in text.split("\n") if _LINE_MARKS[0].match(line)), "python"
    for one in _ONE_LINE.finditer(text):
        yield one[1] or one[2], ""
    position = 0
    while (begin := _OPENING.search(text, position)) is not None:
        mark, inside = begin["mark"], begin.end() + 1
        closing = re.compile(rf"^[ \t>]*{re.escape(mark)}|(?<=[^\s`~]){re.escape(mark)}[ \t]*$", re.MULTILINE)
        end = first = closing.search(text, inside)
        while end is not None and _is_cut_off(text[inside : end.start()], budget):
            end = closing.search(text, end.end())
        end = end or first
        yield text[inside : end.start() if end else len(text)], begin["info"].strip()
        if end is None:
            return
        opens = _OPENING.match(text, text.rfind("\n", 0, end.start()) + 1)
        position = opens.start() if opens is not None and opens["info"].strip() else end.end()


def _is_cut_off(code: str, budget: _Budget) -> bool:
    """Whether a text of several lines is left open."""
    budget.left -= len(code)
    if budget.left < 0 or ('"""' not in code and "'''" not in code):
        return False
    try:
        parse_python(textwrap.dedent(code))
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        return "triple-quoted" in str(error)
    return False


def _read(block: str, info: str, budget: _Budget) -> str | None:
    """The program that a block holds, without what may stand before its lines or cannot be seen; None if it is none."""
    if _PATCH.search(block) or info == "diff":
        block = _unpatched(block) or ""
    elif _OTHER_LANGUAGES.fullmatch(info):
        return None
    for visible in dict.fromkeys((block, block.translate(_INVISIBLE), block.translate(_TYPOGRAPHIC), unescape(block))):
        for code in (visible, textwrap.dedent(visible), *_without_line_marks(visible)):
            if budget.parse(code) is not None:
                return code if code.strip() else None
    code = textwrap.dedent(block.translate(_INVISIBLE))
    program = longest_program("", code, budget)
    return program if program and _defines_something(program) else _between_prose(code, budget) or code


def _without_line_marks(block: str) -> Iterator[str]:
    lines = [line for line in textwrap.dedent(block).split("\n") if line.strip()]
    for mark in _LINE_MARKS:
        marked = [(line, found) for line in lines if (found := mark.match(line))]
        if lines and mark.match(lines[0]) and (len(marked) == len(lines) or mark is _LINE_MARKS[0]):
            yield textwrap.dedent("\n".join(line[found.end() :] for line, found in marked))


def _between_prose(text: str, budget: _Budget) -> str | None:
    """The parts of a text that are Python, from a line that looks like it on, put together; None without any."""
    parts: list[str] = []
    lines = text.translate(_INVISIBLE).split("\n")
    place = 0
    while budget.left > 0 and place < len(lines):
        line = lines[place]
        taken = 1
        if _BEGINS.match(line):
            margin = line[: len(line) - len(line.lstrip())]
            outside = (n for n, each in enumerate(lines[place:], place) if each.strip() and not each.startswith(margin))
            block = lines[place : next(outside, None)]
            part = longest_program("", "\n".join(each.removeprefix(margin) for each in block), budget) or ""
            if part.strip():
                parts.append(part.rstrip())
                taken = part.count("\n") + 1
        place += taken
    program = "\n".join(parts)
    return program if _defines_something(program) else None


def _defines_something(code: str) -> bool:
    tree = _parsed(code)
    return tree is not None and any(isinstance(node, _NAMED) for node in tree.body)


def _rank(code: str, place: int, name: str, arity: int | None) -> tuple[int, bool, bool, bool, bool, int]:
    """How likely a program is the one that is wanted, best last."""
    tree = _parsed(code)
    if tree is None:
        return (1 if name and f"def {name}(" in code else 0), False, False, False, False, place
    function = next((node for node in tree.body if isinstance(node, _NAMED) and node.name == name), None)
    method = find_method(tree.body, name)
    bound = method or binds(tree.body, name)
    defined = [node for node in tree.body if isinstance(node, _NAMED)]
    wanted = [function] if function else [method] if method else defined
    functions = [node for node in wanted if isinstance(node, ast.FunctionDef)]
    fits = arity is None or not functions or any(takes(node, arity + bool(method)) for node in functions)
    tests = [node for node in defined if is_test(node, name)]
    whole = not functions or not all(map(_is_stub, functions))
    return (2 if name and bound else 0), True, whole, bool(defined) and len(tests) < len(defined), fits, place


def takes(function: ast.FunctionDef, arity: int) -> bool:
    """Whether a function can be called with so many arguments."""
    arguments = function.args
    most = len(arguments.posonlyargs) + len(arguments.args)
    return most - len(arguments.defaults) <= arity and (arity <= most or arguments.vararg is not None)


def is_test(node: ast.stmt, name: str = "") -> bool:
    """Whether a definition is a test, of the function `name` for one, rather than what is tested."""
    if isinstance(node, ast.ClassDef):
        return any(ast.unparse(base).endswith("TestCase") for base in node.bases) or node.name.startswith("Test")
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or node.name == name:
        return False
    reads = bool(name) and any(isinstance(one, ast.Name) and one.id == name for one in ast.walk(node))
    return reads or node.name in ("test", "check", "main") or node.name.startswith("test_")


def find_method(body: Sequence[ast.stmt], name: str) -> ast.FunctionDef | None:
    """The method `name` of a class that is made without arguments, as LeetCode's `Solution` is."""
    for cls in (node for node in body if isinstance(node, ast.ClassDef)):
        methods = {one.name: one for one in cls.body if isinstance(one, ast.FunctionDef)}
        if name in methods and ("__init__" not in methods or takes(methods["__init__"], 1)):
            return methods[name]
    return None


def binds(body: Sequence[ast.stmt], name: str) -> bool:
    """Whether statements define a name, or set it."""
    return any(name in _bound(node) for node in body if not isinstance(node, ast.Import | ast.ImportFrom))


def _bound(node: ast.stmt) -> set[str]:
    if isinstance(node, ast.Import | ast.ImportFrom):
        return {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return {node.name} if isinstance(node, _NAMED) else {one.id for one in targets if isinstance(one, ast.Name)}


def _is_stub(function: ast.FunctionDef) -> bool:
    """Whether a body is yet to be written."""
    return all(
        isinstance(node, ast.Pass)
        or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
        or (isinstance(node, ast.Raise) and "NotImplemented" in ast.unparse(node))
        for node in function.body
    )


def _completed(code: str, others: Sequence[str], name: str) -> str:
    """A program below the imports and definitions of the text's other programs that it lacks."""
    if len(others) < 2 or not parses(code):
        return code
    code = put_above("\n".join(future for other in others if parses(other) for future in _FUTURE.findall(other)), code)
    lacks = set(free_names(code)) - {name}
    for other in reversed(others):
        if other == code or not lacks or (tree := _parsed(other)) is None:
            continue
        for node in reversed(tree.body):
            if _bound(node) & lacks:
                code = put_above(ast.unparse(node), code)
                lacks = set(free_names(code)) - {name}
    return code
