"""The synthetic instructions are what planners learn everyday wording from: each must be what it says it is."""

from __future__ import annotations

from itertools import combinations

from orchestai.data.readers import find_reader
from orchestai.data.training_file import TrainingExample
from orchestai.tasks.instructions import SPLIT_OF, STYLES, SyntheticInstruction, folder, read_style
from orchestai.tasks.splits import words
from orchestai.tasks.suites import load_suite

LINES = [(split, line) for style, split in SPLIT_OF.items() for line in read_style(folder() / f"{style}.jsonl")]
PROGRAMS = [line for _, line in LINES if line.tests]


def solves(line: SyntheticInstruction, program: str) -> bool:
    scope: dict[str, object] = {}
    exec(program, scope)
    try:
        return all(eval(test, scope) for test in line.tests)
    except Exception:
        return False


def test_no_text_of_one_part_is_in_another() -> None:
    parts = {split: {words(line.instruction) for part, line in LINES if part == split} for split in STYLES}
    assert all(not parts[a] & parts[b] for a, b in combinations(parts, 2))
    assert len({line.id for _, line in LINES}) == len(LINES)


def test_programs_pass_their_tests_and_no_step_is_idle() -> None:
    """A step without which the tests still pass would reward planners that leave it out."""
    for line in PROGRAMS:
        program = line.program()
        assert solves(line, program), line.id
        for number, step in enumerate(line.steps, start=1):
            idle = program.replace(f"step_{number} = {step.do}", f"step_{number} = lambda first, *others: first", 1)
            assert idle != program
            assert not solves(line, idle), f"{line.id}: step {number}"


def test_the_suite_has_the_programs_and_the_reader_everything() -> None:
    suite = load_suite("instructions")
    tasks = [task for split in suite.splits for task in suite.split(split)]
    assert len(tasks) == len(PROGRAMS)
    examples = list(find_reader("instructions")(folder()))
    assert len(examples) == len(LINES)
    for example in examples:
        assert isinstance(example, TrainingExample)
        assert example.split == SPLIT_OF[example.task_id.split("/")[0]]
