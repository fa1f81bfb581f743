"""What one plan is worth beside a plan that somebody wrote."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from orchestai.data.training_file import TrainingExample
from orchestai.evaluation.plans import graphs
from orchestai.planner.base import Plan
from orchestai.planner.slots.encoder import TextEncoder, UnreadableTextError
from orchestai.tasks.examples import clean
from orchestai.workflow import Workflow

SAME_STEP = 0.6
"""Steps in other words are the same from this cosine of their sentence embeddings on; WorFEval's program has it too."""

EmbedSentences: TypeAlias = Callable[[Sequence[str]], NDArray[np.float32]]
"""Sentences give (sentences, width) unit vectors, and 0 for one that says nothing or is too long."""


@dataclass(frozen=True)
class PlanScore:
    """Scores in [0, 1], but `critical_path_error`; NaN where a score does not exist. A missing plan has 0 throughout.

    Attributes:
        node_f1: steps found, by meaning.
        node_f1_exact: steps found, by their words.
        edge_f1: edges found, between the steps that were found.
        closure_f1: the same of what comes before what.
        exact_graph: all steps found, and all edges right.
        chain_f1, graph_f1: WorFEval's two scores.
        raw_validity: whether the plan was one before anything was repaired.
        decoded_validity: whether there is a plan in the end.
        critical_path_error: |time that the plan takes - time of the reference| / the latter, where steps are given with
            durations, and the plan has each of them once.
    """

    node_f1: float
    node_f1_exact: float
    edge_f1: float
    closure_f1: float
    exact_graph: float
    chain_f1: float
    graph_f1: float
    raw_validity: float
    decoded_validity: float
    critical_path_error: float = math.nan


METRICS = tuple(field.name for field in fields(PlanScore))


@dataclass(frozen=True)
class PlannedGraph:
    """Steps in the order in which they can be done, and edges between their places; `valid` is the raw validity."""

    words: tuple[str, ...]
    edges: frozenset[tuple[int, int]]
    valid: bool = True

    @classmethod
    def of(cls, plan: Plan) -> PlannedGraph | None:
        """None where there is no workflow."""
        return None if plan.workflow is None else cls.of_workflow(plan.workflow, plan.raw_valid)

    @classmethod
    def of_workflow(cls, workflow: Workflow, valid: bool = True) -> PlannedGraph:
        edges = frozenset((p, child) for child, parents in enumerate(workflow.dependencies()) for p in parents)
        return cls(tuple(clean(subtask.instruction) for subtask in workflow.subtasks), edges, valid)

    @property
    def order(self) -> list[int]:
        """Places in a topological order; ties as listed."""
        waiting, done = set(range(len(self.words))), list[int]()
        while waiting:
            ready = min(node for node in waiting if not any(b == node and a in waiting for a, b in self.edges))
            waiting.remove(ready)
            done.append(ready)
        return done


def score_plan(made: PlannedGraph | None, example: TrainingExample, embed: EmbedSentences) -> PlanScore:
    """The score of a plan for `example`. Given steps that the plan lists as given are the same by their place."""
    wanted = PlannedGraph.of_workflow(example.targets.workflow())
    if made is None:
        return PlanScore(**dict.fromkeys(METRICS[:-1], 0.0))
    sizes = len(made.words), len(wanted.words)
    in_place = example.given and made.words == wanted.words
    if in_place:
        exact = match = {i: i for i in range(sizes[1])}
    else:
        exact = graphs.match_greedily(_equal(made.words, wanted.words), 1.0)
        match = graphs.match_greedily(embed(made.words) @ embed(wanted.words).T, SAME_STEP)
    edges = graphs.edge_f1(made.edges, wanted.edges, match)
    return PlanScore(
        node_f1=graphs.node_f1(match, *sizes),
        node_f1_exact=graphs.node_f1(exact, *sizes),
        edge_f1=edges,
        closure_f1=graphs.edge_f1(graphs.closure(made.edges), graphs.closure(wanted.edges), match),
        exact_graph=float(len(match) == sizes[0] == sizes[1] and edges == 1.0),
        chain_f1=graphs.chain_f1(made.order, wanted.edges, match, sizes[1]),
        graph_f1=graphs.graph_f1(made.edges, wanted.edges, match, *sizes),
        raw_validity=float(made.valid),
        decoded_validity=1.0,
        critical_path_error=_critical_path_error(made, wanted, example, exact) if example.given else math.nan,
    )


def sentence_embedder(encoder: TextEncoder) -> EmbedSentences:
    """Mean of the encoder's last layer over the tokens, as all-MiniLM-L6-v2 was trained to be compared."""

    def embed(sentences: Sequence[str]) -> NDArray[np.float32]:
        return np.stack([vector(sentence) for sentence in sentences])

    def vector(sentence: str) -> NDArray[np.float32]:
        try:
            mean = encoder.encode(sentence).hidden.float().mean(0).numpy()
        except UnreadableTextError:
            return np.zeros(encoder.width // 2, np.float32)
        return mean / np.linalg.norm(mean)

    return embed


def _equal(made: Sequence[str], wanted: Sequence[str]) -> NDArray[np.float64]:
    plain = [" ".join(words.casefold().split()).rstrip(".") for words in (*made, *wanted)]
    return np.array([[float(a == b) for b in plain[len(made) :]] for a in plain[: len(made)]])


def _critical_path_error(
    made: PlannedGraph, wanted: PlannedGraph, example: TrainingExample, match: graphs.Match
) -> float:
    durations = [seconds for seconds in example.targets.durations if seconds is not None]
    if not len(made.words) == len(match) == len(durations) == len(example.targets):
        return math.nan
    planned = graphs.critical_path(made.edges, [durations[match[i]] for i in range(len(match))])
    right = graphs.critical_path(wanted.edges, durations)
    return abs(planned - right) / right if right else math.nan
