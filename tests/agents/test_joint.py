"""Joint actions: trees, returns and credit by hand, and what is left of them where an act or a judge fails."""

import asyncio
from collections.abc import Sequence

import pytest

from orchestai.agents.conversation import Act
from orchestai.agents.joint import (
    History,
    JointArgs,
    JointNode,
    JointWorkflow,
    Judgment,
    credit,
    joint_actions,
    joint_returns,
)
from orchestai.errors import InfrastructureError
from orchestai.outcome import Scored, Unscorable
from orchestai.tasks.task import Task
from orchestai.types import Episode
from support.agents.scripted import scripted_agents

TASK = Task(task_id="t", suite="s", instruct_prompt="go")


class Sums(JointWorkflow):
    """Roles write numbers; a joint action is worth their sum. What is told next is the sum so far."""

    roles = ("left", "right")

    def prompts(self, task: Task) -> Sequence[str]:
        return ("left: 0", "right: 0")

    async def judge(self, task: Task, history: History) -> Judgment:
        if "down" in history[-1]:
            raise InfrastructureError("server", "the judge is down")
        total = sum(int(text or 0) for text in history[-1])
        return Judgment(total, float(total > 20), {"even": float(total % 2 == 0)})

    def transition(self, task: Task, history: History) -> Sequence[str]:
        total = sum(int(text) for texts in history for text in texts)
        return (f"left: {total}", f"right: {total}")


def play(scripts: Sequence[dict[str, list]], **args) -> tuple[list[Episode], list]:
    """Episodes of one attempt per script, and their agents."""
    group = [scripted_agents(TASK, script) for script in scripts]
    workflow = Sums(JointArgs(**args), None)  # type: ignore[arg-type]
    return asyncio.run(workflow.run_group(TASK, group)), group


def rewards(context, role: str) -> list[tuple[str, float | None, str]]:
    return [
        (act.group, act.reward, act.text)
        for conversation in context.conversations
        if conversation.role == role
        for act in conversation.acts
    ]


def values(episodes: Sequence[Episode]) -> list[float]:
    assert all(isinstance(episode.outcome, Scored) for episode in episodes)
    return [episode.outcome.value for episode in episodes]  # type: ignore[union-attr]


def test_aligned_acts_get_the_reward_of_their_pair() -> None:
    episodes, group = play([{"left": ["1"], "right": ["10"]}, {"left": ["2"], "right": ["30"]}])
    assert values(episodes) == [11, 32]
    assert [rewards(agents, role) for agents in group for role in ("left", "right")] == [
        [("root", 11, "1")],
        [("root", 11, "10")],
        [("root", 32, "2")],
        [("root", 32, "30")],
    ]
    assert episodes[0].metrics.items() >= {"success": 0.0, "turn_1_reward": 11, "turn_1_even": 0.0}.items()
    assert episodes[1].metrics.items() >= {"success": 1.0, "turn_1_reward": 32, "turn_1_even": 1.0}.items()
    assert [trajectory.role for trajectory in episodes[0].trajectories] == ["left", "right"]


def test_crossed_acts_get_the_sum_over_all_partners() -> None:
    episodes, group = play([{"left": ["1"], "right": ["10"]}, {"left": ["2"], "right": ["30"]}], joint_mode="cross")
    # rewards of (left, right): 11, 31, 12, 32
    assert [rewards(agents, "left")[0][1] for agents in group] == [11 + 31, 12 + 32]
    assert [rewards(agents, "right")[0][1] for agents in group] == [11 + 12, 31 + 32]
    assert values(episodes) == [21, 22]  # mean over the pairs of the attempt's left act


def test_every_joint_action_has_a_child_and_returns_add_up() -> None:
    scripts = [
        {"left": ["1", "100", "300"], "right": ["0", "0", "0"]},
        {"left": ["5", "40", "60"], "right": ["0", "0", "0"]},
    ]
    episodes, group = play(scripts, num_turns=2, discount=0.5)
    # R(1) = 1 + 0.5 * mean(100, 300), R(5) = 5 + 0.5 * mean(40, 60)
    assert values(episodes) == [101, 30]
    assert rewards(group[0], "left") == [("root", 101, "1"), ("root.0", 100, "100"), ("root.0", 300, "300")]
    assert rewards(group[1], "left") == [("root", 30, "5"), ("root.1", 40, "40"), ("root.1", 60, "60")]
    assert rewards(group[1], "right") == [("root", 30, "0"), ("root.1", 40, "0"), ("root.1", 60, "0")]
    assert episodes[0].metrics["turn_2_reward"] == 200
    assert episodes[0].metrics["success"] == 1.0  # of the last turn
    told = [conversation.messages[0]["content"] for conversation in group[1].conversations]
    assert told == ["left: 0", "right: 0", "left: 5", "left: 5", "right: 5", "right: 5"]


def test_crossed_tree_has_a_node_per_pair() -> None:
    scripts = [{"left": [str(k)] * 9, "right": [str(k)] * 9} for k in (1, 2)]
    episodes, group = play(scripts, num_turns=2, joint_mode="cross")
    nodes = [{name for name, _, _ in rewards(context, "left")} for context in group]
    assert nodes == [{"root", "root.0", "root.1"}, {"root", "root.2", "root.3"}]
    assert [len(context.conversations) for context in group] == [2 + 2 * 2 * 2] * 2
    # attempt 1's children write 1 and 1: 4 pairs worth 2; root pairs are worth 2 and 3
    assert values(episodes) == [2.5 + 2, 3.5 + 4]


@pytest.mark.parametrize(("threshold", "turns"), [(None, 3), (1.4, 1), (1.5, 3)])
def test_a_branch_stops_above_the_threshold(threshold: float | None, turns: int) -> None:
    scripts = [{"left": [str(k)] * 9, "right": ["0"] * 9} for k in (1, 2)]
    _, group = play(scripts, num_turns=3, termination_threshold=threshold)
    names = {name for agents in group for name, _, _ in rewards(agents, "left")}
    if turns == 1:
        assert names == {"root"}
    elif threshold is None:
        assert names == {"root"} | {f"root.{i}" for i in "01"} | {f"root.{i}.{j}" for i in "01" for j in "01"}
    else:  # the node after 2 has the mean 2, that after 1 has 1
        assert names == {"root", "root.0", "root.1", "root.0.0", "root.0.1"}


def test_an_engine_that_fails_costs_one_aligned_attempt() -> None:
    down = InfrastructureError("server", "no engine")
    scripts = [{"left": ["1"], "right": [down]}, {"left": ["2"], "right": ["3"]}, {"left": ["4"], "right": ["5"]}]
    episodes, group = play(scripts)
    assert episodes[0].outcome == Unscorable("server", "no engine")
    assert values(episodes[1:]) == [5, 9]
    assert rewards(group[0], "left") == [("root", None, "1")]


@pytest.mark.parametrize("roles", [1, 2, 3])
def test_crossed_credit_is_the_mean_over_partners_up_to_a_factor(roles: int) -> None:
    samples = 3
    actions = joint_actions("cross", roles, samples)
    assert len(set(actions)) == samples**roles
    rewards_of = [float(hash(action) % 97) for action in actions]
    acts = [[Act(str(k), True, 1) for k in range(samples)] for _ in range(roles)]
    node = JointNode("root", acts, actions, [Judgment(value) for value in rewards_of])
    found = credit(node, joint_returns(node, 1.0))
    totals = [sum(outcome.value for outcome in row if isinstance(outcome, Scored)) for row in found]
    assert totals == pytest.approx([sum(rewards_of)] * roles)  # each joint action counts once for every role
    assert joint_actions("aligned", roles, samples) == [(k,) * roles for k in range(samples)]
