"""Phase 2 as a command: from a checkpoint file and a configuration to a checkpoint file that plans."""

import asyncio
import json
from dataclasses import asdict

import pytest
import torch

from orchestai.config import Config
from orchestai.errors import UserError
from orchestai.execution.reward import Reference
from orchestai.planner.checkpoint import load_planner, reference_of, save_planner
from orchestai.planner.slots.model import PlannerModel
from orchestai.tasks.splits import SeenTasks
from orchestai.training.rl.setup import soften, split_tasks, train
from orchestai.workers.pool import worker_cards
from support.training.phase2 import configuration


def test_from_a_checkpoint_of_phase_1_to_one_of_phase_2(tmp_path):
    config = configuration(tmp_path, explore=("worker", "fallback"))
    torch.manual_seed(0)
    first = tmp_path / "phase1_best.pth"
    save_planner(first, PlannerModel(config.planner, worker_cards(config.workers)), config, epoch=1)
    assert asyncio.run(train(config, checkpoint=first, output_dir=tmp_path / "out")).updates == 1

    trained = load_planner(tmp_path / "out" / "phase2_best.pth", config.planner, config.workers)
    tasks, held_out = split_tasks(config.tasks)
    assert trained.plan(tasks)[0].workflow is not None
    before, after = load_planner(first, config.planner, config.workers).state_dict(), trained.state_dict()
    assert all(torch.equal(before[name], after[name]) for name in before if not name.startswith("selector"))
    assert not {task.task_id for task in tasks} & {task.task_id for task in held_out}
    facts = json.loads((tmp_path / "out" / "phase2.run.json").read_text())
    assert facts["identity"]["training tasks"] == torch.load(tmp_path / "out" / "phase2_last.pth")["data_fingerprint"]

    before = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir() if path.is_file()}
    with pytest.raises(UserError, match=r"holds a run already \(phase2_state.pt\).*--resume.*another output folder"):
        asyncio.run(train(config, checkpoint=first, output_dir=tmp_path / "out"))
    assert {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir() if path.is_file()} == before

    longer = configuration(tmp_path, explore=("worker", "fallback"), num_episodes=4)
    assert asyncio.run(train(longer, checkpoint=first, output_dir=tmp_path / "out", resume=True)).updates == 2
    save_planner(first, trained, config, epoch=2)
    with pytest.raises(UserError, match=r"checkpoint was .* and is now"):
        asyncio.run(train(longer, checkpoint=first, output_dir=tmp_path / "out", resume=True))


@pytest.mark.parametrize(("explore", "known"), [(("worker",), True), (("worker", "edge"), False)])
def test_confidence_outlives_only_what_it_was_fitted_to(tmp_path, caplog, explore, known):
    """Edges that are learned anew are right more or less often, and no validation task here has a reference."""
    config = configuration(tmp_path, explore=explore)
    torch.manual_seed(0)
    planner, first = PlannerModel(config.planner, worker_cards(config.workers)), tmp_path / "phase1_best.pth"
    planner.confidence.known.fill_(True)
    save_planner(first, planner, config)
    asyncio.run(train(config, checkpoint=first, output_dir=tmp_path / "out"))
    trained = load_planner(tmp_path / "out" / "phase2_last.pth", config.planner, config.workers)
    assert trained.confidence.is_known == known
    assert ("nobody will know how sure" in caplog.text) != known


def test_costs_are_relative_to_what_phase_1_measured_or_else_to_what_is_measured_now(tmp_path, capsys):
    """And a resumed run, or an evaluation, compares with the same."""
    config = configuration(tmp_path)
    torch.manual_seed(0)
    planner = PlannerModel(config.planner, worker_cards(config.workers))
    first, logged = tmp_path / "phase1_best.pth", Reference(0.5, 250.0, "median of 9 logged executions")
    save_planner(first, planner, config, reward_reference=asdict(logged))
    asyncio.run(train(config, checkpoint=first, output_dir=tmp_path / "known"))
    assert reference_of(tmp_path / "known" / "phase2_best.pth") == logged
    assert "half of that at 0.5 USD" in " ".join(capsys.readouterr().err.split())

    save_planner(first, planner, config)
    asyncio.run(train(config, checkpoint=first, output_dir=tmp_path / "new"))
    measured = reference_of(tmp_path / "new" / "phase2_last.pth")
    assert measured.cost_usd == 0.0 < measured.latency_ms, "these tools are free, and not immediate"
    assert measured.source == "median of 32 executions of whole tasks, measured now"

    longer = configuration(tmp_path, num_episodes=4)
    asyncio.run(train(longer, checkpoint=first, output_dir=tmp_path / "new", resume=True))
    assert reference_of(tmp_path / "new" / "phase2_last.pth") == measured

    save_planner(first, planner, config, reward_reference=asdict(measured))
    whole = config.model_dump()
    whole["planner"]["allow_new_pool"] = True
    for worker in whole["workers"]["pool"].values():
        worker["price_per_call_usd"] = 0.25
    priced = Config.model_validate(whole)
    asyncio.run(train(priced, checkpoint=first, output_dir=tmp_path / "priced"))
    assert reference_of(tmp_path / "priced" / "phase2_last.pth").cost_usd == 0.25, "free logs say nothing about prices"


def test_tasks_that_cannot_be_scored_or_credited_by_step_are_refused_before_anything_is_paid(tmp_path):
    lines = [{"instruction": f"Add {n} and 1.", "answers": "" if n == 2 else n + 1} for n in range(9)]
    (tmp_path / "sums.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    whole = configuration(tmp_path).model_dump()
    whole["tasks"].update(suite="file", path=str(tmp_path / "sums.jsonl"), scorer="numeric", test_fraction=0)
    config = Config.model_validate(whole)
    torch.manual_seed(0)
    first = tmp_path / "phase1_best.pth"
    save_planner(first, PlannerModel(config.planner, worker_cards(config.workers)), config)
    with pytest.raises(UserError, match=r"sums\.jsonl, line 3: an answer could not be scored"):
        asyncio.run(train(config, checkpoint=first, output_dir=tmp_path / "out"))
    (tmp_path / "sums.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines if line["answers"]))
    by_step = {"credit": "step", "loss_type": "dr_grpo", "explore": ["worker", "fallback"]}
    whole["training"]["phase2_rl"].update(by_step)
    with pytest.raises(UserError, match=r"phase2_rl\.credit: .* set credit to plan"):
        asyncio.run(train(Config.model_validate(whole), checkpoint=first, output_dir=tmp_path / "out"))


def test_tasks_that_a_checkpoint_has_learned_do_not_select_it(tmp_path, caplog):
    """As where phase 1 was taught a file that was divided otherwise."""
    config = configuration(tmp_path)
    _, held_out = split_tasks(config.tasks)
    instructions = [task.instruction for task in held_out]
    _, left = split_tasks(config.tasks, SeenTasks.of(instructions[:1]))
    assert left == held_out[1:]
    assert "left out 1 of 3 validation tasks, which the checkpoint has learned from" in caplog.text
    with pytest.raises(UserError, match="no validation task left"):
        split_tasks(config.tasks, SeenTasks.of(instructions))


def test_a_planner_that_is_sure_of_its_workers_draws_others_again(tmp_path):
    """At one of 1e-9 no sample and no gradient would ever find out that a pool has changed."""
    config = configuration(tmp_path)
    torch.manual_seed(0)
    planner = PlannerModel(config.planner, worker_cards(config.workers))
    tasks, _ = split_tasks(config.tasks)
    assert soften(planner, tasks) == 1, "untrained, it is not sure of anything"
    planner.selector.matcher.soften(1e-3)
    plans = [plan.workflow for plan in planner.plan(tasks)]
    assert soften(planner, tasks) > 1
    assert [plan.workflow for plan in planner.plan(tasks)] == plans
    decisions = [plan.decisions for plan in planner.plan(tasks)]
    scores = planner.score(tasks, decisions, explore=frozenset({"worker"}), temperature=1.0)
    assert scores.entropy.sum() / scores.mask.sum() > 0.1
