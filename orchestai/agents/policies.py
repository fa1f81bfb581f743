"""Whose weights each role speaks with: one model for all, a frozen one with adapters per role, or a model per role."""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from torch import nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase, PreTrainedTokenizerFast

from orchestai.config.agents import AgentConfig
from orchestai.errors import UserError
from orchestai.lm import loading
from orchestai.lm.chat_rendering import IncrementalChatRenderer
from orchestai.lm.local_models import AGENTS, ModelKeys
from orchestai.lm.token_policy import TokenPolicy
from orchestai.planner.files import without_suffix
from orchestai.planner.language.checkpoint import tiny_llama
from orchestai.storage import artifacts, digests
from orchestai.tasks.splits import SeenTasks

TINY = "tiny"
SHARED = "shared_model"
FORMAT = "orchestai.agents/1"
_REMEDY = "pass another folder, or train again"
_START, _END = "<|im_start|>", "<|im_end|>"
_CHATML = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
METADATA, _BASE, _VALUE_HEAD = "agents.json", "base_model", "value_head.safetensors"


@dataclass(frozen=True)
class Policies:
    """What learns, and who speaks with it.

    No two of the weights in `learning` learn a parameter together, but frozen ones may be one.
    """

    learning: Mapping[str, TokenPolicy]
    of_role: Mapping[str, str]
    chat_renderers: Mapping[str, IncrementalChatRenderer]

    def __str__(self) -> str:
        """Who speaks with what, a line for each policy."""
        lines = []
        for name in self.learning:
            roles = [role for role, policy in self.of_role.items() if policy == name]
            shared = f"one model shared by {len(roles)} agents" if len(roles) > 1 else "one agent"
            lines.append(f"{name}: {shared} ({', '.join(roles)})")
        return "\n".join(lines)


def open_policies(
    config: AgentConfig, roles: Sequence[str], *, checkpoint: Path | None = None, value_head: bool = False
) -> Policies:
    """The configured weights for those of the workflow's roles that are not frozen (there may be none), in evaluation
    mode.

    Args:
        checkpoint: a folder of `save_policies`, instead of the models as they are before any training here.
        value_head: for PPO.
    """
    agents = config.agents
    if strange := sorted({*agents.frozen, *agents.models} - {*roles}):
        raise UserError(f"agents: no role {strange[0]!r} in this workflow; it has {', '.join(roles)}")
    learning = [role for role in roles if role not in agents.frozen]
    of_role = {role: SHARED if agents.policies == "shared" else role for role in learning}
    if checkpoint is not None:
        policies = agents.policies
        metadata = read_metadata(checkpoint)
        if metadata["policies"] != policies:
            raise UserError(
                f"{checkpoint}: was trained with agents.policies={metadata['policies']}, not {policies}; set it to that"
            )
        if missing := sorted(set(of_role.values()) - set(metadata["of_role"].values())):
            raise UserError(
                f"{checkpoint}: holds no policy {missing[0]!r}, only {', '.join(metadata['of_role'].values())}"
            )
        digests.check_sums(checkpoint, _REMEDY)
    opened: dict[str, TokenPolicy] = {}
    chat_renderers: dict[str, IncrementalChatRenderer] = {}
    bases: dict[str, tuple[PreTrainedModel, PreTrainedTokenizerBase]] = {}
    for name in dict.fromkeys(of_role.values()):
        folder = checkpoint / name if checkpoint else None
        source, keys = config.model.name, AGENTS
        if name in agents.models and source != TINY:
            source, keys = agents.models[name], ModelKeys(f"agents.models.{name}", AGENTS.section)
        if config.adapters is not None:
            if source not in bases:
                bases[source] = _open(config, source, checkpoint / _BASE if checkpoint else None, keys)
            base, tokenizer = bases[source]
            # An adapter of its own over the base's weights, which are frozen and not copied
            base.requires_grad_(False)
            weights: dict[int, Any] = {id(parameter): parameter for parameter in base.parameters()}
            model = copy.deepcopy(base, weights)
            if folder is not None:
                loading.load_adapter(model, config.adapters, folder)
            else:
                with torch.random.fork_rng(devices=[]):
                    torch.manual_seed(config.training.phase2_rl.seed)
                    loading.add_adapter(model, config.adapters)
        else:
            model, tokenizer = _open(config, source, folder, keys)
        chat_renderers[name] = IncrementalChatRenderer(tokenizer, thinking=config.model.thinking, key=keys.name)
        # That one attempt may write
        budget = config.agents.budget
        turns = (budget.turns or 1) * config.model.max_new_tokens
        opened[name] = TokenPolicy(
            model,
            tokenizer,
            max_slots=min(turns, budget.tokens or turns),
            value_head=value_head,
            end_ids=chat_renderers[name].end_ids,
            gradient_checkpointing=config.model.gradient_checkpointing,
            keys=keys,
        ).eval()
        head = opened[name].policy.value_head
        if head is not None and folder is not None and (folder / _VALUE_HEAD).exists():
            head.load_state_dict(load_file(folder / _VALUE_HEAD))
        if folder is not None:
            trained = {key: weight for key, weight in opened[name].named_parameters() if weight.requires_grad}
            digests.check_finite(folder, trained)
    return Policies(opened, of_role, chat_renderers)


def save_policies(path: Path, policies: Policies, config: AgentConfig, facts: Mapping[str, Any]) -> None:
    """Write each policy once: a folder of its own, in the form of `save_pretrained`; adapters alone where it has some.

    Args:
        path: of the folder that holds them; a suffix is left out.
        facts: what else is known (`update`, figures, ...); goes to `agents.json`.
    """
    with artifacts.replacing_folder(without_suffix(path)) as folder, loading.quietly():
        for name, policy in policies.learning.items():
            policy.model.save_pretrained(folder / name)
            policy.tokenizer.save_pretrained(folder / name)
            if policy.policy.value_head is not None:
                save_file(policy.policy.value_head.state_dict(), folder / name / _VALUE_HEAD)
        some = next(iter(policies.learning.values()))
        if some.has_adapter and config.model.name == TINY:  # found nowhere else
            tiny = _fresh_tiny(config)
            tiny[0].save_pretrained(folder / _BASE)
            tiny[1].save_pretrained(folder / _BASE)
        metadata = {
            "format": FORMAT,
            "policies": config.agents.policies,
            "of_role": dict(policies.of_role),
            "config": config.model_dump(mode="json"),
            "versions": artifacts.versions(),
            **facts,
        }
        artifacts.write_json(folder / METADATA, metadata)
        digests.write_sums(folder)


def read_metadata(checkpoint: Path) -> dict[str, Any]:
    """What `agents.json` says."""
    artifacts.restore_folder(checkpoint)
    if (checkpoint / METADATA).exists():
        digests.check_sums(checkpoint, _REMEDY, METADATA)
    try:
        metadata = json.loads((checkpoint / METADATA).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(
            f"{checkpoint}: no folder of agents (it has no {METADATA}); train first, or pass --checkpoint DIR"
        ) from None
    except (OSError, ValueError) as error:
        raise UserError(f"{checkpoint / METADATA}: not readable ({error}); pass another folder") from None
    if not isinstance(metadata, dict) or metadata.get("format") != FORMAT:
        raise UserError(f"{checkpoint}: not a folder of agents of this program's version; train again")
    return metadata


def seen_by(checkpoint: Path) -> SeenTasks:
    """The tasks that a folder of `save_policies` has learned from and was selected on."""
    return SeenTasks.of_checkpoint(read_metadata(checkpoint))


def fingerprint_of(checkpoint: Path) -> str:
    """sha256 of all weights in a folder of `save_policies`."""
    digest = hashlib.sha256()
    for file in sorted(checkpoint.rglob("*.safetensors")):
        digest.update(str(file.relative_to(checkpoint)).encode() + file.read_bytes())
    return digest.hexdigest()


def _open(
    config: AgentConfig, name: str, folder: Path | None, keys: ModelKeys
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    if folder is not None and folder.is_dir():
        return loading.read_model(str(folder), config.model, keys)
    if name == TINY:
        return _fresh_tiny(config)
    known = config.workers.models if config.workers else {}
    return loading.read_model(loading.find_source(name, known, config.cache_dir, keys.name), config.model, keys)


def _fresh_tiny(config: AgentConfig) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """The model of a try-out: random weights, a token per byte, and ChatML. Always the same for one seed."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    by_bytes = Tokenizer(models.BPE(vocab={letter: i for i, letter in enumerate(letters)}, merges=[]))
    by_bytes.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    by_bytes.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=by_bytes,
        eos_token=_END,
        additional_special_tokens=[_START],
        clean_up_tokenization_spaces=False,
    )
    tokenizer.chat_template = _CHATML
    end, tiny = tokenizer.eos_token_id, config.model.tiny
    assert isinstance(end, int)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.training.phase2_rl.seed)
        model: nn.Module = tiny_llama(len(tokenizer), tiny.hidden, tiny.layers, tiny.heads, tiny.context, end)
    model.to(dtype=loading.DTYPES[config.model.dtype])
    return cast(PreTrainedModel, model), tokenizer
