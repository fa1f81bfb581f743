"""What `plan-run` says of memory and time is so where it can be counted, and moves as it must."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import peft
import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM, MixtralConfig
from typer.testing import CliRunner

from orchestai.cli import app
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
        adapted = peft.get_peft_model(model, peft.LoraConfig(r=8, target_modules="all-linear"))
    assert SHAPE.adapters(8) == adapted.get_nb_trainable_parameters()[0]


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
        shape = Shape(point["layers"], width, 3 * width, heads=4, key_width=width, vocabulary=2048, tied=True)
        said = seconds(shape, WHOLE, Update(point["rows"], 8, 64, 32, 768, 0, 0.0, 1), DEVICES["cpu"])
        for stage in ("sampling", "learning"):
            assert said[stage] == pytest.approx(point[stage], rel=0.25), (point, stage)


def test_parts_of_what_learns_shrink_with_processes_and_what_samples_does_not() -> None:
    split = Learning("weights", 2, processes=8)
    one, eight = memory_gb(SHAPE, replace(split, processes=1), UPDATE), memory_gb(SHAPE, split, UPDATE)
    for part in ("gradients", "moments", "weights that learn, in parts"):
        assert eight[part] == pytest.approx(one[part] / 8)
    assert eight["weights"] == one["weights"]
    adapters = memory_gb(SHAPE, replace(WHOLE, rank=4, reference=True), UPDATE)
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
    adapters = memory_gb(SHAPE, replace(WHOLE, rank=4, policies=3), UPDATE)
    assert adapters["weights"] == one["weights"], "they share what is frozen"
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
    assert planned["weights"] == pytest.approx(models * 148_000 * 4 / 1e9, rel=0.05)
    assert (planned["moments"] == pytest.approx(2 * planned["weights"])) is whole, "two for each weight that learns"


def test_plan_run_reads_a_recipe_as_its_processes_would(repository: Path, tmp_path: Path, monkeypatch) -> None:
    """A recipe's batch is that of one process."""
    monkeypatch.chdir(repository)
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text("model_name_or_path: tiny\nper_device_train_batch_size: 8\nnum_generations: 8\n")
    for processes in (1, 4):
        words = ["plan-run", "--config", str(recipe), "--processes", str(processes)]
        assert f"{8 * processes} rows" in CliRunner().invoke(app, words).output


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
