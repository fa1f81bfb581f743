"""SWE: an analyzer finds where an issue of a repository lies, a writer patches it, a validator reads what tests say.

The validator sees the repository's own tests that should pass anyway (`PASS_TO_PASS`), as the commit has them. The
hidden judgment is SWE-bench's: the test patch is applied over the writer's, and an issue is resolved if every test of
`FAIL_TO_PASS` and `PASS_TO_PASS` passes. A patch that does not apply is something to observe, and worth nothing.
"""

from __future__ import annotations

import asyncio
import re
from pathlib import Path, PurePosixPath

from pydantic import Field

from orchestai.agents.conversation import Conversation
from orchestai.agents.repository import (
    Files,
    PatchError,
    apply_patch,
    place,
    read_commit,
    run_tests,
    touched_paths,
)
from orchestai.agents.workflow import AgentWorkflow, AttemptContext, all_tagged, shown, verdict, verdict_reward
from orchestai.config.section import Section
from orchestai.errors import UserError
from orchestai.tasks.task import Task
from orchestai.types import Episode

_ANALYSER = (
    "You read an issue of a Python repository and find where it lies. Say in a few sentences what to change, "
    "and name each file that must change as <file>path</file>."
)
_WRITER = """\
You repair Python repositories. Reply with a unified diff, or with blocks like this one:

path/to/file.py
<<<<<<< SEARCH
the exact lines to replace
=======
the lines to put there
>>>>>>> REPLACE"""
_VALIDATOR = (
    "You read an issue, a patch and what tests say. Reply <verdict>PASS</verdict> if the patch resolves the issue, "
    "else say what is wrong and reply <verdict>FAIL</verdict>."
)
_FIELDS = frozenset({"repo", "base_commit", "test_patch", "FAIL_TO_PASS", "PASS_TO_PASS"})
_JUDGES = frozenset(
    {"conftest.py", "pytest.ini", ".pytest.ini", "pytest.toml", "tox.ini", "setup.cfg", "pyproject.toml"}
)
"""Files that decide how tests run; a patch of the writer cannot change them."""
_FILES_SHOWN = 3
"""Most files that the writer reads."""
_WORD = re.compile(r"[A-Za-z_]\w{2,}")


class SWE(AgentWorkflow):
    """Analyser -> writer -> validator, until the validator passes a patch."""

    roles = ("analyser", "writer", "validator")

    class Args(Section):
        max_refinement_iterations: int = Field(3, ge=1)
        """Most patches that are written for an issue."""
        repositories: Path = Path(".")
        """Folder of clones: `owner/name` of an instance is `owner/name`, `owner__name`, `name` or the git bundle
        `name.bundle` in it. An instance may also name a repository by its path."""
        shown_characters: int = Field(4000, ge=100)
        """Of each file, of the patch and of what the tests said, as a role reads it."""

    args: Args

    async def run(self, task: Task, context: AttemptContext) -> Episode:
        if missing := _FIELDS - task.details.keys():
            raise UserError(f"{task.task_id}: no {', '.join(sorted(missing))}; tasks must be of SWE-bench's format")
        folder, name = self.args.repositories, task.details["repo"]
        last = PurePosixPath(name).name
        clones = (folder / name, folder / name.replace("/", "__"), folder / last, folder / f"{last}.bundle")
        if (repository := next((path for path in clones if path.exists()), None)) is None:
            raise UserError(f"{folder}: no clone of {name!r}; clone it there, or set agents.workflow_args.repositories")
        files = await asyncio.to_thread(read_commit, repository, task.details["base_commit"])
        listing = "\n".join(sorted(path for path in files if path.endswith(".py")))
        issue = f"The issue:\n{task.instruction}"
        analyser = context.conversation("analyser", _ANALYSER)
        analysis = await analyser.ask(f"{issue}\n\nThe files:\n{shown(listing, self.args.shown_characters)}")
        plan = f"{issue}\n\nAn analyst says:\n{shown(analysis.text, self.args.shown_characters)}"
        named = [path for path in dict.fromkeys(all_tagged(analysis.text, "file")) if path in files]
        for path in (named or _likely(task, files))[:_FILES_SHOWN]:
            content = shown(files[path].decode(errors="replace"), self.args.shown_characters)
            plan += f"\n\n{path}:\n```python\n{content}\n```"

        writer = context.conversation("writer", _WRITER)
        checks: list[Conversation] = []
        verdicts: list[bool | None] = []
        scores: list[float] = []
        applied = 0
        request = plan
        while len(scores) < self.args.max_refinement_iterations and True not in verdicts:
            patch = await writer.ask(request)
            context.answer = patch.text
            try:
                patched = await asyncio.to_thread(apply_patch, files, patch.text)
            except PatchError as error:
                seen, score = f"The patch does not apply: {error}", 0.0
            else:
                applied += 1
                visible = [test for test in task.details["PASS_TO_PASS"] if place(test, files)[0] in files]
                results = await run_tests(self.sandbox, _restored(patched, files), visible)
                failed = [f"{test}: {result.message}" for test, result in results.items() if not result.passed]
                passed = f"{len(results) - len(failed)} of {len(results)}"
                seen = "\n".join([f"The patch applies. {passed} tests pass.", *failed])
                score = await self._judge(task, files, patched)
            limit = self.args.shown_characters
            validator = context.conversation("validator", _VALIDATOR)
            check = await validator.ask(f"{issue}\n\nThe patch:\n{shown(patch.text, limit)}\n\n{shown(seen, limit)}")
            verdicts.append(verdict(check.text, "PASS", "FAIL"))
            validator.earn(check, verdict_reward(verdicts[-1], score))
            checks.append(validator)
            scores.append(score)
            request = f"{shown(seen, limit)}\n\nA reviewer says:\n{shown(check.text, limit)}\n\nWrite the patch anew."
        analyser.earn(analysis, scores[-1] if named else 0.0)
        for patch, score in zip(writer.acts, scores, strict=True):
            writer.earn(patch, score)
        return context.episode(
            scores[-1],
            {
                "success": scores[-1],
                "final_success": scores[-1],
                "analyser_runs": 1,
                "writer_attempts": len(scores),
                "writer_success_rate": sum(scores) / len(scores),
                "patches_applied": applied,
                "validator_checks": len(checks),
                "validator_accuracy": sum(check.reward or 0.0 for check in checks) / len(checks),
                "total_iterations": len(scores),
            },
        )

    async def _judge(self, task: Task, files: Files, patched: Files) -> float:
        """1 if the issue is resolved, else 0."""
        test_patch = task.details["test_patch"]
        tested = touched_paths(test_patch)
        judged = {path: content for path, content in _restored(patched, files).items() if path not in tested}
        judged |= {path: files[path] for path in tested & set(files)}
        try:
            if tested:
                judged = dict(await asyncio.to_thread(apply_patch, judged, test_patch))
        except PatchError:
            try:
                await asyncio.to_thread(apply_patch, files, task.details["test_patch"])
            except PatchError as error:
                raise UserError(f"{task.task_id}: its test patch does not apply to its base commit: {error}") from None
            return 0.0
        wanted = [*task.details["FAIL_TO_PASS"], *task.details["PASS_TO_PASS"]]
        results = await run_tests(self.sandbox, judged, wanted)
        return float(all(result.passed for result in results.values()))


def _likely(task: Task, files: Files) -> list[str]:
    """The repository's own files, those that share most words with the issue first."""
    words = set(_WORD.findall(task.instruction.lower()))
    common = {
        path: len(words & set(_WORD.findall(f"{path} {content.decode(errors='replace')}".lower())))
        for path, content in files.items()
        if path.endswith(".py") and "test" not in path
    }
    return sorted(common, key=lambda path: (-common[path], path))


def _restored(patched: Files, files: Files) -> dict[str, bytes]:
    """A patched repository in which all that decides how tests run is as it was."""
    kept = {path: content for path, content in patched.items() if PurePosixPath(path).name not in _JUDGES}
    return kept | {path: content for path, content in files.items() if PurePosixPath(path).name in _JUDGES}
