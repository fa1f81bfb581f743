"""Optimiser steps of GRPO by one side, ours or TRL's, in a process of its own that loads nothing but what it needs.

    python benchmarks/grpo_sides.py SIDE MODEL PROMPT_TOKENS COMPLETION_TOKENS STEPS | tail -1 > figures.json

One prompt, `GROUP` completions of exactly COMPLETION_TOKENS (no token ends one), random rewards, one update by AdamW,
float32. The first step does not count. `grpo.py` compares the sides:

- ours: `CausalPolicy`.
- trl: `GRPOTrainer`, its lm_head on the completions' positions only, as it does on GPUs.
- trl stock: `GRPOTrainer` as it comes, which in later versions has its lm_head on every position if there is no GPU.
"""

from __future__ import annotations

import json
import resource
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import torch
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedModel

from orchestai.config import ModelConfig
from orchestai.lm import weights
from orchestai.lm.causal import CausalPolicy

SIDES = ("ours", "trl", "trl stock")
GROUP = 8
LEARNING_RATE = 1e-6
CLIP = 0.2
MAX_GRADIENT_NORM = 1.0


@dataclass
class Figures:
    """Seconds of each step and of the sampling in it, by the clock and of CPU time; the process's peak memory."""

    seconds: list[float] = field(default_factory=list)
    cpu_s: list[float] = field(default_factory=list)
    sampling_s: list[float] = field(default_factory=list)
    sampling_cpu_s: list[float] = field(default_factory=list)
    peak_mb: float = 0.0


class Clock:
    """Seconds by the clock and of CPU time, in blocks."""

    def __init__(self) -> None:
        self.blocks: list[tuple[float, float]] = []

    @contextmanager
    def block(self) -> Iterator[None]:
        started, cpu = time.perf_counter(), time.process_time()
        yield
        self.blocks.append((time.perf_counter() - started, time.process_time() - cpu))


def main() -> None:
    side, model, *numbers = sys.argv[1:]
    prompt, completion, steps = map(int, numbers)
    run = run_ours if side == "ours" else run_trl
    figures = run(model_of(model), prompt, completion, steps, stock=side == "trl stock")
    figures.peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps(asdict(figures)))


def model_of(name: str) -> PreTrainedModel:
    """`tiny`, a random Llama of 10 million weights, or a model as in `workers.models`; float32 on the CPU."""
    if name != "tiny":
        config = ModelConfig(kind="huggingface", name=name, dtype="float32", device="cpu")
        return weights.load(config, Path(".cache/orchestai"), "model")[0]
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=8192,
        hidden_size=288,
        intermediate_size=768,
        num_hidden_layers=6,
        num_attention_heads=6,
        num_key_value_heads=2,
        max_position_embeddings=4096,
    )
    return LlamaForCausalLM(config)


def words_of(model: PreTrainedModel, tokens: int) -> list[int]:
    return Random(0).choices(range(1000, model.config.vocab_size), k=tokens)


def run_ours(model: PreTrainedModel, prompt: int, completion: int, steps: int, stock: bool) -> Figures:
    policy = CausalPolicy(model, end_ids=frozenset())
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, weight_decay=0.0)
    prompts = [torch.tensor(words_of(model, prompt))] * GROUP
    figures, sampling, whole = Figures(), Clock(), Clock()
    for step in range(steps + 1):
        with whole.block():
            with sampling.block():
                seeds = [step * GROUP + row for row in range(GROUP)]
                written = policy.sample(prompts, seeds, temperature=1.0, max_new_tokens=completion)
            advantages = group_advantages(step)
            scores = policy.score(prompts, [row.ids for row in written], temperature=1.0)
            ratio = (scores.logp - scores.logp.detach()).exp()
            gain = torch.minimum(ratio * advantages, ratio.clamp(1 - CLIP, 1 + CLIP) * advantages)
            loss = -((gain * scores.mask).sum(1) / scores.mask.sum(1)).mean()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), MAX_GRADIENT_NORM)
            optimizer.step()
            optimizer.zero_grad()
    assert all(len(row.ids) == completion for row in written)
    return finish(figures, whole, sampling)


def group_advantages(step: int) -> torch.Tensor:
    rewards = torch.tensor(random_rewards(step))
    return ((rewards - rewards.mean()) / (rewards.std() + 1e-4))[:, None]


def random_rewards(step: int) -> list[float]:
    return [Random(step * GROUP + row).random() for row in range(GROUP)]


def run_trl(model: PreTrainedModel, prompt: int, completion: int, steps: int, stock: bool) -> Figures:
    import trl.trainer.utils
    from datasets import Dataset
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast, TrainerCallback
    from trl import GRPOConfig, GRPOTrainer

    if not stock and hasattr(trl.trainer.utils, "_use_triton"):
        trl.trainer.utils._use_triton = lambda device: True  # asked there only to choose which positions are scored

    figures, sampling, whole = Figures(), Clock(), Clock()

    class Timed(GRPOTrainer):
        def _generate(self, *args: Any, **kwargs: Any) -> Any:
            with sampling.block():
                return super()._generate(*args, **kwargs)

    class Steps(TrainerCallback):
        def on_step_begin(self, *args: Any, **kwargs: Any) -> None:
            self.step = whole.block()
            self.step.__enter__()

        def on_step_end(self, *args: Any, **kwargs: Any) -> None:
            self.step.__exit__(None, None, None)

    vocabulary = {str(i): i for i in range(model.config.vocab_size)}
    plain = Tokenizer(models.WordLevel(vocab=vocabulary, unk_token="0"))
    plain.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=plain, eos_token="<never>", pad_token="<never>")

    def reward(completion_ids: Sequence[Sequence[int]], **_: Any) -> list[float]:
        assert all(len(ids) == completion for ids in completion_ids)
        return random_rewards(len(whole.blocks))

    model.generation_config.eos_token_id = None  # type: ignore[union-attr]
    with tempfile.TemporaryDirectory() as folder:
        config = GRPOConfig(
            output_dir=folder,
            use_cpu=True,
            bf16=False,
            fp16=False,
            gradient_checkpointing=False,
            per_device_train_batch_size=GROUP,
            gradient_accumulation_steps=1,
            steps_per_generation=1,
            num_iterations=1,
            num_generations=GROUP,
            max_completion_length=completion,
            max_steps=steps + 1,
            temperature=1.0,
            top_p=1.0,
            top_k=0,
            min_p=None,
            repetition_penalty=1.0,
            use_vllm=False,
            beta=0.0,
            epsilon=CLIP,
            delta=None,
            loss_type="grpo",
            scale_rewards="group",
            importance_sampling_level="token",
            mask_truncated_completions=False,
            top_entropy_quantile=1.0,
            disable_dropout=True,
            shuffle_dataset=False,
            learning_rate=LEARNING_RATE,
            lr_scheduler_type="constant",
            weight_decay=0.0,
            optim="adamw_torch",
            max_grad_norm=MAX_GRADIENT_NORM,
            dataloader_num_workers=0,
            log_completions=False,
            logging_strategy="no",
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
        )
        trainer = Timed(
            model=model,
            reward_funcs=reward,
            args=config,
            train_dataset=Dataset.from_list([{"prompt": " ".join(map(str, words_of(model, prompt)))}] * (steps + 1)),
            processing_class=tokenizer,
            callbacks=[Steps()],
        )
        trainer.train()
    return finish(figures, whole, sampling)


def finish(figures: Figures, whole: Clock, sampling: Clock) -> Figures:
    """Without the first step, which loads, allocates and warms up."""
    figures.seconds, figures.cpu_s = map(list, zip(*whole.blocks[1:], strict=True))
    figures.sampling_s, figures.sampling_cpu_s = map(list, zip(*sampling.blocks[1:], strict=True))
    return figures


if __name__ == "__main__":
    main()
