"""From the subtasks' outputs to the final answer."""

from __future__ import annotations

import ast
import builtins
import io
import re
import string
import symtable
import sys
import textwrap
import tokenize
import warnings
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from typing import Literal, NamedTuple, TypeAlias

from orchestai.tasks.programs import put_above, unfenced
from orchestai.tasks.task import Task
from orchestai.tasks.visible_examples import Example
from orchestai.text.syntax import parse_literal, parse_python
from orchestai.workers.base import Signature
from orchestai.workflow import Subtask, Workflow

STEP = "step"
"""Name of the function that each subtask of a composed program defines."""


@dataclass(frozen=True)
class EntryPoint:
    """The function that the hidden tests call.

    Attributes:
        arguments: source of its parameter list, defaults included.
        parameters: names of the parameters; empty where nobody says them (`arguments` is then `*args`).
        preamble: source of what stands before the function in the task's own head (imports, constants, helpers).
    """

    arguments: str
    parameters: tuple[str, ...]
    preamble: str = ""

    @property
    def values(self) -> tuple[str, ...]:
        """What a root of the workflow gets as arguments."""
        return self.parameters or ("*args",)


def entry_point(task: Task) -> EntryPoint:
    """Read the entry point from the task's program head, else from its list of parameters."""
    for head in (task.complete_prompt, task.code_prompt):
        found = _from_head(head, task.entry_point)
        if found:
            return found
    return EntryPoint(", ".join(task.parameters) or "*args", task.parameters)


def _from_head(head: str, name: str) -> EntryPoint | None:
    try:
        body = parse_python(head).body
    except SyntaxError:
        return None
    for i, statement in enumerate(body):
        if isinstance(statement, ast.FunctionDef) and statement.name == name:
            arguments = statement.args
            for argument in ast.walk(arguments):
                if isinstance(argument, ast.arg):
                    argument.annotation = None
            named = (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
            preamble = "\n".join(ast.unparse(before) for before in body[:i])
            return EntryPoint(ast.unparse(arguments), tuple(argument.arg for argument in named), preamble)
    return None


def step_signature(task: Task, workflow: Workflow, subtask: Subtask, examples: tuple[Example, ...]) -> Signature:
    """The function that a subtask's worker must define.

    The only subtask of a workflow is the whole task: it defines the entry point. Otherwise the subtask's own example
    says how many arguments there are, so that a worker's prompt depends on the subtask's words alone; without an
    example they are the task's parameters (a root) or one per parent.
    """
    if len(workflow) == 1:
        return Signature(task.entry_point, entry_point(task).values)
    if examples:
        return Signature(STEP, _names(len(examples[0].args)))
    if not subtask.depends_on:
        return Signature(STEP, entry_point(task).values)
    return Signature(STEP, _names(len(subtask.depends_on)))


def _names(count: int) -> tuple[str, ...]:
    return ("x",) if count == 1 else tuple(string.ascii_lowercase[:count])


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
                (outer,) = parse_python(f"def {function}(*args, **kwargs): return {piece.name}(*args, **kwargs)").body
                assert isinstance(outer, ast.FunctionDef)
                outer.body = [*_body(piece.source), *outer.body]
                text = ast.unparse(outer)
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


_ALIAS = re.compile(rf"(.*\n)\s*{STEP} = (\w+)\s*", re.DOTALL)
"""A source whose function is called otherwise, as `tasks.program_source.named` leaves it."""


def assemble(task: Task, workflow: Workflow, outputs: Mapping[str, str], kind: Literal["dataflow", "sink"]) -> str:
    """The final answer: a program, or where the task wants a text, whatever `kind`, the text of the last sink.

    `sink`: the answer of the last sink, below the task's imports and signature if the suite gives them, so that an
    import that the answer leaves out is there (BigCodeBench calls such scores calibrated). `dataflow`: a program that
    defines `task.entry_point`, in which each subtask is a function and each edge an argument: roots get the task's
    parameters, the others their parents' values in the order of `depends_on`, and whatever of the task's parameters
    their functions require by name after these; the value of the last sink is returned. Subtasks that the last sink
    does not need are left out.
    The only subtask of a workflow answers for the whole task: its source is the program.

    Args:
        outputs: output of each subtask by id; a missing or broken one fails when the program calls it.
    """
    last = workflow.answering()
    answer = outputs.get(last, "")
    if not task.wants_program:
        return answer
    if kind == "sink" and task.code_prompt and answer:
        return put_above(f"{task.code_prompt.rstrip()}\n    pass\n\n", unfenced(answer, task.entry_point))
    if kind == "sink" or len(workflow) == 1:
        return answer
    return _compose(task, workflow, outputs, last)


def assemble_part(task: Task, workflow: Workflow, outputs: Mapping[str, str], kind: Literal["dataflow", "sink"]) -> str:
    """The answer that those subtasks give which have outputs: that of the last of them; empty without any."""
    done = [subtask.id for subtask in workflow.order() if subtask.id in outputs]
    if not done:
        return ""
    if hands_on_texts(task, kind) or len(workflow) == 1:
        return outputs[done[-1]]
    return _compose(task, workflow, outputs, done[-1])


def hands_on_texts(task: Task, kind: Literal["dataflow", "sink"]) -> bool:
    """Whether workers read what the steps before theirs gave, instead of writing functions that are called with it."""
    return kind == "sink" or not task.wants_program


def _compose(task: Task, workflow: Workflow, outputs: Mapping[str, str], last: str) -> str:
    entry = entry_point(task)
    needed = workflow.needed_for(last)
    number = {subtask.id: i for i, subtask in enumerate(workflow.subtasks, start=1)}
    steps = [subtask for subtask in workflow.order() if subtask.id in needed]
    arguments = {
        subtask.id: _arguments(subtask, number, entry.values, outputs.get(subtask.id, "")) for subtask in steps
    }
    uses = Counter(value for values in arguments.values() for value in values.values())
    shared = any(count > 1 for count in uses.values())

    values = [f"value_{number[step.id]}" for step in steps]
    head = "\n".join(filter(None, [entry.preamble, "from copy import deepcopy" if shared else ""]))
    reserved = {task.entry_point, *values, *re.findall(r"\w+", entry.arguments)}
    pieces = [_piece(step, outputs.get(step.id, ""), number[step.id]) for step in steps]
    program, functions = merge(head, pieces, reserved)
    calls = []
    for step, function in zip(steps, functions, strict=True):
        given = ", ".join(
            f"{name}=" * isinstance(name, str)
            + (
                (f"*deepcopy({value[1:]})" if value.startswith("*") else f"deepcopy({value})")
                if uses[value] > 1
                else value
            )
            for name, value in arguments[step.id].items()
        )
        calls.append(f"{function}({given})")
    lines = [f"{value} = {call}" for value, call in zip(values[:-1], calls, strict=False)]
    body = "\n    ".join([*lines, f"return {calls[-1]}"])
    return f"{program}\n\n\ndef {task.entry_point}({entry.arguments}):\n    {body}\n"


def _piece(step: Subtask, source: str, number: int) -> Piece:
    """A step's source, whose function keeps the name that the worker has given it."""
    title = " ".join(step.instruction.split())
    if (alias := _ALIAS.fullmatch(source)) and not re.search(rf"\b{STEP}\b", alias[1]):
        return Piece(alias[1], alias[2], alias[2], title)
    return Piece(source, STEP, f"{STEP}_{number}", title)


def _arguments(subtask: Subtask, number: Mapping[str, int], given: Sequence[str], source: str) -> dict[int | str, str]:
    """What a step is called with, by the place or the name of its parameter."""
    if not subtask.depends_on:
        return dict(enumerate(given))
    values = [f"value_{number[parent]}" for parent in subtask.depends_on]
    required = _required(source)
    more = len(required) - len(values)
    named = [name for name in required if name in given][-more:] if more > 0 else []
    if len(named) < max(more, 1):
        return dict(enumerate(values))
    others = [name for name in required if name not in named]
    return {**dict(zip(others, values, strict=True)), **{name: name for name in named}}


def _required(source: str) -> list[str]:
    """Names of the parameters without a default of the function `step` in a worker's source, if there is one."""
    try:
        body = parse_python(source).body
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return []
    for node in reversed(body):
        if isinstance(node, ast.FunctionDef) and node.name == STEP and not node.args.posonlyargs:
            arguments = node.args
            plain = arguments.args[: len(arguments.args) - len(arguments.defaults)]
            only = [
                each for each, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if not default
            ]
            return [each.arg for each in (*plain, *only)]
    return []
