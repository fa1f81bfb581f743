"""What an update of phase 2 needs: memory per device by part, and seconds by stage. See docs/scale.md."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import torch
from transformers import AutoModelForCausalLM, PretrainedConfig

from orchestai.config import LoraConfig

Split: TypeAlias = Literal["nothing", "moments", "gradients", "weights"]
LAYOUTS: dict[str, Split] = {
    "ddp": "nothing",
    "deepspeed_zero1": "moments",
    "deepspeed_zero2": "gradients",
    "deepspeed_zero3": "weights",
    "fsdp": "weights",
    "fsdp_qlora": "weights",
}
"""Files of accelerate_configs, and the last of moments, gradients and weights of which a process holds a part alone."""
_FLOAT32 = 4
"""Bytes of a number; layouts that split something, and adapters, learn in such."""
_FOUR_BITS = 0.55
"""Bytes of a weight in 4 bits, with the scale that some share."""
_MOMENTS_OF_8_BITS = 2.03
"""Bytes of AdamW's two moments in 8 bits, with the scale that some share."""
_OTHER_FORM = 0.05
"""By which share of its weights a model may have more or fewer than one in Llama's form."""
_EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts")
"""What configurations call the number of experts."""
_NO_MODEL = "of which docs/scale.md has no model"
SAVED = {"hidden": 10.36, "intermediate": 4.04, "vocabulary": 1.08}
"""Numbers kept per token for the backward pass, per layer and width (the vocabulary's: once); fitted by
`benchmarks/training/scale.py`."""


@dataclass(frozen=True)
class Shape:
    """What of a causal language model decides memory and time."""

    layers: int
    hidden: int
    intermediate: int
    query_width: int
    key_width: int
    vocabulary: int
    tied: bool

    @classmethod
    def of(cls, config: PretrainedConfig) -> Shape:
        """Of a model in Llama's form, as Qwen, Mistral and SmolLM are.

        Raises:
            ValueError: it is a mixture of experts, which would be counted as one of them, or has another form.
        """
        text = config.get_text_config()
        if any((getattr(text, name, None) or 1) > 1 for name in _EXPERTS):
            raise ValueError(f"it is a mixture of experts, {_NO_MODEL}")
        try:
            width = getattr(text, "head_dim", None) or text.hidden_size // text.num_attention_heads
            keys = getattr(text, "num_key_value_heads", None) or text.num_attention_heads
            shape = cls(
                text.num_hidden_layers,
                text.hidden_size,
                text.intermediate_size,
                text.num_attention_heads * width,
                keys * width,
                text.vocab_size,
                bool(config.tie_word_embeddings),
            )
        except AttributeError:
            raise ValueError(f"{config.model_type} has another form than Llama, {_NO_MODEL}") from None
        with torch.device("meta"):
            counted = AutoModelForCausalLM.from_config(config).num_parameters()
        if abs(shape.parameters - counted) > _OTHER_FORM * counted:
            raise ValueError(f"{config.model_type} has other matrices than Llama, {_NO_MODEL}")
        return shape

    @property
    def matrices(self) -> dict[str, tuple[int, int]]:
        """Widths of what a layer's matrices read and write, by their names."""
        hidden, inner, queries, keys = self.hidden, self.intermediate, self.query_width, self.key_width
        return {
            "q_proj": (hidden, queries),
            "k_proj": (hidden, keys),
            "v_proj": (hidden, keys),
            "o_proj": (queries, hidden),
            "gate_proj": (hidden, inner),
            "up_proj": (hidden, inner),
            "down_proj": (inner, hidden),
        }

    @property
    def in_layers(self) -> int:
        """Weights of all layers, without the norms' few."""
        return self.layers * sum(read * written for read, written in self.matrices.values())

    @property
    def tables(self) -> int:
        """Weights of the embeddings and of the output layer, which may be the same."""
        return self.vocabulary * self.hidden * (1 if self.tied else 2)

    @property
    def parameters(self) -> int:
        """All weights, without the norms' few."""
        return self.in_layers + self.tables

    def adapters(self, lora: LoraConfig) -> int:
        """Weights of adapters."""
        everywhere = "all-linear" in lora.targets
        adapted = [sum(widths) for name, widths in self.matrices.items() if everywhere or name in lora.targets]
        return self.layers * lora.rank * sum(adapted)


@dataclass(frozen=True)
class Device:
    """One device and what joins it to others, in units per second.

    Attributes:
        flops: of matrix products that sampling and learning reach.
        bytes_per_s: at which weights are read for each token of a batch.
        token_s: seconds that one layer takes for a token at least, however little there is to compute.
        link: bytes per second between devices.
    """

    name: str
    memory_gb: float
    flops: float
    bytes_per_s: float
    token_s: float
    link: float


@dataclass(frozen=True)
class Update:
    """One update of all processes together.

    Attributes:
        rows: plans or turns sampled.
        rows_at_a_time: by one process.
        prompt, completion: tokens of a row.
        passes: over what was sampled, by learning.
        tokens_at_a_time: of one forward and backward pass.
        executions: programs or workflows run.
        execution_s: seconds of one.
        execution_slots: of them at a time, everywhere together.
    """

    rows: int
    rows_at_a_time: int
    prompt: int
    completion: int
    tokens_at_a_time: int
    executions: int
    execution_s: float
    execution_slots: int
    passes: int = 1


@dataclass(frozen=True)
class Learning:
    """How a model is held and learns.

    Attributes:
        weight_bytes: of one weight that samples: 4 or 2.
        in_4_bits: whether the layers' matrices are kept in 4 bits instead.
        lora: the adapters that learn; None where the whole model does.
        in_8_bits: whether AdamW's moments are kept so.
        reference: whether a frozen copy is kept beside it.
        policies: models, or adapters on one, that learn apart.
        engine_gb: of the device, which engines of vLLM take; 0 where a server samples, None where the model does.
    """

    split: Split
    weight_bytes: int
    in_4_bits: bool = False
    lora: LoraConfig | None = None
    in_8_bits: bool = False
    reference: bool = False
    checkpointing: bool = False
    processes: int = 1
    policies: int = 1
    engine_gb: float | None = None

    def one_model(self, shape: Shape) -> float:
        """Bytes of a model that samples, without adapters."""
        of_layers = _FOUR_BITS if self.in_4_bits else self.weight_bytes
        return shape.in_layers * of_layers + shape.tables * self.weight_bytes

    def models(self, shape: Shape) -> float:
        """Bytes of all models that sample, without adapters, which share one."""
        return self.one_model(shape) * (self.policies if self.lora is None else 1)

    def learned(self, shape: Shape) -> int:
        """Weights that learn."""
        return self.policies * (shape.parameters if self.lora is None else shape.adapters(self.lora))

    @property
    def learned_bytes(self) -> int:
        """Of one weight that learns, and of its gradient."""
        return self.weight_bytes if self.split == "nothing" and self.lora is None else _FLOAT32


def memory_gb(shape: Shape, learning: Learning, update: Update) -> dict[str, float]:
    """GB (10^9 bytes) of one device, by part."""
    order = ("nothing", "moments", "gradients", "weights").index(learning.split)
    moments, gradients, weights = (1 / learning.processes if order >= stage else 1.0 for stage in (1, 2, 3))
    learned, own, number = learning.learned(shape), learning.models(shape), learning.learned_bytes
    adapters = 0 if learning.lora is None else learned * _FLOAT32
    rows_at_a_time = min(update.rows_at_a_time, -(-update.rows // learning.processes))
    parts = {
        "weights": own + adapters,
        "weights that learn, in parts": 0.0,
        "frozen weights, in parts": 0.0,
        "frozen copy": own if learning.reference and learning.lora is None else 0.0,
        "gradients": learned * number * gradients,
        "moments": learned * (_MOMENTS_OF_8_BITS if learning.in_8_bits else 2 * number) * moments,
        "activations": saved_numbers(shape, update.tokens_at_a_time, learning.checkpointing) * learning.weight_bytes,
        "gradients of logits": update.tokens_at_a_time * shape.vocabulary * learning.weight_bytes,
    }
    if learning.engine_gb is None:
        of_token = 2 * shape.layers * shape.key_width * learning.weight_bytes
        parts["keys and values"] = of_token * rows_at_a_time * (update.prompt + update.completion)
    else:
        parts["engines of vLLM"] = learning.engine_gb * 1e9
    if learning.split == "weights":
        parts["weights that learn, in parts"] = learned * _FLOAT32 * weights
        parts["frozen weights, in parts"] = own * weights if learning.lora is not None else 0.0
    elif order and learning.weight_bytes < _FLOAT32:
        parts["weights that learn, in parts"] = learned * _FLOAT32 * moments
    return {part: size / 1e9 for part, size in parts.items() if size}


def saved_numbers(shape: Shape, tokens: int, checkpointing: bool = False) -> float:
    """Numbers kept for the backward pass of so many tokens."""
    inside = SAVED["hidden"] * shape.hidden + SAVED["intermediate"] * shape.intermediate
    kept = shape.layers * shape.hidden + inside if checkpointing else shape.layers * inside
    return tokens * (kept + SAVED["vocabulary"] * shape.vocabulary)


def seconds(shape: Shape, learning: Learning, update: Update, device: Device) -> dict[str, float]:
    """Seconds of one update, by stage; execution overlaps with sampling where plans run while others are drawn."""
    rows = -(-update.rows // learning.processes)
    batches = -(-rows // update.rows_at_a_time)
    step = max(device.token_s * shape.layers, learning.one_model(shape) / device.bytes_per_s)
    forward = 2 * shape.parameters * rows / device.flops
    backward = 3 if learning.lora is None else 2
    again = 1 if learning.checkpointing else 0
    others = (learning.processes - 1) / learning.processes
    whole = learning.models(shape) if learning.split == "weights" and learning.lora is None else 0
    return {
        "sampling": forward * (update.prompt + update.completion) + batches * update.completion * step,
        "execution": update.executions * update.execution_s / update.execution_slots,
        "learning": update.passes * forward * (update.prompt + update.completion) * (backward + again),
        "sync": others * (2 * update.passes * learning.learned(shape) * _FLOAT32 + whole) / device.link,
    }


DEVICES = {
    "cpu": Device("one core of a CPU (fitted)", 16, 53e9, 5.1e9, 1.2e-3, 1e9),
    "a100": Device("A100 80 GB (data sheet)", 80, 0.4 * 312e12, 0.6 * 2.0e12, 2e-5, 25e9),
    "h100": Device("H100 80 GB (data sheet)", 80, 0.4 * 989e12, 0.6 * 3.35e12, 2e-5, 50e9),
    "h200": Device("H200 141 GB (data sheet)", 141, 0.4 * 989e12, 0.6 * 4.8e12, 2e-5, 50e9),
}
"""The CPU's rates but for its link are fitted, in float32, by `benchmarks/training/scale_seconds.py`. The others are of
data sheets: 40 % of the dense bfloat16 products and 60 % of the memory's speed. None of these was measured."""
