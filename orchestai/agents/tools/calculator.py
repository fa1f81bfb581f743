"""Arithmetic as a tool."""

from __future__ import annotations

from typing import Any

from orchestai.workers.tools.calculator import calculate


class Calculator:
    """Works out an expression; nothing but numbers, brackets and + - * / // % ** is known."""

    name = "calculator"
    description = "Works out an arithmetic expression, such as (3 + 4) * 2 ** 5."
    parameters: dict[str, Any] = {  # noqa: RUF012
        "type": "object",
        "properties": {"expression": {"type": "string", "description": "The expression."}},
        "required": ["expression"],
    }

    async def __call__(self, expression: str) -> str:
        return str(calculate(expression))
