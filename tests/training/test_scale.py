"""What `plan-run` says of memory and time is so where it can be counted, and moves as it must."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import peft
import pytest
import torch
from transformers import (
    GPT2Config,
    GPTNeoXConfig,
    LlamaConfig,
    LlamaForCausalLM,
    MambaConfig,
    MixtralConfig,
    PretrainedConfig,
)
from typer.testing import CliRunner

from orchestai.cli import app
from orchestai.config import LoraConfig
from orchestai.errors import UserError
from orchestai.training.scale import DEVICES, Learning, Shape, Update, memory_gb, saved_numbers, seconds
from support.repository import REPOSITORY

CONFIG = LlamaConfig(
    vocab_size=512,
    hidden_size=96,
    intermediate_size=256,
    num_hidden_layers=3,
    num_attention_heads=4,
    num_key_value_heads=2,
    head_dim=32,
    tie_word_embeddings=False,
)
SHAPE = Shape.of(CONFIG)
UPDATE = Update(64, 32, 128, 64, 4096, executions=64, execution_s=0.5, execution_slots=4)
WHOLE = Learning("nothing", 4)


def test_weights_are_counted_as_the_model_has_them() -> None:
    with torch.device("meta"):
        model = LlamaForCausalLM(CONFIG)
        norms = sum(weights.numel() for name, weights in model.named_parameters() if "norm" in name)
        assert SHAPE.parameters == model.num_parameters() - norms
    for targets in (("all-linear",), ("q_proj", "o_proj")):
        with torch.device("meta"):
            named = "all-linear" if targets == ("all-linear",) else [*targets]
            adapted = peft.get_peft_model(LlamaForCausalLM(CONFIG), peft.LoraConfig(r=8, target_modules=named))
        assert SHAPE.adapters(LoraConfig(rank=8, targets=targets)) == adapted.get_nb_trainable_parameters()[0]


@pytest.mark.parametrize("other", [GPT2Config(), GPTNeoXConfig(num_hidden_layers=2), MambaConfig(num_hidden_layers=2)])
def test_a_model_of_another_form_is_refused_in_words(other: PretrainedConfig) -> None:
    """Of one without gates a third too many weights were said."""
    with pytest.raises(ValueError, match=f"{other.model_type} has .* Llama, of which docs/scale.md has no model"):
        Shape.of(other)


def test_what_4_bits_8_bits_and_bfloat16_take_is_counted_where_it_is() -> None:
    """Embeddings stay as they are under 4 bits, and what learns whole in bfloat16 has gradients and moments in it."""
    lora = LoraConfig(rank=4)
    four = memory_gb(SHAPE, Learning("nothing", 2, in_4_bits=True, lora=lora), UPDATE)
    adapters = 4 * SHAPE.adapters(lora)
    assert four["weights"] * 1e9 == pytest.approx(0.55 * SHAPE.in_layers + 2 * SHAPE.tables + adapters)
    float32, bfloat16 = (memory_gb(SHAPE, Learning("nothing", size), UPDATE) for size in (4, 2))
    for part in ("weights", "gradients", "moments"):
        assert bfloat16[part] == pytest.approx(float32[part] / 2)
    eight = memory_gb(SHAPE, replace(WHOLE, in_8_bits=True), UPDATE)
    assert eight["moments"] == pytest.approx(float32["moments"] / 4, rel=0.02)


def test_frozen_weights_are_in_parts_too_where_a_layout_splits_weights() -> None:
    """A copy of the whole planner learns there, with what is under its adapters."""
    split = memory_gb(SHAPE, Learning("weights", 2, lora=LoraConfig(rank=4), processes=8), UPDATE)
    assert split["frozen weights, in parts"] * 1e9 == pytest.approx(2 * SHAPE.parameters / 8)


def test_a_mixture_of_experts_is_not_counted_as_one_of_them() -> None:
    """It would be said to fit into a fraction of its memory."""
    experts = MixtralConfig(hidden_size=96, intermediate_size=256, num_hidden_layers=3, num_local_experts=8)
    with pytest.raises(ValueError, match="mixture of experts"):
        Shape.of(experts)


def test_what_autograd_keeps_is_what_was_fitted() -> None:
    """A model that the fit has not seen, counted by autograd's own hooks."""
    model, kept = LlamaForCausalLM(CONFIG), {}
    weights = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            kept[storage.data_ptr()] = (tensor, storage.nbytes() // 4)
        return tensor

    tokens = torch.randint(1, 512, (4, 128))
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        loss = model(tokens, labels=tokens).loss
    counted = sum(numbers for _, numbers in kept.values())
    assert loss.requires_grad
    assert saved_numbers(SHAPE, tokens.numel()) == pytest.approx(counted, rel=0.1)


def test_seconds_of_models_that_the_fit_has_not_seen_were_about_those() -> None:
    """On a CPU, as `benchmarks/training/scale_seconds.py` measured them."""
    held_out = json.loads((REPOSITORY / "docs/results/scale_seconds.json").read_text())["held_out"]
    assert len(held_out) == 2
    for point in held_out:
        width = point["hidden"]
        shape = Shape(point["layers"], width, 3 * width, query_width=width, key_width=width, vocabulary=2048, tied=True)
        said = seconds(shape, WHOLE, Update(point["rows"], 8, 64, 32, 768, 0, 0.0, 1), DEVICES["cpu"])
        for stage in ("sampling", "learning"):
            assert said[stage] == pytest.approx(point[stage], rel=0.25), (point, stage)


def test_parts_of_what_learns_shrink_with_processes_and_what_samples_does_not() -> None:
    split = Learning("weights", 2, processes=8)
    one, eight = memory_gb(SHAPE, replace(split, processes=1), UPDATE), memory_gb(SHAPE, split, UPDATE)
    for part in ("gradients", "moments", "weights that learn, in parts"):
        assert eight[part] == pytest.approx(one[part] / 8)
    assert eight["weights"] == one["weights"]
    adapters = memory_gb(SHAPE, replace(WHOLE, lora=LoraConfig(rank=4), reference=True), UPDATE)
    assert "frozen copy" not in adapters
    assert adapters["moments"] < memory_gb(SHAPE, WHOLE, UPDATE)["moments"] / 10


def test_a_stage_takes_what_its_device_lets_it() -> None:
    device = DEVICES["cpu"]
    one, four = (seconds(SHAPE, replace(WHOLE, processes=n), UPDATE, device) for n in (1, 4))
    assert one["sync"] == 0 < four["sync"]
    assert four["learning"] == pytest.approx(one["learning"] / 4)
    assert one["execution"] == four["execution"] == 8.0
    floor = UPDATE.completion * device.token_s * SHAPE.layers
    assert four["sampling"] > floor, "more processes do not shorten a row"


def test_policies_that_learn_apart_and_engines_take_memory_of_their_own() -> None:
    one, three = (memory_gb(SHAPE, replace(WHOLE, policies=n), UPDATE) for n in (1, 3))
    for part in ("weights", "gradients", "moments"):
        assert three[part] == pytest.approx(3 * one[part])
    lora = LoraConfig(rank=4)
    adapters = memory_gb(SHAPE, replace(WHOLE, lora=lora, policies=3), UPDATE)
    alone = 3 * 4 * SHAPE.adapters(lora) / 1e9
    assert adapters["weights"] == pytest.approx(one["weights"] + alone), "they share what is frozen"
    assert memory_gb(SHAPE, replace(WHOLE, engine_gb=24.0), UPDATE).keys() >= {"engines of vLLM"}
    behind = memory_gb(SHAPE, replace(WHOLE, engine_gb=0.0), UPDATE)
    assert behind.keys() == one.keys() - {"keys and values"}


@pytest.mark.parametrize(
    ("words", "rows", "models", "whole"),
    [
        (["magrpo_arxiv.yaml", "model=tiny"], 2 * 8, 2, True),
        (["magrpo_arxiv_shared.yaml", "model=tiny"], 2 * 8, 1, True),
        (["magrpo_arxiv_shared.yaml", "model=tiny", "agents.policies=adapter"], 2 * 8, 1, False),
        (["tool_use_small.yaml", "model=tiny", "model.lora=null", "--turns", "3"], 3 * 8, 1, True),
    ],
)
def test_plan_run_counts_what_agents_say_and_hold(
    repository: Path, tmp_path: Path, monkeypatch, words: list[str], rows: int, models: int, whole: bool
) -> None:
    """Roles with models of their own hold them all; with adapters they share one; each says something in an attempt."""
    monkeypatch.chdir(repository)
    preset, *rest = words
    path = tmp_path / "plan.json"
    said = CliRunner().invoke(app, ["plan-run", "--config", f"configs/agents/{preset}", *rest, "--json", str(path)])
    assert said.exit_code == 0, said.output
    assert f"{rows} rows" in said.output
    planned = json.loads(path.read_text())["memory_gb"]
    adapters = 0.0 if whole else planned["moments"] / 2
    assert planned["weights"] - adapters == pytest.approx(models * 148_000 * 4 / 1e9, rel=0.05)
    assert (planned["moments"] == pytest.approx(2 * planned["weights"])) is whole, "two for each weight that learns"


def test_plan_run_reads_a_recipe_as_its_processes_would(repository: Path, tmp_path: Path, monkeypatch) -> None:
    """A recipe's batch is that of one process."""
    monkeypatch.chdir(repository)
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text("model_name_or_path: tiny\nper_device_train_batch_size: 8\nnum_generations: 8\n")
    for processes in (1, 4):
        words = ["plan-run", "--config", str(recipe), "--processes", str(processes)]
        assert f"{8 * processes} rows" in CliRunner().invoke(app, words).output


@pytest.mark.parametrize("limit", ["micro_batch_size=64", "micro_batch_tokens=65536"])
def test_plan_run_lets_no_pass_have_more_rows_than_its_process(
    repository: Path, tmp_path: Path, monkeypatch, limit: str
) -> None:
    """Eight processes were said to keep what one keeps."""
    monkeypatch.chdir(repository)
    path, kept = tmp_path / "plan.json", {}
    asked = ["plan-run", "--config", "configs/agents/deepcoder.yaml", "model=tiny", f"training.phase2_rl.{limit}"]
    for processes in (1, 8):
        CliRunner().invoke(app, [*asked, "--processes", str(processes), "--json", str(path)])
        kept[processes] = json.loads(path.read_text())["memory_gb"]
    for part in ("activations", "gradients of logits"):
        assert kept[8][part] == pytest.approx(kept[1][part] / 8)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["model.lora.rank=600"], r"model\.lora\.rank=600: vLLM holds adapters up to rank 512"),
        (["model.vllm.tensor_parallel_size=2", "--processes", "2"], r"model\.vllm\.tensor_parallel_size=2"),
    ],
)
def test_plan_run_refuses_engines_that_the_training_would_refuse(
    repository: Path, monkeypatch, words: list[str], said: str
) -> None:
    """Once it has loaded its model, that is, on all the machines that it was given."""
    monkeypatch.chdir(repository)
    asked = ["plan-run", "--config", "configs/agents/deepcoder.yaml", "model.name=no/model", "model.backend=vllm"]
    refused = CliRunner().invoke(app, [*asked, *words])
    assert isinstance(refused.exception, UserError), refused.output
    assert re.match(said, str(refused.exception))


def test_plan_run_refuses_moments_in_8_bits_where_the_layout_splits_them(repository: Path, monkeypatch) -> None:
    monkeypatch.chdir(repository)
    words = ["plan-run", "--config", "configs/agents/deepcoder.yaml", "model=tiny", "--layout", "fsdp"]
    refused = CliRunner().invoke(app, [*words, "training.phase2_rl.optimizer=adamw_8bit"])
    assert isinstance(refused.exception, UserError), refused.output
    assert "optimizer=adamw_8bit keeps moments whole" in str(refused.exception)


def test_plan_run_names_the_slowest_stage_and_what_does_not_fit(repository: Path, monkeypatch) -> None:
    monkeypatch.chdir(repository)
    words = ["plan-run", "--config", "configs/agents/deepcoder.yaml", "model=tiny"]
    said = CliRunner().invoke(app, [*words, "--execution_s", "100"])
    assert said.exit_code == 0, said.output
    assert "the slowest stage is execution" in said.output
    refused = CliRunner().invoke(app, [*words, "--device", "tpu"])
    assert isinstance(refused.exception, UserError)
    large = CliRunner().invoke(app, [*words, "model.name=tiny", "model.tiny.hidden=8192", "model.tiny.layers=32"])
    assert large.exit_code == 1
    assert "does not fit" in large.output
