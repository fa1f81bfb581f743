"""Backend `replay`, and the recording that it replays: what a run sampled and executed, found again by key."""

from __future__ import annotations

import json
from collections import defaultdict, deque
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import torch

from orchestai.errors import UserError
from orchestai.lm.backends.base import Backend, Generation, SampleSettings, Weights
from orchestai.lm.sampling import Completion
from orchestai.storage import artifacts

if TYPE_CHECKING:
    from torch import Tensor

Kind = Literal["completion", "execution"]


class Recording:
    """A file of JSON lines, `{"kind": ..., "key": ..., ...}`; several processes may append to it.

    Lines with one key are found in their order, the last of them as often as it is asked for: what is measured anew for
    each evaluation, say, differs a little.

    Raises:
        UserError: it is to be read, and cannot be.
    """

    def __init__(self, path: Path, *, read: bool) -> None:
        self.path = path
        self._found: defaultdict[tuple[Kind, str], deque[dict[str, Any]]] = defaultdict(deque)
        if read:
            lines, problems = artifacts.read_lines(path)
            for _, line in lines:
                self._found[line["kind"], line["key"]].append(line)
            if problems and not lines:
                raise UserError(f"{path}: not a recording; {problems[0]}")

    def find(self, kind: Kind, key: str) -> dict[str, Any] | None:
        lines = self._found[kind, key]
        return (lines.popleft() if len(lines) > 1 else lines[0]) if lines else None

    def add(self, kind: Kind, rows: Sequence[tuple[str, dict[str, Any]]]) -> None:
        lines = "".join(json.dumps({"kind": kind, "key": key, **row}) + "\n" for key, row in rows)
        artifacts.append(self.path, lines.encode())


class Recorder:
    """Records what another backend writes."""

    def __init__(self, inner: Backend, recording: Recording) -> None:
        self._inner = inner
        self._recording = recording

    async def generate(self, prompts: Sequence[Tensor], seeds: Sequence[int], settings: SampleSettings) -> Generation:
        generation = await self._inner.generate(prompts, seeds, settings)
        version = generation.policy_version
        rows = [
            (
                completion_key(prompt, seed, settings, version),
                {"ids": one.ids.tolist(), "logp": one.logp.tolist(), "ended": one.ended, "policy_version": version},
            )
            for prompt, seed, one in zip(prompts, seeds, generation.completions, strict=True)
        ]
        self._recording.add("completion", rows)
        return generation

    async def sync(self, weights: Weights, policy_version: int) -> None:
        await self._inner.sync(weights, policy_version)

    async def close(self) -> None:
        await self._inner.close()


class Replay:
    """Gives what a recording holds for the same prompt, seed, settings and policy version, and nothing else."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._version = -1

    async def generate(self, prompts: Sequence[Tensor], seeds: Sequence[int], settings: SampleSettings) -> Generation:
        rows = zip(prompts, seeds, strict=True)
        return Generation([self._find(prompt, seed, settings) for prompt, seed in rows], self._version)

    def _find(self, prompt: Tensor, seed: int, settings: SampleSettings) -> Completion:
        key = completion_key(prompt, seed, settings, self._version)
        found = self._recording.find("completion", key)
        if found is None:
            raise UserError(
                f"{self._recording.path}: holds no completion {key} (a prompt of {len(prompt)} tokens, seed {seed}, "
                f"{settings}, policy version {self._version}): replay with the configuration, tasks and checkpoint of "
                "the run that was recorded, or record again"
            )
        return Completion(
            torch.tensor(found["ids"], dtype=torch.long), torch.tensor(found["logp"]), bool(found["ended"])
        )

    async def sync(self, weights: Weights, policy_version: int) -> None:
        self._version = policy_version

    async def close(self) -> None:
        """Nothing is held."""


def completion_key(prompt: Tensor, seed: int, settings: SampleSettings, policy_version: int) -> str:
    return artifacts.fingerprint([prompt.tolist(), seed, settings.temperature, settings.max_new_tokens, policy_version])
