"""The small planner: a frozen text encoder, a decoder that points at the words of steps, a selector of workers."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence

from orchestai.config import PlannerConfig
from orchestai.errors import UserError
from orchestai.lm.length_batches import length_batches
from orchestai.planner.base import Plan
from orchestai.planner.slots.decisions import STRUCTURE, Chooser, DecisionBatch, explored
from orchestai.planner.slots.decoder import Structure, StructureDecoder, StructureLogits
from orchestai.planner.slots.decoding_rules import by_the_rules, finish_plan, rank_by_cards, step_words
from orchestai.planner.slots.layers import InstructionMemory, InstructionReader
from orchestai.planner.slots.losses import PlannerOutputs, PlanTargets, given_decisions, supervised_loss
from orchestai.planner.slots.scores import PlanConfidence, score, sureness
from orchestai.planner.slots.selector import WorkerSelector
from orchestai.planner.slots.text_encoder import EncodedText, TextEncoder, UnreadableTextError, open_encoder
from orchestai.tasks.task import Task
from orchestai.threads import usable_cores
from orchestai.types import AnyDecisions, DecisionKind, Decisions, SampleSpec, Scores
from orchestai.workers.base import WorkerCard

_SEARCHED_AT_ONCE = 4
"""Instructions whose steps one thread looks for together; 16 need .4 GB more on two cores and are no quicker."""


_KEPT = 10_000
"""Instructions whose steps are kept, some 2 kB each."""


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


class PlannerModel(nn.Module):
    """Turns instructions into workflows for the workers that `cards` describe.

    Its parameters know nothing of the pool's names or size, and the encoder's weights are not among them. Without cards
    it plans steps and edges alone.

    Args:
        encoder: in place of the configured one.

    Attributes:
        by_cards: whether workers are chosen by what their cards say, since nothing was learned of them.
        base: digest of the base planner that its weights began with; empty if they began from nothing.
    """

    def __init__(self, config: PlannerConfig, cards: Sequence[WorkerCard], encoder: TextEncoder | None = None) -> None:
        super().__init__()
        self.config = config
        self.cards = tuple(cards)
        self.encoder = encoder or open_encoder(config.max_tokens)
        features = card_features(self.cards, self.encoder)
        self.card_features: Tensor
        self.register_buffer("card_features", features, persistent=False)
        self.reader = InstructionReader(self.encoder, config)
        self.decoder = StructureDecoder(self.encoder.width // 2, config)
        self.selector = WorkerSelector(self.encoder, features.shape[1], config)
        self.confidence = PlanConfidence()
        self.by_cards = False
        self.base = ""
        self._found: dict[str, FoundSteps] = {}
        self.register_load_state_dict_post_hook(_forget_steps)

    def forward(self, instructions: Sequence[str], targets: PlanTargets | None = None) -> PlannerOutputs:
        """Outputs along the plans in `targets`, or, without them, along the model's own plans of `max_subtasks` steps.

        Raises:
            UnreadableTextError: an instruction is empty or too long.
        """
        memory = self.read([self.encoder.encode(instruction) for instruction in instructions])
        if targets is not None:
            plans = given_decisions(
                targets, memory.offsets, len(self.config.task_types), len(self.cards), self.config.max_fallbacks
            )
        else:
            with torch.no_grad():
                chooser = Chooser(None, len(instructions), self.decoder.layout, memory.mask.device)
                structure, _ = self.decoder.decode(memory, chooser, stops=False)
                words = self.words_of(instructions, memory.offsets, structure)
                plans = self.selector.select(words, self.card_features, structure, chooser)
        logits = self.decoder(memory, plans)
        outputs = PlannerOutputs(
            subtask_embeddings=logits.steps,
            workflow_graph=logits.edges.sigmoid(),
            edge_logits=logits.edges,
            parent_counts=logits.parent_counts,
            go_on=logits.go_on,
            span_starts=logits.start,
            span_ends=logits.end,
            boundaries=logits.boundaries,
            token_offsets=memory.offsets,
        )
        if self.cards:
            selection = self.selector(self.words_of(instructions, memory.offsets, plans), self.card_features, plans)
            outputs["task_types"] = selection.types
            outputs["model_selections"] = selection.workers
            outputs["fallback"] = selection.fallbacks
        return outputs

    def compute_supervised_loss(
        self, outputs: PlannerOutputs, targets: PlanTargets, lambda_dag: float
    ) -> dict[str, Tensor]:
        """See `supervised_loss`."""
        return supervised_loss(outputs, targets, lambda_dag)

    def plan(self, tasks: Sequence[Task], *, sample: SampleSpec | None = None) -> list[Plan]:
        """Plan greedily, or sample as `sample` says. A task that cannot be read gets a plan without a workflow.

        Plans keep to the rules of `decoding_rules`.
        """
        plans = self.plan_instructions([task.instruction for task in tasks], sample=sample)
        return [by_the_rules(task, plan) for task, plan in zip(tasks, plans, strict=True)]

    def plan_instructions(self, instructions: Sequence[str], *, sample: SampleSpec | None = None) -> list[Plan]:
        """`plan` for bare instructions."""
        if sample is not None and len(sample.seeds) != len(instructions):
            raise ValueError(f"{len(instructions)} instructions, but {len(sample.seeds)} seeds")
        plans: dict[int, Plan] = {}
        readable: dict[int, EncodedText] = {}
        searched = sample is None or not sample.explore & STRUCTURE
        found = {t: one for t in set(instructions) if (one := self._found.get(t))} if self._keeps(searched) else {}
        read: dict[str, EncodedText | UnreadableTextError] = {text: one.text for text, one in found.items()}
        missing = [text for text in instructions if text not in read]
        read |= zip(missing, self.encoder.encode_all(missing, keep=not self._keeps(searched)), strict=True)
        for i, instruction in enumerate(instructions):
            if isinstance(text := read[instruction], UnreadableTextError):
                plans[i] = Plan(workflow=None, raw_valid=False, error=str(text))
            else:
                readable[i] = text
        with self.without_dropout(), torch.inference_mode() if sample is None else torch.no_grad():
            if searched:
                found |= self._find([text for text in readable.values() if text.text not in found])
            for rows in length_batches({i: len(text) for i, text in readable.items()}):
                part = None if sample is None else replace(sample, seeds=[sample.seeds[i] for i in rows])
                texts = [readable[i] for i in rows]
                plans.update(zip(rows, self._plan(texts, found, part), strict=True))
        if self._keeps(searched):
            self._found |= found
            for oldest in list(self._found)[: max(0, len(self._found) - _KEPT)]:
                self._found.pop(oldest, None)
        return [plans[i] for i in range(len(instructions))]

    def score(
        self,
        tasks: Sequence[Task],
        decisions: Sequence[AnyDecisions],
        *,
        explore: frozenset[DecisionKind],
        temperature: float,
    ) -> Scores:
        """Log-probabilities of `decisions` under the present weights, without dropout.

        Equal to `Plan.logp` under the same weights and temperature, up to rounding (1e-5).

        Raises:
            TypeError: a language model made a decision.
        """
        known = [one for one in decisions if isinstance(one, Decisions)]
        if len(known) < len(decisions):
            raise TypeError("heads score their own decisions, not tokens")
        instructions, layout = [task.instruction for task in tasks], self.decoder.layout
        given = DecisionBatch.collate(known, self.card_features.device)
        structure = selection = free = None
        with self.without_dropout():
            if explore & STRUCTURE:
                memory = self.read([self.encoder.encode(instruction) for instruction in instructions])
                structure = self.decoder(memory, given)
                free = self.decoder.free_edges(given.spans, given.steps, memory)
            if explore - STRUCTURE:
                offsets = [self.encoder.offsets(instruction) for instruction in instructions]
                selection = self.selector(self.words_of(instructions, offsets, given), self.card_features, given)
        mask = explored(given, free, len(self.cards), explore, layout)
        return score(structure, selection, given, mask, temperature, layout)

    @property
    def max_slots(self) -> int:
        """Slots of every row."""
        return self.decoder.layout.slots

    def cost(self, decisions: Sequence[AnyDecisions]) -> int:
        """Slots of so many rows."""
        return len(decisions) * self.max_slots

    def reference(self) -> None:
        """What was learned cannot be switched off."""

    def learn_only(self, explore: frozenset[DecisionKind]) -> None:
        """Keep steps and edges as they are, unless one of the kinds that make them up is in `explore`.

        Kinds share weights: those of steps and edges learn together, and so do types, workers and fallbacks.
        """
        self.by_cards = False
        structural = bool(explore & STRUCTURE)
        for part in (self.reader, self.decoder):
            part.requires_grad_(structural)
        self._found = {}

    def _plan(
        self,
        encoded: Sequence[EncodedText],
        found: Mapping[str, FoundSteps],
        sample: SampleSpec | None,
    ) -> list[Plan]:
        """Plan with the steps that were found, or with some drawn by chance where `sample` explores them."""
        layout, device = self.decoder.layout, self.card_features.device
        chooser = Chooser(sample, len(encoded), layout, device)
        memory = None
        if sample is not None and sample.explore & STRUCTURE:
            memory = self.read(encoded)
            structure, logits = self.decoder.decode(memory, chooser)
            edge_logits = logits.edges
        else:
            structure, edge_logits = FoundSteps.collate([found[text.text] for text in encoded], device)
        batch = self.choose_workers([text.text for text in encoded], encoded, structure, chooser)
        if sample is not None:
            free = None if memory is None else self.decoder.free_edges(batch.spans, batch.steps, memory)
            mask = explored(batch, free, len(self.cards), sample.explore, layout)
            return self.finish(encoded, batch, edge_logits, (chooser.logp * mask).cpu())
        plans = self.finish(encoded, batch, edge_logits)
        if not self.confidence.is_known:
            return plans
        sureness = torch.stack([found[text.text].sureness for text in encoded]).to(device)
        chances = self.confidence(sureness).tolist()
        return [replace(plan, confidence=chance) for plan, chance in zip(plans, chances, strict=True)]

    def _keeps(self, searched: bool) -> bool:
        """Whether steps that are found by search are kept: what finds them does not learn, and finds the same again."""
        finders = self.reader, self.decoder
        return searched and not any(weight.requires_grad for part in finders for weight in part.parameters())

    def share_steps(self, other: PlannerModel) -> None:
        """Keep found steps together with another planner that finds the same ones, as two of one base do."""
        for part, its in ((self.reader, other.reader), (self.decoder, other.decoder)):
            mine, theirs = part.state_dict(), its.state_dict()
            if mine.keys() != theirs.keys() or not all(torch.equal(mine[name], theirs[name]) for name in mine):
                return
        if self.encoder is other.encoder and self.config == other.config:
            self._found = other._found

    def _find(self, encoded: Sequence[EncodedText]) -> dict[str, FoundSteps]:
        """The likeliest steps and edges by text."""
        known: dict[str, FoundSteps] = {}
        missing = list({text.text: text for text in encoded}.values())
        lengths = {i: len(text) for i, text in enumerate(missing)}
        batches = [[missing[i] for i in rows] for rows in length_batches(lengths, _SEARCHED_AT_ONCE)]
        with ThreadPoolExecutor(usable_cores()) as threads:
            for found in threads.map(self._search, batches) if len(batches) > 1 else map(self._search, batches):
                known |= {one.text.text: one for one in found}
        return known

    @torch.no_grad()
    def _search(self, texts: Sequence[EncodedText]) -> list[FoundSteps]:
        memory = self.read(texts)
        structure, logits = self.decoder.search(memory)
        fallbacks = self.decoder.layout.max_fallbacks
        unchosen = DecisionBatch.without_workers(structure.lengths, structure.spans, structure.edges, fallbacks)
        return FoundSteps.split(texts, structure, logits.edges, self.sureness_of(logits, memory, unchosen))

    def choose_workers(
        self,
        instructions: Sequence[str],
        encoded: Sequence[EncodedText],
        structure: Structure,
        chooser: Chooser | None = None,
    ) -> DecisionBatch:
        """Types and workers for given steps: as learned, or by the cards of a pool that it has not learned.

        Args:
            chooser: None takes the likeliest.
        """
        device, layout = self.card_features.device, self.decoder.layout
        if self.cards and not self.by_cards:
            words = self.words_of(instructions, [text.offsets for text in encoded], structure)
            chooser = chooser or Chooser(None, len(instructions), layout, device)
            return self.selector.select(words, self.card_features, structure, chooser)
        rows = zip(instructions, encoded, structure.spans.tolist(), structure.lengths.tolist(), strict=True)
        steps = [[step_words(text, its.offsets, span) for span in spans[:n]] for text, its, spans, n in rows]
        # those first whose cards say what the steps' words do; W stands for no further one
        most, count = 1 + self.config.max_fallbacks, sum(map(len, steps))
        first = torch.zeros(count, most, dtype=torch.long)
        if self.cards:
            meant, said = [words for row in steps for words in row], [card.text for card in self.cards]
            nearest = torch.from_numpy(rank_by_cards(self.encoder.sentences(meant), self.encoder.sentences(said)))
            first = F.pad(nearest, (0, max(most - nearest.shape[1], 0)), value=len(self.cards))[:, :most]
        ranks = first.split([len(row) for row in steps])
        longest = structure.spans.shape[1]
        ranked = torch.stack([F.pad(its, (0, 0, 0, longest - len(its))) for its in ranks]).to(device)
        return DecisionBatch(
            structure.lengths,
            structure.spans,
            torch.full_like(structure.spans[..., 0], len(self.config.task_types)),
            ranked[..., 0],
            ranked[..., 1:],
            structure.edges,
        )

    @torch.no_grad()
    def sureness(self, instructions: Sequence[str], decisions: Sequence[Decisions]) -> Tensor:
        """(plans, features) that `PlanConfidence` learns from."""
        rows = []
        with self.without_dropout():
            for instruction, one in zip(instructions, decisions, strict=True):
                memory = self.read([self.encoder.encode(instruction)])
                given = DecisionBatch.collate([one], memory.mask.device)
                rows.append(self.sureness_of(self.decoder(memory, given), memory, given))
        return torch.cat(rows)

    def words_of(
        self,
        instructions: Sequence[str],
        offsets: Sequence[NDArray[np.int64]] | Tensor,
        plans: Structure | DecisionBatch,
    ) -> Tensor:
        """(b, n, d) what the selector reads of the steps' words.

        Args:
            offsets: of each instruction (t, 2) [start, end) character offsets of its tokens.
        """
        rows = zip(instructions, offsets, plans.spans.tolist(), plans.lengths.tolist(), strict=True)
        steps = [[step_words(text, its, span) for span in spans[:n]] for text, its, spans, n in rows]
        words = self.selector.read(steps, self.card_features.device)
        return F.pad(words, (0, 0, 0, plans.spans.shape[1] - words.shape[1]))

    def sureness_of(self, logits: StructureLogits, memory: InstructionMemory, given: DecisionBatch) -> Tensor:
        """(b, features) of plans, given the logits along them, that `PlanConfidence` learns from."""
        layout = self.decoder.layout
        free = self.decoder.free_edges(given.spans, given.steps, memory)
        mask = explored(given, free, len(self.cards), STRUCTURE, layout)
        return sureness(score(logits, None, given, mask, 1.0, layout), given.lengths, layout)

    def finish(
        self,
        encoded: Sequence[EncodedText],
        decisions: DecisionBatch,
        edge_logits: Tensor,
        logp: Tensor | None = None,
    ) -> list[Plan]:
        """The plans that were decided, with as many of their edges as a DAG can have.

        Args:
            edge_logits: (b, n, n), by which edges are dropped.
            logp: see `Plan`, by row.
        """
        names, types = [card.name for card in self.cards], (*self.config.task_types, "")
        plans = []
        for i, (row, odds) in enumerate(zip(decisions.rows(), edge_logits.detach().cpu(), strict=True)):
            chosen = torch.cat([row.workers[:, None], row.fallbacks], 1).tolist()
            plan = finish_plan(
                encoded[i],
                row.spans.numpy(),
                row.edges.numpy(),
                odds[: row.length, : row.length].numpy(),
                [types[kind] for kind in row.types.tolist()],
                [[names[w] for w in its if w < len(names)] for its in chosen],
            )
            plans.append(replace(plan, decisions=row, logp=None if logp is None else logp[i]))
        return plans

    def read(self, encoded: Sequence[EncodedText]) -> InstructionMemory:
        """The memory of the texts; one that occurs several times is read once."""
        distinct = {id(text): text for text in encoded}
        number = {key: i for i, key in enumerate(distinct)}
        place = torch.tensor([number[id(text)] for text in encoded])
        return self.reader(list(distinct.values()), self.card_features.device)[place]

    @contextmanager
    def without_dropout(self) -> Iterator[None]:
        """Evaluation mode; the present one afterwards."""
        if not self.training:
            yield
            return
        self.eval()
        try:
            yield
        finally:
            self.train()


def _forget_steps(planner: nn.Module, _: object) -> None:
    """Other weights find other steps; those kept together with another planner stay that one's."""
    assert isinstance(planner, PlannerModel)
    planner._found = {}


def card_features(cards: Sequence[WorkerCard], encoder: TextEncoder) -> Tensor:
    """(W, encoder width + 2) features: the card's words, its price's logarithm, and 1 if it asks no language model."""
    if not cards:
        return torch.zeros(0, encoder.width + 2)
    read = []
    for card in cards:
        try:
            read.append(encoder.embed([card.text]))
        except UnreadableTextError as error:
            raise UserError(f"workers.pool.{card.name}.card: {error}") from None
    words = torch.from_numpy(np.concatenate(read)) * math.sqrt(encoder.width)
    facts = [[(math.log10(card.price_usd + 1e-8) + 5) / 2, float(card.kind == "tool")] for card in cards]
    return torch.cat([words, torch.tensor(facts)], -1)
