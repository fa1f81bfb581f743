"""Everything rests on a Workflow being a DAG: invalid ones must not exist, valid ones must survive serialization."""

import json

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestai import Subtask, Workflow, WorkflowError


@st.composite
def workflows(draw: st.DrawFn) -> Workflow:
    """Random DAGs whose listing order is unrelated to their topological order."""
    n = draw(st.integers(1, 8))
    names = draw(st.lists(st.text("abcdefgh123", min_size=1, max_size=4), min_size=n, max_size=n, unique=True))
    subtasks = []
    for i, name in enumerate(names):
        parents = draw(st.lists(st.sampled_from(names[:i]), unique=True)) if i else []
        workers = draw(st.lists(st.sampled_from(["w1", "w2", "w3"]), min_size=1, max_size=3))
        subtasks.append(
            Subtask(id=name, instruction=f"do {name}", worker=workers[0], fallback=workers[1:], depends_on=parents)
        )
    return Workflow(draw(st.permutations(subtasks)))


@given(workflows())
def test_json_gives_the_same_workflow_back(workflow):
    assert Workflow(**json.loads(json.dumps(workflow.to_dict()))) == workflow


@given(workflows())
def test_order_puts_every_parent_before_its_children(workflow):
    seen: set[str] = set()
    for subtask in workflow.order():
        assert set(subtask.depends_on) <= seen
        seen.add(subtask.id)
    assert len(seen) == len(workflow)


@given(workflows())
def test_adjacency_and_dependencies_describe_the_same_edges(workflow):
    matrix = workflow.adjacency()
    edges = {(i, j) for i, row in enumerate(matrix) for j, edge in enumerate(row) if edge}
    assert edges == {(p, j) for j, parents in enumerate(workflow.dependencies()) for p in parents}
    assert all(matrix[i][i] == 0 for i in range(len(workflow)))


@given(workflows(), st.data())
def test_any_edge_against_the_order_is_refused_as_a_cycle(workflow, data):
    order = workflow.order()
    child = data.draw(st.sampled_from(order))
    reachable = [a for a in order if a.id in workflow.needed_for(child.id) - {child.id}]
    if not reachable:
        return
    parent = data.draw(st.sampled_from(reachable))
    with pytest.raises(WorkflowError, match="cycle"):
        workflow.replace({parent.id: {"depends_on": (*parent.depends_on, child.id)}})


@given(workflows())
def test_order_and_needs_are_those_of_networkx(workflow):
    graph = nx.DiGraph()
    graph.add_nodes_from(subtask.id for subtask in workflow.subtasks)
    graph.add_edges_from(workflow.edges())
    place = {subtask.id: i for i, subtask in enumerate(workflow.subtasks)}
    expected = list(nx.lexicographical_topological_sort(graph, key=place.__getitem__))
    assert [subtask.id for subtask in workflow.order()] == expected
    for subtask in workflow.subtasks:
        assert workflow.needed_for(subtask.id) == nx.ancestors(graph, subtask.id) | {subtask.id}


def test_critical_path_of_a_diamond():
    diamond = Workflow(
        [
            Subtask(id="a", instruction=""),
            Subtask(id="b", instruction="", depends_on=("a",)),
            Subtask(id="c", instruction="", depends_on=("a",)),
            Subtask(id="d", instruction="", depends_on=("b", "c")),
        ]
    )
    assert diamond.critical_path({"a": 1, "b": 5, "c": 2, "d": 1}) == 7


@pytest.mark.parametrize(
    ("subtasks", "reason"),
    [
        ([], "at least one"),
        ([{"id": "a", "instruction": "", "depends_on": ["a"]}], "'a' depends on itself"),
        ([{"id": "a", "instruction": "", "depends_on": ["b"]}], "'b', which does not exist"),
        ([{"id": "a", "instruction": ""}, {"id": "a", "instruction": ""}], "used more than once"),
        (
            [
                {"id": "a", "instruction": "", "depends_on": ["b"]},
                {"id": "b", "instruction": "", "depends_on": ["a"]},
            ],
            "cycle",
        ),
        ([{"id": "a"}], "instruction"),
        ([{"id": "a", "instruction": "", "colour": "red"}], "colour"),
    ],
)
def test_what_is_not_a_workflow_is_refused_with_the_reason(subtasks, reason):
    with pytest.raises(WorkflowError, match=reason):
        Workflow(subtasks)


@pytest.mark.parametrize(
    ("steps", "repeats"),
    [
        ([("sort it", ()), ("sort it", ("0",))], True),
        ([("sort it", ()), ("sort it", ())], True),
        ([("sort it", ()), ("reverse it", ("0",)), ("sort it", ("1",))], False),
        ([("lowercase it", ()), ("reverse it", ())], False),
        ([("count them", ()), ("double them", ()), ("sum them", ("0",)), ("sum them", ("1",))], False),
    ],
)
def test_a_step_that_stands_twice_is_seen(steps: list[tuple[str, tuple[str, ...]]], repeats: bool) -> None:
    """A planner that runs on repeats a step; the same words for other inputs are another step."""
    subtasks = [{"id": str(i), "instruction": words, "depends_on": parents} for i, (words, parents) in enumerate(steps)]
    assert Workflow(subtasks).repeats() == repeats
