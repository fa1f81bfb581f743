"""The decode loop gives what each prompt would give alone, however it is batched."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from orchestai.lm.text_generation import Decoder, PrefixStore, Reply, Row, common_start
from support.models.language_model import tiny_model, tiny_tokenizer

PREFIX = "Worked examples that every prompt begins with. "
PROMPTS = ("a", "sort it", PREFIX + "reverse", PREFIX + "count the vowels of the text", PREFIX + "x", "sort it")


def row(text: str, temperature: float = 0.0, tokens: int = 24, stop: tuple[str, ...] = (), seed: int = 7) -> Row:
    return Row(tuple(tiny_tokenizer()(text).input_ids), temperature, tokens, stop, seed)


def decode(decoder: Decoder, rows: list[Row]) -> list[Reply]:
    replies: dict[int, Reply] = {}
    decoder.decode(rows, replies.__setitem__)
    return [replies[i] for i in range(len(rows))]


@pytest.fixture(scope="module")
def decoder() -> Decoder:
    return Decoder(tiny_model(), tiny_tokenizer())


def test_greedy_replies_are_those_of_transformers_generate(decoder: Decoder) -> None:
    """The loop is our own; the library's is the oracle. Prompts of many lengths, some equal, some sharing a prefix."""
    model, tokenizer = tiny_model(), tiny_tokenizer()
    replies = decode(decoder, [row(prompt) for prompt in PROMPTS])
    for prompt, reply in zip(PROMPTS, replies, strict=True):
        ids = tokenizer(prompt, return_tensors="pt").input_ids
        whole = model.generate(ids, max_new_tokens=24, do_sample=False, pad_token_id=0)  # type: ignore[misc]
        assert reply.text == tokenizer.decode(whole[0, ids.shape[1] :], skip_special_tokens=True)


def test_a_sampled_reply_does_not_depend_on_its_neighbours(decoder: Decoder) -> None:
    rows = [row(prompt, temperature=0.7, seed=i) for i, prompt in enumerate(PROMPTS)]
    together = decode(decoder, rows)
    backwards = decode(decoder, rows[::-1])[::-1]
    alone = [decode(decoder, [one])[0] for one in rows]
    assert [reply.text for reply in together] == [reply.text for reply in backwards] == [reply.text for reply in alone]
    assert together[1].text != together[5].text, "equal prompts with other seeds differ"


def test_sampling_follows_the_distribution(decoder: Decoder) -> None:
    """First tokens of many seeds against the model's own softmax: a known answer for inverse sampling."""
    ids = torch.tensor([tiny_tokenizer()("a").input_ids])
    expected = torch.softmax(tiny_model()(ids).logits[0, -1].detach().double() / 2.0, dim=-1)
    drawn = torch.zeros(257, dtype=torch.float64)
    rows = [row("a", temperature=2.0, tokens=1, seed=seed) for seed in range(3000)]

    class Counting(Decoder):
        def _report(self, active, rows, began, finished):  # type: ignore[no-untyped-def]
            for state in active:
                drawn[state.written[0]] += 1
            return super()._report(active, rows, began, finished)

    decode(Counting(tiny_model(), tiny_tokenizer()), rows)
    assert (drawn / len(rows) - expected).abs().max() < 0.03


def test_a_kept_prefix_changes_nothing() -> None:
    fresh, warm = Decoder(tiny_model(), tiny_tokenizer()), Decoder(tiny_model(), tiny_tokenizer(), kept_prefixes=2)
    for prompts in (PROMPTS[2:4], PROMPTS[3:5], ("other", "others"), PROMPTS[2:5]):
        rows = [row(prompt) for prompt in prompts]
        fresh.forget()
        assert [reply.text for reply in decode(warm, rows)] == [reply.text for reply in decode(fresh, rows)]


def test_worked_examples_are_read_once_for_all_processes(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """What one decoder has read another finds on the disk; not so with other weights, or in a file that is broken."""
    prompts = [row("example " * 40 + question) for question in ("first", "second")]
    beginning = common_start([prompt.prompt for prompt in prompts])
    prompts = [replace(prompt, beginning=beginning) for prompt in prompts]

    def replies(prompt: Row, seed: int = 0) -> tuple[list[str], int]:
        model = tiny_model()
        model.lm_head.weight.data += seed
        read = 0

        def count(module: object, given: object, options: dict[str, torch.Tensor]) -> None:
            nonlocal read
            read += options["input_ids"].shape[1]

        model.register_forward_pre_hook(count, with_kwargs=True)
        decoder = Decoder(model, tiny_tokenizer(), store=PrefixStore(tmp_path, model))
        return [reply.text for reply in decode(decoder, [prompt])], read

    for prompt in prompts:
        expected = [reply.text for reply in decode(Decoder(tiny_model(), tiny_tokenizer()), [prompt])]
        assert replies(prompt)[0] == expected
    file = list(tmp_path.iterdir())
    assert len(file) == 1
    assert replies(prompts[0])[1] < beginning < replies(prompts[0], seed=1)[1]
    assert len(list(tmp_path.iterdir())) == 2
    file[0].write_bytes(file[0].read_bytes()[:1000])
    assert replies(prompts[0])[1] > beginning
    assert "made anew" in caplog.text
    assert replies(prompts[0])[1] < beginning


def test_replies_end_at_stop_strings_limits_and_end_tokens(decoder: Decoder) -> None:
    (free,) = decode(decoder, [row("sort it", tokens=40)])
    stop = free.text[8:10]
    stopped, short = decode(decoder, [row("sort it", tokens=40, stop=("never", stop)), row("sort it", tokens=3)])
    assert stopped.text == free.text[: free.text.index(stop)]
    assert 3 == short.tokens < stopped.tokens < free.tokens
    assert free.text.startswith(short.text)
    assert stopped.elapsed_ms > short.elapsed_ms, "a row's time ends when it leaves"

    ending = tiny_model()
    ending.lm_head.weight.data.zero_()  # all logits are equal: the first token, which is the end, is the likeliest
    (ended,) = decode(Decoder(ending, tiny_tokenizer()), [row("a")])
    assert (ended.text, ended.tokens) == ("", 1)
    assert [reply.truncated for reply in (free, short, stopped, ended)] == [True, True, False, False]
