"""Several sources as one, in which each keeps its meaning: plain functions, renamed apart where names clash."""

from __future__ import annotations

import ast
import builtins
import io
import re
import symtable
import sys
import textwrap
import tokenize
import warnings
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from typing import NamedTuple, TypeAlias

from orchestai.text.syntax import parse_literal, parse_python

_Import: TypeAlias = ast.Import | ast.ImportFrom
_Origin: TypeAlias = tuple[str, str]
"""Of an imported name: its module, and its name there; empty for the module itself."""
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Assign, ast.AnnAssign)
_LOOKING_ROUND = frozenset(
    (
        "eval",
        "exec",
        "compile",
        "globals",
        "locals",
        "vars",
        "dir",
        "__import__",
        "__name__",
        "__builtins__",
        "__file__",
    )
)
_LOOKED_AT = frozenset(
    ("modules", "_getframe", "__globals__", "__name__", "__qualname__", "__module__", "inspect", "importlib")
)
"""Builtins, and attributes and modules, by which a source may see that it does not stand alone."""
_TITLE_WIDTH = 100
_FAILED = "the step did not load: "
_LOADER = f'''\
def load(source, name):
    """The function `name` that `source` defines, in its own namespace. What fails here fails when it is called."""
    namespace = {{"__name__": name}}
    try:
        exec(source, namespace)
        return namespace[name]
    except (Exception, SystemExit) as error:
        message = f"{{type(error).__name__}}: {{error}}"

    def fail(*args, **kwargs):
        raise RuntimeError("{_FAILED}" + message)

    return fail'''


class Piece(NamedTuple):
    """A source that defines a function.

    Attributes:
        name: of the function in the source.
        wanted: what it is to be called in the merged source; if that is taken, it gets a number.
        title: stands above it.
    """

    source: str
    name: str
    wanted: str
    title: str


@dataclass(frozen=True)
class _Module:
    """What a source shares with those that it stands beside.

    Attributes:
        bound: names of its top level, with the origins of those that it only imports.
        used: names that it expects to be there: those of builtins.
        fixed: names that cannot be changed, since arguments, attributes or classes have them, too.
        plain: whether it imports and defines, and does nothing that may fail.
        nests: whether it means the same inside a function.
    """

    bound: Mapping[str, _Origin | None]
    used: frozenset[str]
    fixed: frozenset[str]
    plain: bool
    nests: bool

    def clashing(self, taken: Mapping[str, _Origin | None]) -> list[str]:
        """The names that others have bound, unless both import them from one place."""
        return [
            name for name, origin in self.bound.items() if name in taken and (origin is None or taken[name] != origin)
        ]


def merge(head: str, pieces: Sequence[Piece], reserved: Collection[str]) -> tuple[str, list[str]]:
    """A source that begins with `head` and defines the functions of all pieces, and what these are called there.

    A piece stands there as it is written, below the imports of all; a name of its top level that is another's, too,
    gets the piece's number. Where a name cannot be changed, or the piece does more than define, it stands inside its
    function; where it might see that (`globals()`), it is a text that is run in a namespace of its own.

    Args:
        reserved: further names that no piece may bind.
    """
    words = set(re.findall(r"\w+", "\n".join([head, *reserved, *(piece.source for piece in pieces)])))
    top, read = _module(head), [_read(piece.source, piece.name) for piece in pieces]
    expected = [top.used, *(found.used if isinstance(found, _Module) else frozenset[str]() for found in read)]
    bound = {**dict.fromkeys([*reserved, "load"]), **top.bound}
    lines, text = _parts(head, ())
    imports, texts, functions = set(lines), [text], []
    for number, (piece, found) in enumerate(zip(pieces, read, strict=True), start=1):
        taken = {**bound, **dict.fromkeys(frozenset[str]().union(*expected[:number], *expected[number + 1 :]))}
        function = _fresh(piece.wanted, number, words) if piece.wanted in taken else piece.wanted
        renamed = {piece.name: function}
        if isinstance(found, str):
            text = f"def {function}(*args, **kwargs):\n    raise RuntimeError({_FAILED + found!r})"
        elif found is None:
            text = f"{function} = load({_literal(piece.source)}, {piece.name!r})"
        else:
            clashing = [name for name in found.clashing(taken) if name != piece.name]
            renamed |= {name: _fresh(name, number, words) for name in clashing}
            changed = tuple((name, new) for name, new in renamed.items() if name != new)
            if found.plain and found.fixed.isdisjoint(name for name, _ in changed):
                lines, text = _parts(piece.source, changed)
                imports |= set(lines)
                bound |= {renamed.get(name, name): origin for name, origin in found.bound.items()}
            elif found.nests:
                text = _nested(piece, function)
            else:
                text = f"{function} = load({_literal(piece.source)}, {piece.name!r})"
        title = textwrap.fill(piece.title, _TITLE_WIDTH, initial_indent="# ", subsequent_indent="# ")
        texts.append("\n".join(filter(None, [title, text])))
        functions.append(function)
        bound[function] = None
    loader = [_LOADER] if any(" = load(" in text for text in texts) else []
    return "\n\n\n".join(filter(None, [_sorted(imports), *loader, *texts])), functions


@lru_cache(maxsize=4096)
def _read(source: str, name: str) -> _Module | str | None:
    """What a source shares; in words, why it does not load; None where it has to stand alone."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(source, name, "exec", dont_inherit=True)
            found = _module(source)
    except (SyntaxError, ValueError) as error:
        return f"{type(error).__name__}: {error}"
    except (RecursionError, MemoryError):
        return None
    if name not in found.bound:
        return f"it defines no function {name}"
    nodes = [below for node in _body(source) for below in ast.walk(node)]
    seen = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    for node in nodes:
        if isinstance(node, _Import):
            seen |= {alias.name for alias in node.names} | {getattr(node, "module", None) or ""}
    alone = found.used & _LOOKING_ROUND or found.used - vars(builtins).keys() or seen & {*_LOOKED_AT, "*", "__future__"}
    return None if alone else found


@lru_cache(maxsize=4096)
def _module(source: str) -> _Module:
    body = _body(source)
    nodes = [below for node in body for below in ast.walk(node)]
    top, *inner = _scopes(symtable.symtable(source, "source", "exec"))
    symbols = [*top.get_symbols(), *(each for scope in inner for each in scope.get_symbols() if each.is_global())]
    bound = {each.get_name() for each in symbols if each.is_assigned() or each.is_imported()}
    used = frozenset(each.get_name() for each in symbols) - bound
    changed = {node.id for node in nodes if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)}
    changed |= {node.name for node in body if isinstance(node, _DEFINITIONS[:3])}
    origins: dict[str, set[_Origin]] = defaultdict(set)
    for node in body:
        for name, origin in _imported(node) if isinstance(node, _Import) else ():
            origins[name].add(origin)
    fixed = {name for node in nodes for name in _kept(node)}
    fixed |= {each.get_name() for scope in inner if scope.get_type() == "class" for each in scope.get_symbols()}
    fixed |= {name for node in nodes if isinstance(node, _Import) and node not in body for name, _ in _imported(node)}
    return _Module(
        bound={
            name: next(iter(origins[name])) if len(origins[name]) == 1 and name not in changed else None
            for name in bound
        },
        used=used,
        fixed=frozenset(fixed),
        plain=all(map(_is_plain, body)),
        nests=not any(isinstance(node, ast.Global) for node in nodes),
    )


def _body(source: str) -> list[ast.stmt]:
    """The statements of a source without its docstring and examples of use."""
    return [node for node in parse_python(source).body if not _is_example(node)]


def _is_example(node: ast.stmt) -> bool:
    if isinstance(node, ast.Expr):
        printing = isinstance(node.value, ast.Call) and ast.unparse(node.value.func) == "print"
        return printing or isinstance(node.value, ast.Constant)
    return isinstance(node, ast.Assert) or (isinstance(node, ast.If) and "__name__" in ast.unparse(node.test))


def _is_plain(node: ast.stmt) -> bool:
    """Whether a statement of the top level imports what is there, or defines."""
    if isinstance(node, _Import):
        modules = [node.module or ""] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names]
        return not getattr(node, "level", 0) and all(map(_is_there, {name.partition(".")[0] for name in modules}))
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return isinstance(node, _DEFINITIONS) and all(isinstance(target, ast.Name) for target in targets)


@lru_cache(maxsize=1024)
def _is_there(module: str) -> bool:
    return module in sys.stdlib_module_names or find_spec(module) is not None


def _scopes(table: symtable.SymbolTable) -> Iterator[symtable.SymbolTable]:
    yield table
    for below in table.get_children():
        yield from _scopes(below)


def _imported(node: _Import) -> Iterator[tuple[str, _Origin]]:
    """The names that a statement binds, with their origins."""
    for alias in node.names:
        if isinstance(node, ast.ImportFrom):
            yield alias.asname or alias.name, (node.module or "", alias.name)
        else:
            yield (
                alias.asname or alias.name.partition(".")[0],
                (alias.name if alias.asname else alias.name.partition(".")[0], ""),
            )


def _kept(node: ast.AST) -> Iterator[str]:
    """Names in a node that are not only those of variables and functions."""
    if isinstance(node, (ast.arg, ast.keyword)):
        yield node.arg or ""
    elif isinstance(node, ast.Attribute):
        yield node.attr
    elif isinstance(node, (ast.Global, ast.Nonlocal)):
        yield from node.names
    elif isinstance(node, ast.Import):
        yield from (alias.name.partition(".")[0] for alias in node.names if "." in alias.name and not alias.asname)
    elif not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):  # classes, handlers, patterns
        yield from (
            value for value in (getattr(node, "name", None), getattr(node, "rest", None)) if isinstance(value, str)
        )


class _Renaming(ast.NodeTransformer):
    def __init__(self, names: Mapping[str, str]) -> None:
        self._names = names

    def generic_visit(self, node: ast.AST) -> ast.AST:
        if isinstance(node, ast.Name):
            node.id = self._names.get(node.id, node.id)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            node.name = self._names.get(node.name, node.name)
        elif isinstance(node, ast.alias) and (new := self._names.get(node.asname or node.name)):
            node.asname = new
        return super().generic_visit(node)


@lru_cache(maxsize=4096)
def _parts(source: str, names: tuple[tuple[str, str], ...]) -> tuple[list[str], str]:
    """The imports of a source, and the rest as it is written, with new names for some of those that it binds."""
    body = [_Renaming(dict(names)).visit(node) for node in _body(source)]
    rest = ast.Module([node for node in body if not isinstance(node, _Import)], [])
    text = _as_written(source, dict(names))
    try:
        same = ast.dump(parse_python(text)) == ast.dump(rest)
    except SyntaxError:
        same = False
    imports = [node for node in body if isinstance(node, _Import)]
    single = [type(node)(**{**vars(node), "names": [alias]}) for node in imports for alias in node.names]
    return [ast.unparse(node) for node in single], text if same else ast.unparse(rest)


def _as_written(source: str, names: Mapping[str, str]) -> str:
    """A source with its comments and other names, but without the lines of its imports and examples."""
    lines = io.StringIO(source).readlines()
    try:
        tokens = list(tokenize.generate_tokens(iter(lines).__next__))
    except (tokenize.TokenError, SyntaxError):
        return source
    for before, token in zip(reversed([None, *tokens[:-1]]), reversed(tokens), strict=True):
        if token.type == tokenize.NAME and token.string in names and (before is None or before.string != "."):
            row, start = token.start[0] - 1, token.start[1]
            lines[row] = lines[row][:start] + names[token.string] + lines[row][token.end[1] :]
    for node in parse_python(source).body:
        if isinstance(node, _Import) or _is_example(node):
            lines[node.lineno - 1 : node.end_lineno] = [""] * ((node.end_lineno or node.lineno) - node.lineno + 1)
    return "".join(lines).strip("\n")


def _nested(piece: Piece, function: str) -> str:
    """The piece inside its function, which calls the one that is defined there."""
    (outer,) = parse_python(f"def {function}(*args, **kwargs): return {piece.name}(*args, **kwargs)").body
    assert isinstance(outer, ast.FunctionDef)
    outer.body = [*_body(piece.source), *outer.body]
    return ast.unparse(outer)


def _sorted(imports: Collection[str]) -> str:
    """Import statements: the standard library's first, modules before what is taken from them."""
    taken: dict[str, list[str]] = defaultdict(list)
    for line in sorted(imports):
        module, _, name = line.removeprefix("from ").partition(" import ")
        taken[module] += [name] if name else []
    lines = [f"from {module} import {', '.join(names)}" if names else module for module, names in taken.items()]
    lines.sort(key=lambda line: (line.startswith("from "), line))
    own = [line for line in lines if line.split()[1].partition(".")[0] in sys.stdlib_module_names]
    return "\n\n".join("\n".join(part) for part in (own, [line for line in lines if line not in own]) if part)


def _fresh(name: str, number: int, words: set[str]) -> str:
    """The name with a number, so that nothing else has it."""
    name = f"{name}_{number}"
    while name in words:
        name += "_"
    words.add(name)
    return name


def _literal(source: str) -> str:
    """A Python literal of `source`, as readable as it can be written exactly."""
    text = "\n" + source.strip("\n") + "\n"
    for quotes in ("'''", '"""'):
        literal = f"r{quotes}{text}{quotes}"
        try:
            if parse_literal(literal) == text:
                return literal
        except (SyntaxError, ValueError):
            continue
    return repr(text)
