"""What a language model read of given steps is found again by a later process, and by what it depends on alone."""

from __future__ import annotations

import pytest
import torch

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
