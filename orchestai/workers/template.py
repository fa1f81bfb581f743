"""Texts with gaps that a request fills."""

from __future__ import annotations

from dataclasses import fields

from jinja2 import StrictUndefined, TemplateError
from jinja2.meta import find_undeclared_variables
from jinja2.sandbox import ImmutableSandboxedEnvironment

from orchestai.errors import UserError
from orchestai.names import did_you_mean
from orchestai.workers.base import Request, WorkerError

FIELDS = tuple(field.name for field in fields(Request))
_GAPS = (*FIELDS, "text")
_ENVIRONMENT = ImmutableSandboxedEnvironment(undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)


def request_text(request: Request) -> str:
    """The instruction followed by the texts of the parents, for what reads one text."""
    return "\n\n".join([request.instruction, *request.inputs.values()])


class RequestTemplate:
    """A Jinja2 template over the fields of a request, and over `text` (see `request_text`), in Jinja's sandbox.

    Args:
        where: what the template is, in messages.

    Raises:
        UserError: it is no template, or names something else.
    """

    def __init__(self, source: str, where: str) -> None:
        self._where = where
        try:
            unknown = find_undeclared_variables(_ENVIRONMENT.parse(source)) - {*_GAPS, *_ENVIRONMENT.globals}
            self._template = _ENVIRONMENT.from_string(source)
        except TemplateError as error:
            line = f" (line {lineno})" if (lineno := getattr(error, "lineno", None)) else ""
            raise UserError(f"{where}: not a Jinja2 template: {error}{line}") from error
        if unknown:
            name = min(unknown)
            raise UserError(
                f"{where}: a request has no {name!r}; a template may name {', '.join(_GAPS)}{did_you_mean(name, _GAPS)}"
            )

    def render(self, request: Request) -> str:
        """The text for one request.

        Raises:
            WorkerError: the template does something with it that cannot be done.
        """
        gaps = {name: getattr(request, name) for name in FIELDS} | {"text": request_text(request)}
        try:
            return self._template.render(gaps)
        except Exception as error:  # whatever the template computes
            raise WorkerError(f"{self._where}: {type(error).__name__}: {error}") from error
