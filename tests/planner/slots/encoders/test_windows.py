"""An instruction may be longer than the encoder takes at once: it is read in windows, word for word."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast, RobertaConfig, RobertaModel

from orchestai.planner.slots.encoders.encoder import TextEncoder, UnreadableTextError, _windows

STEP = "sort the list, then take its first item and double it; "


@pytest.fixture(scope="module")
def encoder() -> TextEncoder:
    return TextEncoder("minilm", 2000, 3)


@given(length=st.integers(1, 3000), size=st.integers(16, 512))
def test_windows_cover_a_text_and_see_what_is_around_their_part(length: int, size: int) -> None:
    starts, cuts = _windows(length, size)
    assert cuts[0] == 0
    assert cuts[-1] == length
    assert cuts == sorted(set(cuts)), "no part is empty, and each begins where the one before ends"
    if length <= size:
        assert starts == [0]
        return
    assert starts[-1] == length - size, "all windows are whole"
    around = size // 6 - 1
    for start, begin, end in zip(starts, cuts, cuts[1:], strict=False):
        assert begin - start >= (around if begin else 0)
        assert start + size - end >= (around if end < length else 0)


def test_a_text_may_be_longer_than_the_encoder_takes(encoder: TextEncoder) -> None:
    text = STEP * 90
    read = encoder.encode(text)
    assert len(read) > 1000
    assert "".join(text[a:b] for a, b in read.offsets.tolist()) == text.replace(" ", "")
    assert np.isfinite(read.features).all()


def test_a_step_far_behind_means_what_it_means_in_a_short_text(encoder: TextEncoder) -> None:
    near, far = (unit(encoder.encode(STEP * times).meanings[-26:-13].astype(np.float32)) for times in (12, 90))
    assert (near * far).sum(-1).mean() > 0.7


def unit(rows: np.ndarray) -> np.ndarray:
    return rows / np.linalg.norm(rows, axis=-1, keepdims=True)


def test_an_encoder_that_counts_positions_from_behind_padding_takes_two_tokens_less(tmp_path) -> None:
    """RoBERTa's kind has 66 positions for 64 tokens; a longer text ended in an index error."""
    words = Tokenizer(models.WordLevel({"<s>": 0, "<pad>": 1, "</s>": 2, "<unk>": 3, "sort": 4}, unk_token="<unk>"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    words.post_processor = processors.TemplateProcessing(single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)])
    PreTrainedTokenizerFast(tokenizer_object=words, pad_token="<pad>", unk_token="<unk>").save_pretrained(tmp_path)
    sizes = {"vocab_size": 5, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
    roberta = RobertaConfig(**sizes, intermediate_size=64, max_position_embeddings=66, pad_token_id=1)
    RobertaModel(roberta).save_pretrained(tmp_path)
    encoder = TextEncoder(str(tmp_path), 500, 1)
    for length in (61, 62, 63, 64, 200):
        assert len(encoder.encode("sort " * length)) == length
    RobertaModel(roberta, add_pooling_layer=False).save_pretrained(tmp_path)
    one, again = (TextEncoder(str(tmp_path), 500, 1) for _ in range(2))
    assert one.fingerprint == again.fingerprint, "the pooler that such files lack is another one each time"


def test_half_of_a_surrogate_pair_cannot_be_read(encoder: TextEncoder) -> None:
    with pytest.raises(UnreadableTextError, match="half of a surrogate pair"):
        encoder.encode("sort \ud83d it")
