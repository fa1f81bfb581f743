"""Things of the tests as the program sees them in `shared` isolation: stand-ins that ask the tests' process."""

from __future__ import annotations

import importlib
import sys
from collections import namedtuple
from collections.abc import Callable
from typing import Any

Ask = Callable[..., Any]
"""(operation, stand-in, *arguments, **keyword arguments) -> what the tests' process says; raises what it raised."""


def from_tests(number: int, facts: dict[str, Any]) -> Any:
    """Marks in a pickle what `Imports.stand_in` stands in for."""
    raise RuntimeError(f"thing {number} of the tests, {facts}, outside of a request")


def make_named_tuple(name: str, fields: tuple[str, ...], values: tuple[Any, ...]) -> Any:
    """A named tuple whose class only the tests have."""
    return namedtuple(name, fields)(*values)  # type: ignore[misc]


def named_module(name: str) -> Any:
    return importlib.import_module(name)


class Imports:
    """In the program's process: stand-ins for things of the tests, one for each."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._stand_ins: dict[int, Any] = {}
        self._numbers: dict[int, int] = {}

    def number(self, value: Any) -> int | None:
        """The number of the thing that `value` stands in for; None if it does not."""
        return self._numbers.get(id(value))

    def stand_in(self, number: int, facts: dict[str, Any]) -> Any:
        if number not in self._stand_ins:
            made = self._function(facts) if facts["kind"] == "function" else self._object(facts)
            self._stand_ins[number] = made
            self._numbers[id(made)] = number
        return self._stand_ins[number]

    def _function(self, facts: dict[str, Any]) -> Any:
        ask = self._ask

        def function(*args: Any, **kwargs: Any) -> Any:
            return ask("special", function, "__call__", *args, **kwargs)

        function.__name__ = function.__qualname__ = facts["name"]
        function.__doc__ = facts["doc"]
        if "parameters" in facts:
            annotations = function.__annotations__ = facts["annotations"]
            function.__signature__ = _signature(facts["parameters"], annotations)  # type: ignore[attr-defined]
        return function

    def _object(self, facts: dict[str, Any]) -> Any:
        members: dict[str, Any] = {name: _special(self._ask, name) for name in facts.get("special", ("__call__",))}
        members |= {"__hash__": object.__hash__, "_ask": staticmethod(self._ask)}
        if facts.get("class") and (cls := _library_class(*facts["class"])) is not None:
            members["__class__"] = property(lambda _: cls)
        made = type(facts["name"], (_StandIn,), members)()
        if facts["kind"] == "class":
            object.__setattr__(made, "__name__", facts["name"])
        return made


class _StandIn:
    _ask: Ask

    def __getattr__(self, name: str) -> Any:
        return self._ask("get", self, name)

    def __setattr__(self, name: str, value: Any) -> None:
        self._ask("set", self, name, value)


def _signature(parameters: list[tuple[str, int, Any, bool]], annotations: dict[str, Any]) -> Any:
    import inspect  # heavy, and seldom needed

    empty, kinds = inspect.Parameter.empty, list(inspect._ParameterKind)
    return inspect.Signature(
        [
            inspect.Parameter(
                name, kinds[kind], default=default if has else empty, annotation=annotations.get(name, empty)
            )
            for name, kind, default, has in parameters
        ],
        return_annotation=annotations.get("return", empty),
    )


def _special(ask: Ask, name: str) -> Callable[..., Any]:
    def method(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        if name == "__exit__":
            args = (None, args[1], None)
        return ask("special", self, name, *args, **kwargs)

    return method


def _library_class(module: str, name: str) -> Any:
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return found if isinstance(found, type) else None
