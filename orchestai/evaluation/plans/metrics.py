"""What one plan is worth beside a plan that somebody wrote."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from orchestai.data.training_file import TrainingExample
from orchestai.planner import plan_metrics
from orchestai.planner.slots.encoders.sentences import EmbedSentences
from orchestai.tasks.visible_examples import clean
from orchestai.workflow import Workflow

SAME_STEP = 0.6
"""Steps in other words are the same from this cosine of their sentence embeddings on; WorFEval's program has it too."""


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


def words_of(workflow: Workflow) -> tuple[str, ...]:
    """The steps' words, without the examples among them."""
    return tuple(clean(subtask.instruction) for subtask in workflow.subtasks)


def score_plan(made: Workflow | None, example: TrainingExample, embed: EmbedSentences, valid: bool = True) -> PlanScore:
    """The score of a plan for `example`. Given steps that the plan lists as given are the same by their place.

    Args:
        valid: the raw validity.
    """
    wanted = example.workflow
    if made is None:
        return PlanScore(**dict.fromkeys(METRICS[:-1], 0.0))
    sizes, words = (len(made), len(wanted)), (words_of(made), words_of(wanted))
    if example.given and words[0] == words[1]:
        exact = match = {i: i for i in range(len(wanted))}
    else:
        exact = plan_metrics.match_greedily(_equal(*words), 1.0)
        match = plan_metrics.match_greedily(embed(words[0]) @ embed(words[1]).T, SAME_STEP)
    drawn, right = plan_metrics.edges_of(made), plan_metrics.edges_of(wanted)
    place = {subtask.id: i for i, subtask in enumerate(made.subtasks)}
    order = [place[subtask.id] for subtask in made.order()]
    edges = plan_metrics.edge_f1(drawn, right, match)
    return PlanScore(
        node_f1=plan_metrics.node_f1(match, *sizes),
        node_f1_exact=plan_metrics.node_f1(exact, *sizes),
        edge_f1=edges,
        closure_f1=plan_metrics.edge_f1(plan_metrics.closure(drawn), plan_metrics.closure(right), match),
        exact_graph=float(len(match) == sizes[0] == sizes[1] and edges == 1.0),
        chain_f1=plan_metrics.chain_f1(order, right, match, len(wanted)),
        graph_f1=plan_metrics.graph_f1(drawn, right, match, *sizes),
        raw_validity=float(valid),
        decoded_validity=1.0,
        critical_path_error=_critical_path_error(made, example, exact) if example.given else math.nan,
    )


def _equal(made: Sequence[str], wanted: Sequence[str]) -> NDArray[np.float64]:
    plain = [" ".join(words.casefold().split()).rstrip(".") for words in (*made, *wanted)]
    return np.array([[float(a == b) for b in plain[len(made) :]] for a in plain[: len(made)]])


def _critical_path_error(made: Workflow, example: TrainingExample, match: plan_metrics.Match) -> float:
    wanted, seconds = example.workflow, example.seconds
    if not len(made) == len(match) == len(seconds) == len(wanted):
        return math.nan
    places = enumerate(made.subtasks)
    planned = made.critical_path({subtask.id: seconds[wanted.subtasks[match[i]].id] for i, subtask in places})
    right = wanted.critical_path(seconds)
    return abs(planned - right) / right if right else math.nan
