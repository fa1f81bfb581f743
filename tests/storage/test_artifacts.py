"""An artifact is whole or absent: an interrupted or impossible write must leave what was there before."""

import json
import os

import pytest

from orchestai.storage.artifacts import fingerprint, replacing, write_json


def test_a_failure_half_way_keeps_the_old_file_and_leaves_nothing_behind(tmp_path):
    path = tmp_path / "result.json"
    write_json(path, {"old": 1})
    with pytest.raises(RuntimeError), replacing(path) as file:
        file.write(b"{")
        raise RuntimeError
    assert json.loads(path.read_text()) == {"old": 1}
    assert os.listdir(tmp_path) == ["result.json"]


def test_nan_is_not_json(tmp_path):
    with pytest.raises(ValueError, match="JSON"):
        write_json(tmp_path / "x.json", {"reward": float("nan")})


def test_fingerprints_ignore_key_order_and_see_values():
    assert fingerprint({"a": 1, "b": 2}) == fingerprint({"b": 2, "a": 1}) != fingerprint({"a": 1, "b": 3})
