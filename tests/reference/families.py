"""The families whose trajectories are kept: tiny runs of `orchestai COMMAND`, each of a few optimizer steps.

Every run begins in a copy of `inputs`, whose `config.yaml` is made so that nothing measured earns a reward. Phase 2
begins from the kept `checkpoints`, so that a family does not depend on the one before it. What decides a run of agents
is written out here, since presets may change.
"""

from __future__ import annotations

from pathlib import Path

HERE = Path(__file__).resolve().parent
INPUTS, CHECKPOINTS = HERE / "inputs", HERE / "checkpoints"
SLOTS, LANGUAGE = CHECKPOINTS / "slots.pth", CHECKPOINTS / "language"
OUTPUT = "out"
"""The folder of a run's results, in the copy of `inputs`."""

_PHASE1 = ("train-phase1", "--config", "config.yaml", "--output_dir", OUTPUT)
_PHASE2 = ("train-phase2", "--config", "config.yaml", "--output_dir", OUTPUT)
_AGENTS = (
    *("--output_dir", OUTPUT, "model=tiny", "agents.concurrency=1", "tasks.limit=2"),
    *("training.phase2_rl.num_episodes=4", "training.phase2_rl.tasks_per_update=2"),
    *("training.phase2_rl.eval_tasks=1", "training.phase2_rl.eval_every=2", "training.phase2_rl.learning_rate=3e-4"),
)

FAMILIES: dict[str, tuple[str, ...]] = {
    "phase1_slots": _PHASE1,
    "phase1_language": (*_PHASE1, "planner.kind=language", "training.phase1_supervised.lr_schedule=linear"),
    "grpo_slots": (
        *(*_PHASE2, "--checkpoint", str(SLOTS), "training.phase2_rl.learning_rate=1e-2"),
        *("training.phase2_rl.loss_type=grpo", "training.phase2_rl.explore=[type, worker, fallback, edge]"),
        *("training.phase2_rl.num_minibatches=2", "training.phase2_rl.kl_coef=0.05"),
    ),
    "ppo_slots": (
        *(*_PHASE2, "--checkpoint", str(SLOTS), "training.phase2_rl.learning_rate=1e-2"),
        *("training.phase2_rl.algorithm=PPO", "training.phase2_rl.num_iterations=2"),
    ),
    "grpo_language": (
        *(*_PHASE2, "--checkpoint", str(LANGUAGE), "planner.kind=language", "training.phase2_rl.learning_rate=1e-3"),
        "training.phase2_rl.loss_type=dapo",
    ),
    "mt_grpo_agents": (
        *("agents", "train", "tool_use", *_AGENTS, "agents.credit=turn", "agents.workflow_args.max_calls=2"),
        *("training.phase2_rl.loss_type=grpo", "training.phase2_rl.num_generations=6"),
        *(
            "training.phase2_rl.temperature=1.3",
            "training.phase2_rl.num_iterations=2",
            "training.phase2_rl.kl_coef=0.01",
        ),
    ),
    "magrpo_agents": (
        *("agents", "train", "writing", *_AGENTS, "agents.credit=joint", "agents.policies=separate"),
        *("training.phase2_rl.loss_type=reinforce", "agents.workflow_args.num_turns=2"),
        *("training.phase2_rl.num_generations=2", "model.max_new_tokens=8"),
    ),
}
"""Arguments of `orchestai`, by family."""
INSTRUCTIONS = (
    "Implement `task_func(n)`, where `n` is an integer.\n1. add 10 to it (for example `5` -> `15`)\n"
    "2. finally, triple it, then add one (so `-2` gives `-5`)\nExamples: `task_func(69)` -> `238`.",
    "Implement `task_func(n)`, where `n` is an integer.\n1. reduce it modulo 7 (`10` -> `3`)\n"
    "2. lastly, add 10 to it (for example `5` -> `15`)\nExamples: `task_func(8)` -> `11`.",
)
"""What the kept checkpoints plan."""
PLANNERS = {"slots": SLOTS, "language": LANGUAGE}
