"""Plans of similar tasks in the prompt: the right ones, never a task's own, and the same after loading."""

from __future__ import annotations

import pytest

from orchestai.data.readers.plan import SourcePlan, SourceStep
from orchestai.data.training_file import TrainingExample, save_training_data
from orchestai.planner.checkpoint import load_planner
from orchestai.planner.language.checkpoint import open_language_planner
from orchestai.planner.language.plan_memory import KnownPlan, PlanMemory
from orchestai.planner.language.prompt import PromptTooLongError
from orchestai.training.supervised.language_planner import known_plan, tokenize
from orchestai.training.supervised.train import train
from support.training.language_phase1 import config

TASKS = ("Brew a cup of coffee.", "Book a flight to Lisbon.", "Brew a pot of green tea.", "Reserve a hotel in Porto.")
BARE = {"assign": False, "quote": "own", "max_prompt_tokens": 400, "max_new_tokens": 96, "nearest": 2}


def example(task: str, split: str = "train") -> TrainingExample:
    steps = (SourceStep("a", f"begin: {task}"), SourceStep("b", f"end: {task}"))
    made = SourcePlan(task, "toy", "CC0", task, steps, frozenset({("a", "b")})).example(given=False)
    return made.model_copy(update={"split": split})


def settings(**language):
    return config(language={**BARE, **language}, num_epochs=1, batch_size=2)


def planner(chosen, memory: PlanMemory | None = None):
    made = open_language_planner(chosen.planner, chosen.workers, TASKS)
    made.prompts.memory = memory
    return made


def prompt(writer, task: str) -> str:
    return writer.tokenizer.decode(writer.prompts.write(task))


def memory(*tasks: str) -> PlanMemory:
    return PlanMemory.of([KnownPlan(task, f"plan of {task}", task) for task in tasks or TASKS])


def test_the_most_similar_task_comes_last_and_a_task_is_never_its_own_example():
    found = memory().nearest("Brew some black tea.", 2)
    assert [known.instruction for known in found] == [TASKS[0], TASKS[2]]
    own = memory().nearest("brew a pot of GREEN tea", 4)
    assert TASKS[2] not in [known.instruction for known in own]
    assert own[-1].instruction == TASKS[0]


def test_a_task_is_no_example_for_what_was_made_from_it():
    """A reworded example has other words than its original, and the same plan."""
    reworded = memory().nearest("Please: brew a pot of green tea.", 4, origin=TASKS[2])
    assert TASKS[2] not in [known.instruction for known in reworded]
    writer = planner(settings(), PlanMemory.of([known_plan(example(task), planner(settings())) for task in TASKS]))
    varied = example(TASKS[2]).model_copy(update={"instruction": "Please: brew a pot of green tea.", "augmented": True})
    said = writer.tokenizer.decode(tokenize(varied, writer).prompt)
    assert f"begin: {TASKS[0]}" in said
    assert f"begin: {TASKS[2]}" not in said


def test_prompts_hold_as_many_examples_as_there_is_room_for():
    roomy = planner(settings(), memory())
    whole, size = prompt(roomy, "Brew some black tea."), len(roomy.prompts.write("Brew some black tea."))
    assert whole.index(f"plan of {TASKS[0]}") < whole.index(f"plan of {TASKS[2]}") < whole.index("black tea")
    bare = len(planner(settings(nearest=0)).prompts.write("Brew some black tea."))
    tight = planner(settings(max_prompt_tokens=size - 1), memory())
    assert f"plan of {TASKS[0]}" not in prompt(tight, "Brew some black tea.")
    assert f"plan of {TASKS[2]}" in prompt(tight, "Brew some black tea.")
    none = planner(settings(max_prompt_tokens=bare), memory())
    assert len(none.prompts.write("Brew some black tea.")) == bare
    with pytest.raises(PromptTooLongError):
        planner(settings(max_prompt_tokens=bare - 1), memory()).prompts.write("Brew some black tea.")


def test_phase_1_learns_with_examples_and_the_checkpoint_keeps_them(tmp_path):
    chosen, data = settings(), tmp_path / "data.json"
    held_out = example("Brew two cups of cocoa.", "validation")
    save_training_data(data, [*map(example, TASKS), held_out], chosen)
    train(chosen, data=data, output_dir=tmp_path)
    loaded = load_planner(tmp_path / "phase1_best.pth", settings(nearest=0).planner, chosen.workers)
    assert {known.instruction for known in loaded.prompts.memory.plans} == set(TASKS)
    said = prompt(loaded, held_out.instruction)
    assert said.count('"subtasks"') == 2
    assert "begin: Brew a cup of coffee." in said
    assert "cocoa" not in said.replace(held_out.instruction, "")

    [first, *_] = [one for one in loaded.prompts.memory.plans if one.instruction == TASKS[0]]
    better = example(TASKS[0]).model_copy(update={"workflow": example("Boil.").workflow})
    save_training_data(data, [example("Brew a mug of mocha."), better, held_out], chosen)
    train(chosen, data=data, output_dir=tmp_path / "on", start=tmp_path / "phase1_best")
    further = load_planner(tmp_path / "on/phase1_best.pth", chosen.planner, chosen.workers)
    assert {known.instruction for known in further.prompts.memory.plans} == {*TASKS, "Brew a mug of mocha."}
    [later] = [one for one in further.prompts.memory.plans if one.instruction == TASKS[0]]
    assert "Boil." in later.plan
    assert "Boil." not in first.plan
