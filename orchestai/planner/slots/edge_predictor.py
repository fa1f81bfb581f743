"""Edges of steps that the instruction lists: a score for every pair, from what a language model knows of both."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, lru_cache
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import torch
import transformers
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence
from transformers import AutoModel, AutoTokenizer

from orchestai.config import LinkerConfig
from orchestai.errors import UserError
from orchestai.lm import weights
from orchestai.lm.length_batches import length_batches
from orchestai.lm.loading import quietly
from orchestai.planner.base import Plan
from orchestai.planner.slots.decisions import best_expected_edges
from orchestai.planner.slots.decoder import Structure
from orchestai.planner.slots.layers import EncoderLayer, mlp, padded, present
from orchestai.planner.slots.losses import (
    IGNORE,
    GivenEdges,
    PlanTargets,
    check_words,
    existing_steps,
    given_decisions,
    token_spans,
)
from orchestai.planner.slots.text_encoder import EncodedText, TextEncoder, UnreadableTextError
from orchestai.storage.byte_store import ByteStore
from orchestai.text.spoken import ORDINALS

if TYPE_CHECKING:
    from orchestai.planner.slots.model import PlannerModel


_KEY = "planner.linker.language_model"
_BETWEEN = "\n\n"
_CACHED = 20_000
_MAX_STORED_BYTES = 1 << 30
_VERSION = 1
"""Grows when something else is read of the same steps, so that what was kept before is not taken for it."""

Spans: TypeAlias = "tuple[tuple[int, int], ...]"
logger = logging.getLogger(__name__)


class StepEncoder:
    """A frozen causal language model. Not a module of the planner: its weights are neither trained nor stored there.

    Instructions are read one at a time, so that what is read never depends on a batch. What was read of the latest
    20,000 (some 14 kB each with SmolLM2 and six steps) is kept in memory.

    Args:
        name: `smollm2-135m`, or a name or path of a model of Llama's kind with a fast tokenizer.
        layer: the layer whose output is read; later ones are not computed.
        cache_dir: where the packaged model is converted to.
        store: keeps what was read for later processes, under all that it depends on: the tokens, the steps' places
            among them, the model's weights and configuration, and what computes with them.

    Attributes:
        width: numbers per step: of its last token, and of the mean of its tokens.
    """

    def __init__(self, name: str, layer: int, cache_dir: Path, store: ByteStore | None = None) -> None:
        self.name = name
        self._store = store
        self._identity = ""
        path = weights.source(name, cache_dir, _KEY)
        dtype = weights.choose_dtype("auto", torch.device("cpu"))
        try:
            self._tokenizer = AutoTokenizer.from_pretrained(path)
            with quietly():
                self._model = AutoModel.from_pretrained(path, dtype=dtype).eval().requires_grad_(False)
        except (OSError, ValueError) as error:
            raise UserError(f"{_KEY}: cannot load {name!r}: {str(error).strip().splitlines()[0]}") from None
        if not self._tokenizer.is_fast:
            raise UserError(f"{_KEY}: {name!r} has no fast tokenizer, which the offsets of tokens need")
        layers = getattr(self._model, "layers", None)
        if not isinstance(layers, nn.ModuleList) or not hasattr(self._model, "norm"):
            raise UserError(f"{_KEY}: {name!r} is no causal language model of Llama's kind")
        if layer > len(layers):
            raise UserError(f"{_KEY}: {name!r} has {len(layers)} layers, but layer {layer} is read")
        del layers[layer:]
        self._model.norm = nn.Identity()
        self.width: int = 2 * self._model.config.hidden_size
        self._known = lru_cache(maxsize=_CACHED)(self._read)

    @cached_property
    def fingerprint(self) -> str:
        """sha256 of the weights that are used, as 16 hexadecimal digits; the same in float32 and bfloat16."""
        digest = hashlib.sha256()
        for key, tensor in sorted(self._model.state_dict().items()):
            digest.update(key.encode())
            digest.update(tensor.to("cpu", torch.bfloat16).contiguous().view(torch.int16).numpy().tobytes())
        return digest.hexdigest()[:16]

    def read(self, instruction: str, spans: Iterable[tuple[int, int]]) -> Tensor:
        """(n, width) bfloat16 on the CPU; a row for each step.

        Args:
            spans: [start, end) character offsets of the steps in the instruction.

        Raises:
            UnreadableTextError: the instruction is too long to be read twice, or a step has no words.
        """
        return self._known(instruction, tuple((start, end) for start, end in spans))

    def _read(self, instruction: str, spans: Spans) -> Tensor:
        once = self._tokenizer(instruction, return_offsets_mapping=True, add_special_tokens=False, verbose=False)
        ids, offsets = once["input_ids"], once["offset_mapping"]
        start = self._tokenizer.bos_token_id
        between = self._tokenizer.encode(_BETWEEN, add_special_tokens=False)
        before = [*([] if start is None else [start]), *ids, *between]
        count, context = len(before) + len(ids), self._model.config.max_position_embeddings
        if count > context:
            raise UnreadableTextError(
                f"read twice, the text has {count} tokens, but {self.name!r} (planner.linker.language_model) takes "
                f"{context}"
            )
        places = []
        for number, (first, end) in enumerate(spans, start=1):
            if not instruction[first:end].strip():
                raise UnreadableTextError(f"step {number} has no words")
            inside = [i for i, (a, b) in enumerate(offsets, start=len(before)) if a < end and b > first and b > a]
            places.append((inside[0], inside[-1] + 1))
        tokens = [*before, *ids]
        if self._store is None:
            return self._computed(tokens, places)
        if not self._identity:  # what decides the numbers beside the tokens: the model, and what computes with it
            facts = (
                *(_VERSION, self.fingerprint, self._model.config.to_diff_dict(), self._model.dtype),
                *(self._model.device.type, torch.__version__, transformers.__version__),
            )
            self._identity = hashlib.sha256(repr(facts).encode()).hexdigest()
        key = f"{self._identity} {tokens} {places}"
        if (content := self._store.load(key)) is not None:
            return torch.frombuffer(bytearray(content), dtype=torch.bfloat16).view(len(places), self.width)
        found = self._computed(tokens, places)
        try:
            self._store.save(key, found.view(torch.int16).numpy().tobytes())
        except UserError as error:
            logger.warning("what the language model reads of given steps is not kept for later runs: %s", error)
            self._store = None
        return found

    @torch.no_grad()
    def _computed(self, tokens: list[int], places: list[tuple[int, int]]) -> Tensor:
        """(n, width) bfloat16: of the tokens [start, end) of each step the last one's output, and the mean."""
        hidden = self._model(torch.tensor([tokens], device=self._model.device), use_cache=False).last_hidden_state[0]
        rows = [torch.cat([hidden[end - 1], hidden[start:end].mean(0)]) for start, end in places]
        return torch.stack(rows).to("cpu", torch.bfloat16)

    def __deepcopy__(self, memo: dict[int, object]) -> StepEncoder:
        """Itself: copies of a planner share the model, which never changes, and its cache."""
        return self


@cache
def open_step_encoder(name: str, layer: int, cache_dir: Path) -> StepEncoder:
    """The process's reader of that description: whoever plans with it shares its weights and what it has read.

    What it has read is also kept in `cache_dir/steps`, 1 GiB at most.
    """
    return StepEncoder(name, layer, cache_dir, ByteStore(cache_dir / "steps", _MAX_STORED_BYTES))


@dataclass(frozen=True, eq=False)
class FoundSteps:
    """The n steps of one instruction.

    Attributes:
        text: the instruction, without its features.
        spans: (n, 2) first and last token of each step; edges: (n, n) bool; edge_logits: (n, n).
        sureness: (features,) see `PlanConfidence`.
    """

    text: EncodedText
    spans: Tensor
    edges: Tensor
    edge_logits: Tensor
    sureness: Tensor

    @classmethod
    def split(
        cls, texts: Sequence[EncodedText], structure: Structure, edge_logits: Tensor, sureness: Tensor
    ) -> list[FoundSteps]:
        """One per text, of (b, n, ...) tensors that are padded to the longest."""
        found = []
        for i, (text, n) in enumerate(zip(texts, structure.lengths.tolist(), strict=True)):
            light = replace(text, features=text.features[:0].copy(), meanings=text.meanings[:0].copy())
            kept = structure.spans[i, :n], structure.edges[i, :n, :n], edge_logits[i, :n, :n], sureness[i]
            found.append(cls(light, *(tensor.cpu().clone() for tensor in kept)))
        return found

    @staticmethod
    def collate(found: Sequence[FoundSteps], device: torch.device) -> tuple[Structure, Tensor]:
        """The steps and edges, and the (b, n, n) edge logits, padded with zeros to the longest."""
        lengths = torch.tensor([len(one.spans) for one in found], device=device)
        longest = int(lengths.max())

        def square(matrices: Sequence[Tensor]) -> Tensor:
            return torch.stack([F.pad(m, (0, longest - len(m), 0, longest - len(m))) for m in matrices]).to(device)

        spans = pad_sequence([one.spans for one in found], batch_first=True).to(device)
        structure = Structure(lengths, spans, square([one.edges for one in found]))
        return structure, square([one.edge_logits for one in found])


@torch.no_grad()
def plan_given(
    planner: PlannerModel, instructions: Sequence[str], steps: Sequence[Sequence[tuple[int, int]]]
) -> list[Plan]:
    """Plans that are greedy and have no decisions: nothing is learned from them but by imitation.

    Args:
        steps: for each instruction the [start, end) character offsets of the steps in it.
    """
    predictor, config, device = planner.edge_predictor, planner.config, planner.card_features.device
    plans: dict[int, Plan] = {}
    for i, (instruction, spans) in enumerate(zip(instructions, steps, strict=True)):
        try:
            predictor.read(instruction, spans)
        except UnreadableTextError as error:
            plans[i] = Plan(workflow=None, raw_valid=False, error=str(error))
    readable = {i: len(instruction) for i, instruction in enumerate(instructions) if i not in plans}
    with planner.without_dropout():
        for rows in length_batches(readable):
            said = [instructions[i] for i in rows]
            given = [torch.tensor(steps[i], device=device).view(-1, 2) for i in rows]
            targets = PlanTargets(
                lengths=torch.tensor([len(row) for row in given], device=device),
                spans=pad_sequence(given, batch_first=True, padding_value=IGNORE),
            )
            logits = predictor(said, targets)["edge_logits"]
            texts = [planner.encoder.encode(instruction) for instruction in said]
            offsets = padded([text.offsets for text in texts], device)
            asked = given_decisions(targets, offsets, len(config.task_types), len(planner.cards), config.max_fallbacks)
            structure = Structure(asked.lengths, asked.spans, best_expected_edges(logits, asked.steps))
            batch = planner.choose_workers(said, texts, structure)
            for i, plan in zip(rows, planner.finish(texts, batch, logits), strict=True):
                plans[i] = replace(plan, decisions=None)
    return [plans[i] for i in range(len(instructions))]


_LAYER, _HEADS = 20, 4
"""Of the language model, whose later layers are not computed, and of the attention of pairs to each other."""
_DROPOUT = 0.4
"""In phase 1, on what the language model gives and on what is made of it."""


class References(nn.Module):
    """Finds in a step's own words the tokens that are the number of another, as a figure or as an ordinal.

    Which step a number is of is not learned, so that one which no training plan had is understood. Whether it is a
    reference ("#2") or counts something ("2 cups") is learned, from the encoder's output there and at the tokens
    beside it.

    Args:
        text_encoder: of the instructions.
        out: width of the features of pairs.
        max_subtasks: most steps.
    """

    def __init__(self, text_encoder: TextEncoder, out: int, max_subtasks: int) -> None:
        super().__init__()
        width = 3 * text_encoder.width // 2
        self.around = nn.Sequential(nn.LayerNorm(width), nn.Dropout(_DROPOUT), nn.Linear(width, out), nn.GELU())
        self.out = nn.Linear(out, out, bias=False)
        self.numbers: Tensor
        # (count, 2) the tokens of each number as a figure and as an ordinal; -1 where it is no single one
        figures = [str(number) for number in range(1, max_subtasks + 1)]
        spelled = zip_longest(figures, ORDINALS[:max_subtasks], fillvalue="")
        ids = [[text_encoder.token_ids(word) for word in words] for words in spelled]
        single = [[found[0] if len(found) == 1 else -1 for found in row] for row in ids]
        self.register_buffer("numbers", torch.tensor(single), persistent=False)

    def forward(self, tokens: Tensor, ids: Tensor, spans: Tensor, steps: Tensor) -> Tensor:
        """(b, n, n, out), 0 where the words of the column's step have no number of the row's.

        Args:
            tokens: (b, t, width) the encoder's output; ids: (b, t) of its vocabulary.
            spans: (b, n, 2) first and last tokens of the steps.
            steps: (b, n) bool; the steps that exist.
        """
        n, position = steps.shape[1], torch.arange(ids.shape[1], device=ids.device)
        own = (position >= spans[..., :1]) & (position <= spans[..., 1:]) & steps[..., None]
        is_number = (ids[:, None, None] == self.numbers[:n, :, None]).any(2)
        named = (is_number[:, :, None] & own[:, None]).to(tokens.dtype)
        padded = F.pad(tokens, (0, 0, 1, 1))
        around = self.around(torch.cat([padded[:, :-2], tokens, padded[:, 2:]], -1))
        found: Tensor = self.out(named.flatten(1, 2) @ around)
        return found.unflatten(1, (n, n))


class EdgePredictor(nn.Module):
    """Says for each ordered pair of given steps whether the second needs the first.

    Which of two everyday steps comes first is written nowhere in them: it takes what a language model has read of the
    world (`StepEncoder`). A pair is described by both steps, by their product, by how far apart they are listed, by
    what sentences behind the steps say of the two (`Mentions`), and by what the second step's own words say of the
    first (`References`). Then pairs with the same second step see each other.

    Args:
        text_encoder: of the instructions.
        max_subtasks: most steps.
        cache_dir: where a packaged language model is converted to.

    Attributes:
        step_encoder: what the language model knows of steps; its weights are not among the module's.
    """

    def __init__(self, config: LinkerConfig, text_encoder: TextEncoder, max_subtasks: int, cache_dir: Path) -> None:
        super().__init__()
        d, wide = config.d_model, 3 * config.d_model
        self.text_encoder = text_encoder
        self.step_encoder = open_step_encoder(config.language_model, _LAYER, cache_dir)
        self.max_subtasks = max_subtasks
        width, token_width = self.step_encoder.width, text_encoder.width // 2
        self.step = nn.Sequential(nn.LayerNorm(width), nn.Dropout(_DROPOUT), nn.Linear(width, wide))
        self.parent = nn.Linear(wide, d)
        self.child = nn.Linear(wide, d)
        self.product = nn.ModuleList([nn.Linear(wide, d), nn.Linear(wide, d)])
        self.distance = nn.Embedding(2 * max_subtasks - 1, d)
        self.mentions = Mentions(token_width, d)
        self.rivals = EncoderLayer(d, _HEADS, _DROPOUT)
        self.out = nn.Sequential(nn.LayerNorm(d), nn.Dropout(_DROPOUT), mlp(d, d, 1))
        self.references = References(text_encoder, d, max_subtasks)

    def forward(self, instructions: Sequence[str], targets: PlanTargets) -> GivenEdges:
        """Edges of the steps that the instructions list, at `targets["spans"]`.

        Raises:
            UnreadableTextError: an instruction is empty or too long, or a step has no words.
        """
        device = targets["spans"].device
        texts = [self.text_encoder.encode(instruction) for instruction in instructions]
        offsets = padded([text.offsets for text in texts], device)
        steps = existing_steps(targets)
        spans = token_spans(targets["spans"][:, : steps.shape[1]], offsets)
        rows = zip(instructions, targets["spans"].tolist(), steps.sum(-1).tolist(), strict=True)
        read = [self.step_encoder.read(text, row[:count]) for text, row, count in rows]
        known = pad_sequence([one.to(device, torch.float32) for one in read], batch_first=True)
        step = self.step(known)
        n = steps.shape[1]
        listed = torch.arange(n, device=device)
        pairs = self.parent(step)[:, :, None] + self.child(step)[:, None]
        pairs = pairs + self.product[0](step)[:, :, None] * self.product[1](step)[:, None]
        pairs = pairs + self.distance(listed - listed[:, None] + self.max_subtasks - 1)
        tokens, ids = padded([text.hidden for text in texts], device), padded([text.ids for text in texts], device)
        said: Tensor = self.mentions(tokens, ids, present(texts, device), spans, steps)
        pairs = pairs + (said + self.references(tokens, ids, spans, steps))
        rivals = self.rivals(pairs.transpose(1, 2).flatten(0, 1), steps.repeat_interleave(n, 0)[:, None, None])
        logits: Tensor = self.out(rivals)[..., 0].unflatten(0, (-1, n)).transpose(1, 2)
        return GivenEdges(edge_logits=logits, workflow_graph=logits.sigmoid())

    def read(self, instruction: str, spans: Sequence[tuple[int, int]]) -> None:
        """See whether the steps can be planned; what was read of them is kept for it.

        Args:
            spans: [start, end) character offsets of the steps in the instruction.

        Raises:
            UnreadableTextError: the instruction is empty or too long, or there are no steps, too many, or one without
                words.
        """
        if not spans:
            raise UnreadableTextError("no steps are given")
        if len(spans) > self.max_subtasks:
            raise UnreadableTextError(f"{len(spans)} steps, but planner.max_subtasks is {self.max_subtasks}")
        check_words(spans, self.text_encoder.encode(instruction).offsets)
        self.step_encoder.read(instruction, spans)


class Mentions(nn.Module):
    """What the sentences behind the steps say of every ordered pair of them, by their numbers ("after step 2, step 4").

    Sentences that name both steps are read as means of their tokens, apart from whether the first or the second step is
    named first; what that means is learned.
    """

    def __init__(self, width: int, out: int) -> None:
        super().__init__()
        self.in_order = nn.Linear(width, out)
        self.reversed = nn.Linear(width, out)

    def forward(self, tokens: Tensor, ids: Tensor, mask: Tensor, spans: Tensor, steps: Tensor) -> Tensor:
        """(b, n, n, out), 0 where no sentence names both.

        Args:
            tokens: (b, t, width); ids: (b, t) of the tokens' vocabulary; mask: (b, t) bool, those that exist.
            spans: (b, n, 2) first and last tokens of the steps, before which their number stands, and a full stop.
            steps: (b, n) bool; the steps that exist.
        """
        position = torch.arange(ids.shape[1], device=ids.device)
        first, last = spans.unbind(-1)
        number, stop = (ids.gather(1, (first - back).clamp(min=0)) for back in (2, 1))
        behind = mask & (position > torch.where(steps, last, 0).amax(1, keepdim=True))
        sentence = ((ids == stop[:, :1]) & behind).cumsum(1).roll(1, 1) * behind
        count = int(sentence.max()) + 1
        within = torch.nn.functional.one_hot(sentence, count).bool() & behind[..., None]
        names = (ids[:, None] == number[..., None]) & behind[:, None] & steps[..., None]
        place = torch.where(names[..., None] & within[:, None], position[:, None], ids.shape[1]).amin(2)
        both = (place < ids.shape[1])[:, :, None] & (place < ids.shape[1])[:, None]
        ordered = place[:, :, None] < place[:, None]
        share = within.float() / within.sum(1, keepdim=True).clamp(min=1)
        said = share.transpose(1, 2).to(tokens.dtype) @ tokens
        found = [
            (both & order).to(said.dtype).flatten(1, 2) @ read(said)
            for order, read in ((ordered, self.in_order), (~ordered, self.reversed))
        ]
        n = steps.shape[1]
        apart = ~torch.eye(n, dtype=torch.bool, device=ids.device)
        return sum(found[1:], found[0]).unflatten(1, (n, n)) * apart[..., None]
