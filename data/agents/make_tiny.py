"""Writes tiny/: a small Llama that reads and writes bytes, taught by scripted attempts at the sample tasks.

`model=tiny` trains on from it. Without such a start nothing that such a model writes would earn anything, since a call
of a tool is thirty right bytes in a row. The scripts know how each role's turn looks, and are right about as often as
wrong; the workflows, their prompts, tools and rewards are the real ones. Run it in the repository's root after a change
of prompts or of tasks; it takes about ten minutes on one core.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path

import torch

from orchestai.agents.conversation import Act
from orchestai.agents.policies import open_policies
from orchestai.agents.recipes import load_agent_config
from orchestai.agents.registry import find, presets
from orchestai.agents.trainer import open_stage
from orchestai.agents.workflow import AttemptContext, attempt
from orchestai.config.agents import AgentConfig
from orchestai.lm.chat_rendering import IncrementalChatRenderer
from orchestai.lm.token_policy import TokenPolicy
from orchestai.tasks.splits import open_splits
from orchestai.tasks.task import Task
from orchestai.types import Message

HERE = Path(__file__).parent
ATTEMPTS, STEPS, PROMPTS_PER_STEP = 12, 3000, 2
SUMS = {"6": "24 / 4", "91": "7 * 13", "60": "12 * 5", "7": "28 / 4"}
PROGRAMS = {
    "abs(n)": ("n", "0"),
    "min(n, 9)": ("9", "n"),
    "n * 2": ("n + 4", "n"),
    "n % 10": ("7", "n"),
}
"""Right, right for some of the tests, and wrong for the visible one."""
PATCHES = {
    "textkit-slug": (
        "words",
        "for letter in title.lower())",
        'if letter.isalnum() else " " for letter in title.lower())',
    ),
    "textkit-roman": (
        "numbers",
        '(100, "C"), (90, "XC"), (50, "L"), (40, "XL"),',
        '(400, "CD"), (100, "C"), (90, "XC"), (50, "L"), (40, "XL"),',
    ),
}
Script = Callable[[str, Task, Sequence[Message], int], Sequence[str]]
"""From role, task, what it reads and the number of its turn to what it may say, each as likely."""


def tool_use(role: str, task: Task, read: Sequence[Message], turn: int) -> Sequence[str]:
    answer, title = task.answers[0], task.details["supporting_titles"][0]
    if not turn:
        return (
            f"<search>{title}</search>",
            f"<search>{title}</search>",
            "<search>zz</search>",
            f"<answer>{title}</answer>",
        )
    return f"<answer>{answer}</answer>", f"<answer>{answer}</answer>", f"<answer>{title}</answer>", title


def search(role: str, task: Task, read: Sequence[Message], turn: int) -> Sequence[str]:
    answer, title = task.answers[0], task.details["supporting_titles"][0]
    return {
        "query_optimiser": (f"<query>{title}</query>", f"<query>{title}</query>", "<query>zz</query>", "?"),
        "searcher": (f"It is {answer}.", f"It is {answer}.", "They do not say it."),
        "answerer": (f"<answer>{answer}</answer>", f"<answer>{answer}</answer>", f"<answer>{title}</answer>", "?"),
    }[role]


def math_tool(role: str, task: Task, read: Sequence[Message], turn: int) -> Sequence[str]:
    answer = task.answers[0]
    right, wrong = rf"\boxed{{{answer}}}", rf"\boxed{{{answer[::-1]}0}}"
    if role == "executor" and read[-1]["role"] == "tool":
        return right, right, wrong
    return {
        "analyser": ("Compute it.",),
        "executor": (f"<calculator>{SUMS[answer]}</calculator>", right, wrong),
        "verifier": ("<verdict>CORRECT</verdict>", "<verdict>INCORRECT</verdict>"),
    }[role]


def deepcoder(role: str, task: Task, read: Sequence[Message], turn: int) -> Sequence[str]:
    right = task.canonical_solution.strip().removeprefix("return ")
    partial, wrong = PROGRAMS[right]
    programs = [f"```python\ndef task_func(n):\n    return {each}\n```" for each in (right, partial, wrong)]
    return ("It is wrong.",) if role == "test_runner" else programs


def swe(role: str, task: Task, read: Sequence[Message], turn: int) -> Sequence[str]:
    module, old, new = PATCHES[task.task_id]
    path = f"textkit/{module}.py"
    patch = f"{path}\n<<<<< SEARCH\n{old}\n=====\n{new}\n>>>>> REPLACE"
    return {
        "analyser": (f"<file>{path}</file>", f"<file>{path}</file>", "<file>setup.py</file>"),
        "writer": (patch, patch, "?"),
        "validator": ("<verdict>PASS</verdict>", "<verdict>FAIL</verdict>"),
    }[role]


def deep_research(role: str, task: Task, read: Sequence[Message], turn: int) -> Sequence[str]:
    passages = {each["title"]: each for each in map(json.loads, (HERE / "corpus.jsonl").read_text().splitlines())}
    (year, trade, emblem), (town, island) = task.details["facts"], task.details["supporting_titles"]
    here, there = passages[town]["id"], passages[island]["id"]
    founded = f"{town} was founded in {year} [{here}]."
    known = f"It is known for its {trade} [{here}]."
    emblem = f"The emblem of {island} is the {emblem} [{there}]."
    questions = f"<question>{town}</question><question>{island}</question>"
    if role == "searcher":
        about = town if any(message["content"] == town for message in read) else island
        notes = f"{founded} {known}" if about == town else emblem
        return (notes, notes, "?") if turn else (f"<search>{about}</search>",)
    return {
        "planner": (questions, questions, "?"),
        "writer": (
            f"{founded} {known} {emblem}",
            f"{founded} {known} {emblem}",
            founded,
            re.sub(r" \[\w+\]", "", founded),
        ),
        "critic": ("<verdict>ACCEPT</verdict>", "<verdict>REVISE</verdict>"),
    }[role]


SCRIPTS: dict[str, Script] = {
    script.__name__: script for script in (tool_use, search, math_tool, deepcoder, swe, deep_research)
}


class ScriptVoice:
    """Says what a script may say, and keeps what was read before it."""

    policy, trainable = "script", True

    def __init__(
        self,
        role: str,
        task: Task,
        script: Script,
        renderer: IncrementalChatRenderer,
        rng: random.Random,
        said: Counter,
    ) -> None:
        self._role, self._task, self._script = role, task, script
        self._renderer, self._rng, self._said = renderer, rng, said
        self._turns = 0

    async def say(self, messages: Sequence[Message], max_new_tokens: int | None = None) -> Act:
        text = self._rng.choice(self._script(self._role, self._task, messages, self._turns))
        self._turns += 1
        self._said[tuple(self._renderer.render(messages)), text] += 1
        return Act(text, True, len(text.encode()) + 1)


async def dialogues(config: AgentConfig, renderer: IncrementalChatRenderer) -> Counter:
    """How often what was said after which prompt, in `ATTEMPTS` scripted attempts at each task of the sample run."""
    said: Counter = Counter()
    script, rng = SCRIPTS[config.agents.workflow], random.Random(config.agents.workflow)
    workflow = find(config.agents.workflow)
    tasks = open_splits(config.tasks).train[: config.tasks.limit]
    async with open_stage(config, workflow, config.agents.workflow_args) as stage:
        for task in tasks:
            for _ in range(ATTEMPTS):
                agents = AttemptContext(
                    task, lambda role, task=task: ScriptVoice(role, task, script, renderer, rng, said)
                )
                await attempt(stage.workflow, task, agents)
    return said


def teach(policy: TokenPolicy, said: Counter) -> None:
    """Lower the mean of -log p over the tokens that were said, each as often as it was."""
    tokenizer, end = policy.tokenizer, torch.tensor([policy.tokenizer.eos_token_id])
    by_prompt = defaultdict(list)
    for (prompt, text), count in said.items():
        ids = torch.tensor(tokenizer(text, add_special_tokens=False).input_ids)
        by_prompt[prompt].append((torch.cat([ids, end]), count))
    prompts, rng = list(by_prompt), random.Random(0)
    print(
        f"{len(prompts)} prompts of {sum(map(len, prompts)) / len(prompts):.0f} tokens, {len(said)} turns", flush=True
    )
    optimizer = torch.optim.AdamW(policy.parameters(), lr=3e-3, weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, total_steps=STEPS, pct_start=0.05)
    for step in range(STEPS):
        chosen = rng.sample(prompts, PROMPTS_PER_STEP)
        rows = [(torch.tensor(prompt), ids, count) for prompt in chosen for ids, count in by_prompt[prompt]]
        found = policy.policy.score([prompt for prompt, _, _ in rows], [ids for _, ids, _ in rows], 1.0)
        weight = found.mask * torch.tensor([float(count) for _, _, count in rows])[:, None]
        loss = -(found.logp * weight).sum() / weight.sum()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        if step % 100 == 0:
            print(f"step {step}: {loss.item():.3f}", flush=True)


async def main() -> None:
    torch.manual_seed(0)
    configs = [
        load_agent_config(workflow, path, ["model=tiny", "model.name=tiny"])
        for path in presets().values()
        if (workflow := load_agent_config("", path).agents.workflow) in SCRIPTS
    ]
    said: Counter = Counter()
    policy = open_policies(configs[0], find(configs[0].agents.workflow).roles).learning["shared_model"]
    renderer = IncrementalChatRenderer(policy.tokenizer)
    for config in configs:
        said.update(await dialogues(config, renderer))
    teach(policy, said)
    policy.model.half().save_pretrained(HERE / "tiny")
    policy.tokenizer.save_pretrained(HERE / "tiny")


if __name__ == "__main__":
    asyncio.run(main())
