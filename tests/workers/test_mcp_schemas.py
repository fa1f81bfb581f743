"""Schemas of MCP tools, as servers write them."""

from __future__ import annotations

from typing import Any

import pytest

from orchestai.workers.kinds.mcp import read_schema, readable_result

TEXT = {"type": "string"}
TYPES: dict[str, tuple[Any, set[str]]] = {
    "text": (TEXT, {"string"}),
    "nullable": ({"type": ["string", "null"]}, {"string"}),
    "optional": ({"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None}, {"integer"}),
    "one of": ({"oneOf": [TEXT, {"type": "number"}]}, {"string", "number"}),
    "anything": (True, set()),
    "reference": ({"$ref": "#/%24defs/Q"}, {"string"}),
    "reference to a reference": ({"$ref": "#/$defs/R"}, {"string"}),
    "reference to itself": ({"$ref": "#/$defs/S"}, set()),
    "reference to itself among others": ({"$ref": "#/$defs/T"}, {"string", "array"}),
    "reference elsewhere": ({"$ref": "https://example.com/q.json"}, set()),
    "reference among others": ({"anyOf": [{"$ref": "#/$defs/Q"}, {"type": "null"}]}, {"string"}),
    "all of": ({"allOf": [TEXT, {"minLength": 1}]}, {"string"}),
    "one of some values": ({"enum": ["a", "b"]}, {"enum"}),
}
DEFINED = {"Q": TEXT, "R": {"$ref": "#/$defs/Q"}, "S": {"$ref": "#/$defs/S"}}
DEFINED["T"] = {"anyOf": [TEXT, {"type": "array"}, *[{"$ref": "#/$defs/T"}] * 3]}


def test_the_types_of_a_parameter() -> None:
    schemas = {
        case: {"type": "object", "properties": {"q": about}, "$defs": DEFINED} for case, (about, _) in TYPES.items()
    }
    found = {case: read_schema(schema)[0] for case, schema in schemas.items()}
    assert found == {case: {"q": frozenset(types)} for case, (_, types) in TYPES.items()}


PARAMETERS = [
    ({"type": "object"}, [], []),
    ({"properties": {}, "required": ["q"]}, ["q"], ["q"]),
    ({"properties": {"q": TEXT}, "required": ["q", "token"]}, ["q", "token"], ["q", "token"]),
    ({"allOf": [{"properties": {"q": TEXT}, "required": ["q"]}, {"properties": {"r": TEXT}}]}, ["q", "r"], ["q"]),
    ({"$ref": "#/$defs/I", "$defs": {"I": {"properties": {"q": TEXT}}}}, ["q"], []),
    (True, [], []),
    ({"properties": {"q": TEXT}, "required": "q"}, ["q"], []),
]


def test_the_parameters_of_a_tool() -> None:
    for schema, names, required in PARAMETERS:
        properties, needed = read_schema(schema)
        assert (list(properties), needed) == (names, required), schema


SAID = {"type": "text", "text": "it rises"}


RESULTS: list[tuple[dict[str, Any], list[str]]] = [
    ({"content": [SAID], "structuredContent": {"n": "three"}}, ["it rises"]),
    ({"content": [{"type": "video", "data": "x"}, SAID, None, "it"]}, ["it rises"]),
    ({"content": [{**SAID, "annotations": {"priority": 7}}]}, ["it rises"]),
    ({"structuredContent": {"n": 3}}, ['{"n": 3}']),
    ({"content": None, "structuredContent": [3]}, ["[3]"]),
    ({"content": [{"type": "resource", "resource": {"uri": "moon.md", "text": "a body"}}]}, ["a body"]),
    ({"content": [{"type": "resource_link", "uri": "./moon.md"}]}, ["./moon.md"]),
    ({"content": [{"type": "image", "data": "aGk="}, {"type": "text", "text": 7}]}, []),
    ({"content": "it rises"}, []),
    ({"content": {"type": "text", "text": "it rises"}}, []),
    ({"content": [{"type": "resource", "resource": None}, {"type": "resource_link"}, ["it"], 7]}, []),
]


def test_what_a_tool_gave_is_its_texts() -> None:
    for result, texts in RESULTS:
        readable_result(result)
        assert result == {"content": [{"type": "text", "text": text} for text in texts]}, texts


@pytest.mark.parametrize(
    ("schema", "read"),
    [
        ({"type": "object", "properties": {"q": TEXT}, "required": None}, {"properties": {"q": TEXT}}),
        ({"properties": None}, {}),
        ({"$ref": "#/$defs/I", "$defs": {"I": {}}}, {"$ref": "#/$defs/I", "$defs": {"I": {}}}),
        (None, {}),
        ({"type": "string"}, None),
    ],
)
def test_one_odd_tool_does_not_hide_the_others(schema: Any, read: dict[str, Any] | None) -> None:
    result = {"tools": [{"name": "odd", "inputSchema": schema, "outputSchema": {"type": 7}}, {"name": 7}, None, "x"]}
    readable_result(result)
    assert result["tools"] == ([] if read is None else [{"name": "odd", "inputSchema": {"type": "object", **read}}])
