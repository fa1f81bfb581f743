"""A real model answers questions with a search tool: transcripts and scores, in Markdown.

    python benchmarks/agents/question_answering.py --suite hotpotqa --path hotpot_dev_v1_simplified.json.gz \\
        --output docs/results/agents/hotpotqa.md
    python benchmarks/agents/question_answering.py --suite written --path data/agents/questions.jsonl \\
        --output docs/results/agents/archipelago.md

Greedy; two worked examples come before each question, since SmolLM2-135M was never taught to call tools.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Sequence
from pathlib import Path

from orchestai.agents.agent_factory import AgentFactory
from orchestai.agents.policies import open_policies
from orchestai.agents.workflow import attempt
from orchestai.agents.workflows.tool_use import ToolUse
from orchestai.config.agents import AgentConfig
from orchestai.lm.backends.synced import local_backend
from orchestai.outcome import Scored
from orchestai.sandbox import Sandbox
from orchestai.storage import artifacts
from orchestai.tasks.suites import load_suite
from orchestai.tasks.task import Task
from orchestai.types import Episode

_SHOWN = ("success", "f1", "tagged", "calls", "retrieved")


async def answer(config: AgentConfig, flow: ToolUse, tasks: Sequence[Task]) -> list[Episode]:
    policies = open_policies(config, flow.roles)
    backends = {name: local_backend(policy.policy) for name, policy in policies.learning.items()}
    factory = AgentFactory(config, policies, backends)
    try:
        attempts = (attempt(flow, task, factory.context(task, seed=0, attempt=0, temperature=0.0)) for task in tasks)
        return list(await asyncio.gather(*attempts))
    finally:
        await factory.close()


def report(command: str, model: str, corpus: Path, tasks: Sequence[Task], episodes: Sequence[Episode]) -> str:
    scored = [episode for episode in episodes if isinstance(episode.outcome, Scored)]
    transcripts = [episode.trajectories[0].transcript for episode in episodes]
    same = next(i for i, (_, words) in enumerate(transcripts[0]) if words == tasks[0].instruction)
    judged = "" if len(scored) == len(tasks) else f", of which {len(scored)} could be judged"
    lines = [
        f"# {model} answers {len(tasks)} questions with a search tool{judged}",
        "",
        f"    {command}",
        "",
        f"Questions and answers: {tasks[0].source}. Searched: {corpus}. Greedy decoding; nothing was trained.",
        "",
        f"| {' | '.join(_SHOWN)} |",
        "|---" * len(_SHOWN) + "|",
        "| " + " | ".join(f"{sum(e.metrics[name] for e in scored) / len(scored):.2f}" for name in _SHOWN) + " |",
        "",
        "What the model reads before each question:",
        "",
        *_quoted(transcripts[0][:same]),
    ]
    for task, episode, transcript in zip(tasks, episodes, transcripts, strict=True):
        worth = f"reward {episode.outcome.value:.2f}" if isinstance(episode.outcome, Scored) else episode.outcome.reason
        figures = ", ".join(f"{name} {episode.metrics[name]:g}" for name in _SHOWN if name in episode.metrics)
        lines += ["", f"## {task.task_id}", "", f"Answer: {' / '.join(task.answers)}. {worth}; {figures}.", ""]
        lines += _quoted(transcript[same:])
    return "\n".join(lines) + "\n"


def _quoted(transcript: Sequence[tuple[str, str]]) -> list[str]:
    text = "\n\n".join(f"[{speaker}] {words}" for speaker, words in transcript)
    return ["```text", *text.replace("```", "'''").splitlines(), "```"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--suite", default="hotpotqa")
    parser.add_argument("--path", required=True)
    parser.add_argument("--corpus", type=Path, default=Path("data/agents/corpus.jsonl"))
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--questions", type=int, default=10)
    parser.add_argument("--output", type=Path, required=True)
    options = parser.parse_args()
    tasks = load_suite(options.suite, options.path).split("test")[: options.questions]
    config = AgentConfig(model={"name": options.model, "max_new_tokens": 96})  # type: ignore[arg-type]
    with Sandbox.from_config(config.sandbox) as sandbox:
        args = ToolUse.Args(corpus=options.corpus, passages=2, passage_chars=300, worked_examples=True)
        episodes = asyncio.run(answer(config, ToolUse(args, sandbox), tasks))
    path = Path(options.path)
    name = path.name if path.is_absolute() else path
    words = f"--suite {options.suite} --path {name} --output {options.output}"
    command = f"python benchmarks/agents/question_answering.py {words}"
    artifacts.write_text(options.output, report(command, options.model, options.corpus, tasks, episodes))
    print(options.output)


if __name__ == "__main__":
    main()
