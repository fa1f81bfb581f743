"""Recipes of 001 are read in their own keys, from a file and from flags, and train."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from orchestai.agents.recipes import load_agent_config
from orchestai.cli import agent_scripts, app
from orchestai.doctor import check_training

RECIPES = "local_training/hf_recipes"
QWEN = f"{RECIPES}/Qwen/Qwen3-0.6B--mt-grpo.yaml"


@pytest.fixture(autouse=True)
def _in_the_repository(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(repository)


@pytest.mark.parametrize("path", sorted(Path(__file__).parents[2].glob(f"{RECIPES}/*/*.yaml")), ids=lambda p: p.stem)
def test_each_recipe_is_mt_grpo_for_its_model(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In seven processes, for which they are written: two groups of seven attempts."""
    monkeypatch.setenv("WORLD_SIZE", "7")
    config, phase2 = load_agent_config("tool_use", path), load_agent_config("", path).training.phase2_rl
    assert (config.agents.workflow, config.tasks.suite, config.agents.credit) == ("tool_use", "triviaqa", "turn")
    assert config.model.name == yaml.safe_load(path.read_text())["model_name_or_path"]
    assert path.stem.startswith(config.model.name.rpartition("/")[2])
    assert (phase2.num_generations, phase2.tasks_per_update, phase2.num_updates, phase2.kl_coef) == (7, 2, 200, 0.01)
    assert (config.agents.budget.turns, config.agents.workflow_args["max_calls"]) == (5, 4)


def test_flags_are_a_recipe_s_keys_and_win(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[list[str]] = []
    monkeypatch.setattr(agent_scripts, "main", given.append)
    flags = ["--config", QWEN, "--learning_rate", "2e-6", "--num_generations=4", "--vllm_port", "8001", "--resume"]
    monkeypatch.setattr(sys, "argv", ["trainer", *flags, "model.dtype=bfloat16"])
    runpy.run_path("local_training/mt_grpo_trainer.py")
    words = ["learning_rate=2e-6", "num_generations=4", "vllm_port=8001"]
    kept = ["agents", "train", "tool_use", "--config", QWEN]
    assert given == [[*kept, *words, "--resume", "model.dtype=bfloat16"]]
    phase2 = load_agent_config("tool_use", Path(QWEN), words).training.phase2_rl
    assert (phase2.learning_rate, phase2.num_generations, phase2.tasks_per_update) == (2e-6, 4, 1)


def test_a_batch_is_whole_groups_and_what_means_nothing_is_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A published recipe has keys of a loop that are not here; none is passed over in silence."""
    path = tmp_path / "recipe.yaml"
    path.write_text(Path(QWEN).read_text() + "torch_dtype: bfloat16\nreport_to: [tensorboard]\n")
    config = load_agent_config("tool_use", path)
    assert config.training.phase2_rl.tasks_per_update == 1
    assert config.logging.trackers == ("tensorboard",)
    assert "torch_dtype" in caplog.text
    assert "an update takes 7" in caplog.text


@pytest.mark.parametrize(
    ("words", "backend", "url"),
    [
        ("use_vllm: true", "vllm_server", "http://localhost:8000"),
        ("use_vllm: true\nvllm_server_host: gpu7\nvllm_server_port: 8001", "vllm_server", "http://gpu7:8001"),
        ("use_vllm: true\nvllm_server_host: 0.0.0.0", "vllm_server", "http://localhost:8000"),
        ("use_vllm: true\nvllm_server_base_url: http://gpu7:9", "vllm_server", "http://gpu7:9"),
        ("vllm_port: 8002", "vllm_server", "http://localhost:8002"),
        ("use_vllm: true\nvllm_mode: colocate\nvllm_gpu_memory_utilization: 0.4", "vllm", None),
        ("use_vllm: false\nvllm_server_port: 8001", "transformers", None),
        ("vllm_server_port: 8001", "transformers", None),
    ],
)
def test_rollouts_are_written_by_the_vllm_that_a_recipe_names(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, words: str, backend: str, url: str | None
) -> None:
    """In TRL's words, from the recipe or as flags; what samples elsewhere is corrected for."""
    path = tmp_path / "recipe.yaml"
    path.write_text(Path(QWEN).read_text() + words + "\n")
    from_file = load_agent_config("tool_use", path)
    from_flags = load_agent_config("tool_use", Path(QWEN), [line.replace(": ", "=", 1) for line in words.splitlines()])
    for config in (from_file, from_flags):
        assert config.model.backend == backend
        assert config.model.vllm.base_url == (url or "http://localhost:8000")
        corrected = config.training.phase2_rl.sampler_correction
        assert corrected == (None if backend == "transformers" else "token_truncate")
        assert config.model.vllm.engine_options == ({"gpu_memory_utilization": 0.4} if backend == "vllm" else {})
    assert ("vllm_server_port: changes nothing here" in caplog.text) == (backend == "transformers")


@pytest.mark.slow
def test_a_recipe_trains_with_the_tiny_model(tmp_path: Path) -> None:
    words = ["model=tiny", "training.phase2_rl.num_episodes=2", "--output_dir", str(tmp_path)]
    result = CliRunner().invoke(app, ["agents", "train", "tool_use", "--config", QWEN, *words])
    assert result.exception is None, result.output
    assert (tmp_path / "phase2_best" / "agents.json").exists()


def test_the_set_up_is_told_part_by_part(tmp_path: Path) -> None:
    findings = {one.part: one for one in check_training(tmp_path / "index")}
    assert findings["package torch" if "package torch" in findings else "package accelerate"].there
    index = findings[f"index {tmp_path / 'index'}"]
    assert not index.there
    assert "orchestai agents index" in str(index)
