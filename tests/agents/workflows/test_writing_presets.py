"""The writing task's presets hold the published values, and its doors train on a small computer as they are written."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from orchestai.agents.recipes import load_agent_config
from orchestai.agents.workflows.writing import WritingArgs
from orchestai.config.agents import AgentConfig

PRESETS = (
    "magrpo_arxiv",
    "magrpo_arxiv_shared",
    "magrpo_arxiv_reduced",
    "magrpo_arxiv_multi_turn",
    "magrpo_arxiv_cross",
)


def preset(repository: Path, name: str) -> AgentConfig:
    return load_agent_config("writing", repository / "configs" / f"{name}.yaml")


@pytest.mark.parametrize("name", PRESETS)
def test_presets_differ_from_the_published_values_where_they_say(repository: Path, name: str) -> None:
    config = preset(repository, f"agents/{name}")
    args = WritingArgs(**config.agents.workflow_args)
    phase2 = config.training.phase2_rl
    reduced = name.endswith("reduced")
    assert config.model.name == "Qwen/Qwen3-0.6B"
    assert not config.model.thinking
    assert config.agents.credit == "joint"
    assert config.agents.policies == ("shared" if name.endswith("shared") else "separate")
    assert (phase2.loss_type, phase2.temperature, phase2.learning_rate) == ("reinforce", 0.7, 5e-6)
    assert (phase2.tasks_per_update, config.agents.epochs) == (1, 2)
    assert (phase2.num_generations, config.model.max_new_tokens) == ((2, 128) if reduced else (4, 256))
    assert (args.min_words, args.max_words) == ((64, 128) if reduced else (128, 256))
    assert args.joint_mode == ("cross" if name.endswith("cross") else "aligned")
    assert (args.num_turns, args.discount) == ((2, 0.9) if name.endswith("multi_turn") else (1, 1.0))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("door", "kept"), [("train_magrpo.py", ["background", "method"]), ("sharedparam_train_magrpo.py", ["shared_model"])]
)
def test_doors_train_and_save_each_model_once(repository: Path, tmp_path: Path, door: str, kept: list[str]) -> None:
    command = [sys.executable, door, "--config", "configs/magrpo_arxiv_config.yaml", "model=tiny"]
    done = subprocess.run(
        [*command, "--output_dir", str(tmp_path)], cwd=repository, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert ("one model shared by 2 agents" in done.stderr) == (kept == ["shared_model"])
    best = tmp_path / "phase2_best"
    assert sorted(path.name for path in best.iterdir() if path.is_dir()) == kept
    rows = [json.loads(line) for line in (tmp_path / "phase2_metrics.jsonl").read_text().splitlines()]
    assert rows[-1]["eval_reward"] > 0
