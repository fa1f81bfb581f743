"""A browser on this machine lets pages from elsewhere ask servers on it: they would spend for them, or run programs."""

from __future__ import annotations

import pytest

from orchestai.serving.api.caller import refuse_web_pages
from orchestai.serving.api.errors import ApiError


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"host": "localhost:8080"},
        {"host": "127.0.0.1:8080", "origin": "http://localhost:3000"},
        {"host": "[::1]:8080", "origin": "http://[::1]:3000"},
        {"host": "host.docker.internal:8080"},
        {"host": "desk"},
    ],
)
def test_programs_of_this_machine_are_let_in(headers: dict[str, str]) -> None:
    refuse_web_pages(headers)


@pytest.mark.parametrize(
    ("headers", "named"),
    [
        ({"host": "localhost:8080", "origin": "https://elsewhere.example"}, "Origin: https://elsewhere.example"),
        ({"host": "localhost:8080", "origin": "null"}, "Origin: null"),
        ({"host": "localhost:8080", "origin": "http://localhost.elsewhere.example"}, "Origin"),
        ({"host": "localhost:8080", "origin": "http://[oddly"}, "Origin"),
        ({"host": "rebound.example:8080"}, "Host: rebound.example:8080"),
    ],
)
def test_pages_from_elsewhere_are_not(headers: dict[str, str], named: str) -> None:
    with pytest.raises(ApiError) as refused:
        refuse_web_pages(headers)
    assert (refused.value.status, refused.value.code) == (403, "foreign_page")
    assert refused.value.message.startswith(named)
