"""A file of CoMLRL's writing experiments is read in its own keys; what cannot be done as it says is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestai.agents.recipes import load_agent_config

FILE = """\
agent_model: {name: Qwen/Qwen3-0.6B, type: qwen, temperature: 0.7, top_p: null, top_k: null, torch_dtype: auto}
agents: null
dataset: {name: OpenMLRL/arXiv_abstract, type: arxiv, train_split: "train[:1100]", eval_split: "val[:1100]"}
tokenizer: {padding_side: left}
output: {base_dir: output_magrpo_arxiv, verbose: false}
magrpo:
  num_turns: 1
  num_train_epochs: 2
  agent_learning_rate: 5.0e-06
  num_generations: 4
  max_new_tokens: 256
  joint_mode: aligned
  rollout_buffer_size: 1
  train_batch_size: 1
  advantage_normalization: true
  eval_interval: 100
  eval_num_samples: 16
reward_processor: {enabled: true, scale_factor: 1.0, shift: 0.0}
wandb: {project: MA-GRPO, entity: some-team, name: magrpo_arxiv, tags: [magrpo]}
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """In the published layout, with the values of the document."""
    (tmp_path / "theirs.yaml").write_text(FILE)
    return tmp_path / "theirs.yaml"


def test_their_file_is_our_preset(path: Path, repository: Path, caplog: pytest.LogCaptureFixture) -> None:
    theirs = load_agent_config("writing", path)
    ours = load_agent_config("writing", repository / "configs" / "magrpo_arxiv_config.yaml")
    assert theirs.training == ours.training.model_copy(
        update={"phase2_rl": ours.training.phase2_rl.model_copy(update={"micro_batch_tokens": None})}
    )
    assert (theirs.model, theirs.tasks) == (ours.model, ours.tasks)
    assert theirs.agents.epochs == ours.agents.epochs == 2
    assert (theirs.agents.credit, theirs.agents.policies) == (ours.agents.credit, ours.agents.policies)
    logging = theirs.logging
    assert (logging.trackers, logging.project, logging.entity) == (("wandb",), "MA-GRPO", "some-team")
    assert "advantage_normalization" in caplog.text


def test_edits_and_words_are_in_their_keys_too(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The document's remedy for too little memory, a slice of the data, and the batch of four processes."""
    monkeypatch.setenv("WORLD_SIZE", "4")
    words = ["magrpo.num_generations=2", "magrpo.max_new_tokens=128", "dataset.train_split=train[:40]"]
    config = load_agent_config("", path, [*words, "training.phase2_rl.seed=7"])
    phase2 = config.training.phase2_rl
    assert (config.agents.workflow, phase2.num_generations, config.model.max_new_tokens) == ("writing", 2, 128)
    assert (config.tasks.limit, phase2.tasks_per_update, phase2.seed) == (40, 4, 7)
