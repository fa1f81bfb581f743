"""Texts with gaps that a request fills."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import fields

from jinja2 import StrictUndefined, TemplateError
from jinja2.meta import find_referenced_templates, find_undeclared_variables
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment

from orchestai.errors import UserError
from orchestai.plugins import did_you_mean
from orchestai.workers.base import Request, WorkerError

_GAPS = (*(field.name for field in fields(Request)), "text")
_ENVIRONMENT = ImmutableSandboxedEnvironment(undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)


class RequestTemplate:
    """A Jinja2 template over the fields of a request, and over its `text`, in Jinja's sandbox.

    Args:
        where: what the template is, in messages.

    Raises:
        UserError: it is no template, or names something else.
    """

    def __init__(self, source: str, where: str) -> None:
        self._where = where
        try:
            tree = _ENVIRONMENT.parse(source)
            unknown = find_undeclared_variables(tree) - {*_GAPS, *_ENVIRONMENT.globals}
            others = list(find_referenced_templates(tree))
            self._template = _ENVIRONMENT.from_string(source)
        except TemplateError as error:
            line = f" (line {lineno})" if (lineno := getattr(error, "lineno", None)) else ""
            raise UserError(f"{where}: not a Jinja2 template: {error}{line}") from error
        if others:
            raise UserError(f"{where}: a template must stand alone, without include, import and extends")
        if unknown:
            name = min(unknown)
            raise UserError(
                f"{where}: a request has no {name!r}; a template may name {', '.join(_GAPS)}{did_you_mean(name, _GAPS)}"
            )

    @property
    def sections(self) -> frozenset[str]:
        """Names of the blocks."""
        return frozenset(self._template.blocks)

    def render(self, request: Request) -> str:
        """The text for one request.

        Raises:
            WorkerError: the template does something with it that cannot be done.
        """
        return self._filled(request, self._template.root_render_func)

    def render_sections(self, request: Request) -> dict[str, str]:
        """The text of each block by name, without white space around it; of a template without blocks, as `user`.

        Raises:
            WorkerError: as `render` says.
        """
        blocks = self._template.blocks or {"user": self._template.root_render_func}
        return {name: self._filled(request, block).strip() for name, block in blocks.items()}

    def _filled(self, request: Request, render: Callable[[Context], Iterable[str]]) -> str:
        gaps = {name: getattr(request, name) for name in _GAPS}
        try:
            return "".join(render(self._template.new_context(gaps)))
        except Exception as error:  # whatever the template computes
            raise WorkerError(f"{self._where}: {type(error).__name__}: {error}") from error
