"""docs/agents/recipes.md says what the presets hold: every value of ours in its tables is the file's."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from orchestai.agents.recipes.shorthand import load_agent_config
from orchestai.config import load_config
from orchestai.training.rl.formulas import RECIPES


def rows(repository: Path) -> dict[str, list[str]]:
    """Our row of each preset, by the preset's name."""
    found, name = {}, ""
    for line in (repository / "docs" / "agents" / "recipes.md").read_text().splitlines():
        if line.startswith("|"):
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            name = cells[0].strip("`") or name
            if cells[1] == "ours":
                found[name] = cells[2:]
    return found


def described(model: str, lora, phase2, tokens: int) -> list[str]:
    recipe = RECIPES[phase2.loss_type]
    bounds = recipe.bounds_of(phase2)
    return [
        model.rpartition("/")[2] + (f", LoRA {lora.rank}" if lora else ""),
        phase2.loss_type,
        f"{phase2.learning_rate:g}",
        f"{phase2.tasks_per_update} x {phase2.num_generations}",
        "-" if recipe.on_policy else f"{bounds.low:g} {bounds.high:g}",
        f"{phase2.kl_coef:g}",
        f"{phase2.entropy_coef:g}",
        f"{phase2.temperature:g}",
        f"{tokens}",
    ]


def test_every_preset_has_a_row(repository: Path) -> None:
    presets = {path.stem for path in (repository / "configs").glob("*/*.yaml")}
    variants = {name for name in presets if re.match("magrpo_arxiv_", name)}
    assert presets - variants == set(rows(repository))


@pytest.mark.parametrize("folder", ["agents", "bigcodebench"])
def test_our_rows_are_what_the_files_hold(repository: Path, folder: str) -> None:
    for path in sorted((repository / "configs" / folder).glob("*.yaml")):
        if (row := rows(repository).get(path.stem)) is None:
            continue
        if folder == "agents":
            config = load_agent_config("", path)
            found = described(
                config.model.name, config.model.lora, config.training.phase2_rl, config.model.max_new_tokens
            )
        else:
            planner = load_config(path)
            language = planner.planner.language
            found = described(language.model, language.lora, planner.training.phase2_rl, language.max_new_tokens)
        assert row == found, path
