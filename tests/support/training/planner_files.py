"""Small planners on disk, for what opens, compares or replaces them; what they plan is of no account."""

from __future__ import annotations

from pathlib import Path

import torch

from orchestai.planner.checkpoint import save_planner
from orchestai.planner.slots.model import PlannerModel
from orchestai.workers.pool import worker_cards
from support.training.phase1 import config


def small_planner(path: Path, seed: int = 0) -> Path:
    """A planner of random weights for the workers of `support.training.phase1`."""
    settings = config()
    torch.manual_seed(seed)
    save_planner(path, PlannerModel(settings.planner, worker_cards(settings.workers)), settings)
    return path
