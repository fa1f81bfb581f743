"""What a language model read of given steps is found again by a later process, and by what it depends on alone."""

from __future__ import annotations

import logging

import pytest
import torch
from transformers import LlamaForCausalLM

from orchestai.planner.slots.encoders.step_encoder import StepEncoder
from orchestai.storage.byte_store import ByteStore
from support.models.language_model import save_tiny_model

TEXT = "Make tea\nStep 1. Boil water\nStep 2. Take a cup"
SPANS = [(17, 27), (36, 46)]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return save_tiny_model(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="module")
def unstored(model, tmp_path_factory):
    return StepEncoder(str(model), 2, tmp_path_factory.mktemp("cache")).read(TEXT, SPANS)


@pytest.fixture
def opened(model, tmp_path):
    """Opens the store in `tmp_path` as a new process does."""

    def opened(layer: int = 2, name: str = str(model), folder: str = "steps") -> StepEncoder:
        return StepEncoder(name, layer, tmp_path, ByteStore(tmp_path / folder, 1 << 30))

    return opened


def calls_of_the_model(encoder: StepEncoder) -> list[int]:
    """Grows by one with each time that the language model runs."""
    calls: list[int] = []
    encoder._model.register_forward_hook(lambda *_: calls.append(1))
    return calls


def files(folder):
    return [path for path in folder.rglob("*") if path.is_file()]


def test_the_same_content_is_not_read_again(opened, unstored):
    assert torch.equal(opened().read(TEXT, SPANS), unstored)
    later = opened()
    calls = calls_of_the_model(later)
    assert torch.equal(later.read(TEXT, SPANS), unstored)
    assert not calls


@pytest.mark.parametrize(
    ("layer", "text", "spans"),
    [(2, TEXT, SPANS[:1]), (2, TEXT.replace("cup", "mug"), SPANS), (1, TEXT, SPANS)],
    ids=["other steps", "another text", "another layer"],
)
def test_what_was_read_of_something_else_is_not_taken(opened, layer, text, spans):
    opened().read(TEXT, SPANS)
    later = opened(layer)
    calls = calls_of_the_model(later)
    later.read(text, spans)
    assert len(calls) == 1


@pytest.mark.parametrize("what", ["weights", "configuration"])
def test_what_another_model_read_is_not_taken(opened, model, tmp_path, what):
    opened().read(TEXT, SPANS)
    other = save_tiny_model(tmp_path / "other")
    changed = LlamaForCausalLM.from_pretrained(other)
    if what == "weights":
        changed.model.layers[0].mlp.up_proj.weight.data[-1, -1] += 1
    else:
        changed.config.rms_norm_eps = 1e-3
    changed.save_pretrained(other)
    later = opened(name=str(other))
    calls = calls_of_the_model(later)
    later.read(TEXT, SPANS)
    assert len(calls) == 1


def test_a_damaged_file_is_read_anew_and_mended(opened, unstored, tmp_path):
    opened().read(TEXT, SPANS)
    [path] = files(tmp_path / "steps")
    whole = path.read_bytes()
    path.write_bytes(whole[:-2] + b"??")
    assert torch.equal(opened().read(TEXT, SPANS), unstored)
    assert path.read_bytes() == whole


def test_steps_that_cannot_be_read_leave_nothing_behind(opened, tmp_path):
    with pytest.raises(ValueError, match="step 2"):
        opened().read("a  b", [(0, 1), (1, 2)])
    assert not files(tmp_path)


def test_a_folder_that_cannot_be_written_is_said_once_and_costs_nothing_else(opened, unstored, tmp_path, caplog):
    (tmp_path / "file").write_text("")
    encoder = opened(folder="file")
    with caplog.at_level(logging.WARNING, "orchestai.planner"):
        assert torch.equal(encoder.read(TEXT, SPANS), unstored)
        encoder.read(TEXT, SPANS[:1])
    assert len([record for record in caplog.records if record.name.startswith("orchestai.planner")]) == 1
