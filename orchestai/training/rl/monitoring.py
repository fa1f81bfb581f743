"""What phase 2 watches and says: figures of episodes, the best checkpoint, signs of a fall, and signals to stop."""

from __future__ import annotations

import json
import math
import signal
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from statistics import fmean, stdev
from types import FrameType, TracebackType
from typing import Any, NamedTuple

import torch
from accelerate import Accelerator

from orchestai.config import RlConfig, WatchConfig
from orchestai.errors import UserError
from orchestai.interrupts import note_interrupt
from orchestai.outcome import Reward, Unscorable
from orchestai.planner.slots.decisions import SlotLayout
from orchestai.progress import open_progress
from orchestai.storage import artifacts
from orchestai.training.rl.advantages import Credited, Learning
from orchestai.training.rl.run_state import Position, length_of
from orchestai.types import Episode, TokenDecisions, Turn

ENOUGH = 8
"""Validation tasks of which a standard error is believed: of 8 differences it is itself known to about a quarter."""
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Change:
    """The mean of paired differences since training began, and its standard error (infinite for a single pair)."""

    mean: float
    error: float
    tasks: int

    @property
    def is_loss(self) -> bool:
        """Whether less is left than chance explains, by one standard error; of too few tasks, whether less is left."""
        return self.mean < -(self.error if self.tasks >= ENOUGH else 0.0) - _ROUNDING

    def __str__(self) -> str:
        margin = f" ± {100 * self.error:.1f} points" if math.isfinite(self.error) else " points, of a single task"
        return f"{100 * self.mean:+.1f}{margin}"


@dataclass(frozen=True)
class Standing:
    """How an evaluation compares with those before it.

    Attributes:
        best: whether its policies are the best so far.
        reward_change: since training began.
        success_change: likewise, paired by task; None where attempts have no figure `success`.
        passed_over: why it is not the best although it has the most reward; else empty.
    """

    best: bool
    reward_change: float
    success_change: Change | None
    passed_over: str = ""


def successes(episodes: Sequence[Episode]) -> dict[str, float]:
    """Success by task, of the episodes that could be judged and have that figure."""
    judged = [e for e in episodes if isinstance(e.reward, Reward) and "success" in e.metrics]
    return {episode.task_id: episode.metrics["success"] for episode in judged}


def change(now: Mapping[str, float], before: Mapping[str, float]) -> Change | None:
    """The change of a figure over the tasks that have it in both; None where there are none."""
    pairs = [now[task] - before[task] for task in now if task in before]
    if not pairs:
        return None
    n = len(pairs)
    return Change(fmean(pairs), stdev(pairs) / math.sqrt(n) if n > 1 else math.inf, n)


def judge(position: Position, reward: float, success: Mapping[str, float]) -> Standing:
    """Compare an evaluation with those before it, and note in `position` what later ones are compared with."""
    if position.start_reward is None:
        position.start_reward, position.start_success = reward, dict(success)
    changed = change(success, position.start_success)
    more = position.best_reward is None or reward > position.best_reward
    lost = changed is not None and changed.is_loss
    best = more and not lost
    passed_over = ""
    if more and lost:
        passed_over = (
            f"reward {reward:.3f} is the highest so far, but success changed by {changed} since the start, which "
            f"counts as a loss; the best stays that of update {position.best_update}"
        )
    if best:
        position.best_reward, position.best_update = reward, position.update
        position.best_success = fmean(success.values()) if success else None
    return Standing(best, reward - position.start_reward, changed, passed_over)


SECTION = "training.phase2_rl"
_FLAT = 3
"""Updates in a row without anything to learn from, after which that is said."""


def flat_warning(position: Position, metrics: Mapping[str, float]) -> str:
    """What to say of the third update in a row from which nothing could be learned; empty otherwise."""
    if position.flat_updates != _FLAT or "entropy" in metrics:
        return ""
    entropies = [f", {name} {value:.2g}" for name, value in metrics.items() if name.startswith("entropy_")]
    return (
        f"nothing to learn from: every group was flat in {_FLAT} updates in a row, at a success of "
        f"{metrics['success']:.1%}{''.join(entropies)}"
    )


def watch(position: Position, metrics: Mapping[str, float], config: WatchConfig) -> str:
    """Count in `position` from how many updates in a row nothing could be learned, and say why to stop, if so.

    Args:
        metrics: of the update; without `entropy` where nothing could be learned from it, since every advantage is 0.
    """
    position.flat_updates = 0 if "entropy" in metrics else position.flat_updates + 1
    if position.flat_updates >= config.flat_patience:
        return (
            f"nothing could be learned in {config.flat_patience} updates in a row, because no reward differed from "
            f"what it is compared with (see flat_group_share): raise {SECTION}.temperature or explore more, or the "
            "tasks are all solved or all too hard"
        )
    return ""


def describe_episodes(episodes: Sequence[Episode]) -> dict[str, float]:
    """Means over the episodes that could be judged, and the shares of valid plans and of unscorable episodes.

    Each of the episodes' own figures is a mean over those that have it.
    """
    judged = [(e.reward.total, e) for e in episodes if isinstance(e.reward, Reward)]
    count = max(len(judged), 1)
    mean = sum(value for value, _ in judged) / count
    names = dict.fromkeys(["success", *(name for _, e in judged for name in e.metrics)])
    return {
        "reward": mean,
        "reward_std": math.sqrt(sum((value - mean) ** 2 for value, _ in judged) / count),
        **{name: _mean([e.metrics[name] for _, e in judged if name in e.metrics]) for name in names},
        "valid_share": sum(e.valid for e in episodes) / max(len(episodes), 1),
        "raw_valid_share": sum(e.raw_valid for e in episodes) / max(len(episodes), 1),
        "unscorable_share": 1 - len(judged) / max(len(episodes), 1),
    }


def describe_batch(episodes: Sequence[Episode], learnings: Collection[Learning]) -> dict[str, float]:
    """`describe_episodes`, and how much there is to learn: slots, spread of the advantages, share of flat groups.

    Args:
        learnings: one per policy.
    """
    advantages = torch.cat([learning.advantages.float() for learning in learnings])
    turns = [turn for e in episodes for turn in e.turns]
    slots = sum(int(turn.mask.sum()) for turn in turns)
    cut_off = [float(turn.truncated) for turn in turns if turn.token_limit is not None]
    groups, flat = sum(one.groups for one in learnings), sum(one.flat_groups for one in learnings)
    return describe_episodes(episodes) | {
        "advantage_mean": float(advantages.mean()) if len(advantages) else 0.0,
        "advantage_std": float(advantages.std(correction=0)) if len(advantages) else 0.0,
        "flat_group_share": flat / groups if groups else 1.0,
        "slots_per_plan": slots / max(len(episodes), 1),
        **({"truncated_share": _mean(cut_off)} if cut_off else {}),
        **_together([learning.metrics for learning in learnings]),
    }


def describe_policies(metrics: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """The figures of the optimizer steps of each policy under `POLICY/NAME`, and their means; bare if there is one."""
    named = {f"{policy}/{name}": value for policy, some in metrics.items() for name, value in some.items()}
    return _together(list(metrics.values())) | (named if len(metrics) > 1 else {})


def _together(several: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Means of figures over those that have them; of a maximum the maximum."""
    found: dict[str, float] = {}
    for name in dict.fromkeys(name for some in several for name in some):
        values = [some[name] for some in several if name in some]
        found[name] = max(values) if "max_" in name else _mean(values)
    return found


def _mean(values: Sequence[float]) -> float:
    return sum(values) / max(len(values), 1)


def sample_rows(episodes: Sequence[Episode], learnings: Collection[Learning] = ()) -> list[dict[str, Any]]:
    """Episodes for people to read, as JSON-ready rows.

    Args:
        learnings: what was learned from them, if anything; then each row has its `turns`.
    """
    credited = {turn: credit for learning in learnings for turn, credit in learning.credited.items()}

    def turn_rows(episode: Episode) -> list[dict[str, Any]]:
        """The turns that a role learns from; a role's own reward is its last turn's, if that has none."""
        rows = []
        for trajectory in episode.trajectories:
            for number, turn in enumerate(trajectory.turns, start=1):
                last, credit = number == len(trajectory.turns), credited.get(turn)
                told = credit if credit is not None and credit.slots else None
                rows.append(
                    {
                        "role": trajectory.role,
                        "turn": number,
                        "text": turn.text,
                        "reward": trajectory.reward if last and turn.reward is None else turn.reward,
                        "advantage": None if told is None else round(told.advantage, 6),
                        "truncated": turn.truncated,
                        "slots": 0 if told is None else told.slots,
                        **({} if told is None else {"decisions": decision_credits(turn, told)}),
                    }
                )
        return rows

    def parts(reward: Reward) -> dict[str, dict[str, float]]:
        return {name: part._asdict() for name, part in reward.parts.items()}

    def speeches(episode: Episode) -> list[tuple[str, str, int]]:
        """Role, speaker and characters of each part of the transcript, since what is said may look like its start."""
        return [(t.role, speaker, len(words)) for t in episode.trajectories for speaker, words in t.transcript]

    return [
        {
            "task_id": e.task_id,
            "reward": e.reward.total if isinstance(e.reward, Reward) else None,
            "fault": e.reward.kind if isinstance(e.reward, Unscorable) else "",
            "unscorable": e.reward.reason if isinstance(e.reward, Unscorable) else "",
            "valid": e.valid,
            **{name: round(value, 6) for name, value in e.metrics.items()},
            **({"rewards": parts(e.reward)} if isinstance(e.reward, Reward) and e.reward.parts else {}),
            **({"turns": turn_rows(e)} if learnings else {}),
            **({"speeches": speeches(e)} if any(t.transcript for t in e.trajectories) else {}),
            "transcript" if any(t.transcript for t in e.trajectories) else "plan": e.text,
        }
        for e in episodes
    ]


def decision_credits(turn: Turn, credit: Credited) -> list[tuple[int, str, float]]:
    """What each decision of a turn was credited with.

    Returns:
        Of a plan by slots (step from 1, kind of decision, advantage) each, with 0 for edges; of tokens (how many in a
        row, `tokens`, advantage). Where slots are laid out otherwise than in `Scores`, their kind is `decision`.
    """
    values = [round(value, 6) for value in credit.advantages.tolist()]
    if isinstance(turn.decisions, TokenDecisions):
        return [(len(list(some)), "tokens", value) for value, some in groupby(values)]
    layout = SlotLayout(int(turn.step.max()) + 1, turn.decisions.fallbacks.shape[1])
    steps = turn.step.tolist()
    kinds = layout.kinds if layout.slots == len(steps) else ("decision",) * len(steps)
    return [
        (steps[place] + 1, kinds[place], value) for place, value in zip(credit.places.tolist(), values, strict=True)
    ]


_NOISE = 2.0
"""Standard errors."""


class Gap(NamedTuple):
    """A difference of means over tasks, and its standard error."""

    mean: float
    error: float


class _Moments(NamedTuple):
    values: float = 0
    total: float = 0
    squares: float = 0

    def add(self, values: Iterable[float]) -> _Moments:
        new = list(values)
        squares = sum(value * value for value in new)
        return _Moments(self.values + len(new), self.total + sum(new), self.squares + squares)

    @property
    def mean(self) -> float:
        return self.total / self.values

    @property
    def variance(self) -> float:
        """Of the mean; infinite where it cannot be known."""
        if self.values < 2:
            return math.inf
        return max(self.squares / self.values - self.mean**2, 0.0) / (self.values - 1)


def note_attempts(position: Position, attempts: Sequence[Episode]) -> None:
    """Add an update's attempts to those since the last evaluation, a mean per task."""
    for name, values in _by_task(attempts).items():
        before = _Moments(*position.attempts_since_evaluation.get(name, ()))
        position.attempts_since_evaluation[name] = list(before.add(values))


def measure_gaps(position: Position, validation: Sequence[Episode]) -> dict[str, Gap]:
    """Reward and, where attempts have it, success: the mean of the attempts noted less that of validation attempts.

    Nothing is noted any more afterwards, and the first gaps are kept in `position` for `growth`.
    """
    gaps = {}
    for name, values in _by_task(validation).items():
        if name in position.attempts_since_evaluation:
            train, held_out = _Moments(*position.attempts_since_evaluation[name]), _Moments().add(values)
            gaps[name] = Gap(train.mean - held_out.mean, math.sqrt(train.variance + held_out.variance))
            position.first_gaps.setdefault(name, list(gaps[name]))
    position.attempts_since_evaluation.clear()
    return gaps


def growth(position: Position, gaps: Mapping[str, Gap]) -> str:
    """What to say where a gap is above 0 and above the first one by more than two standard errors; else nothing."""
    name = "success" if "success" in gaps else "reward"
    if name not in gaps:
        return ""
    now, first = gaps[name], Gap(*position.first_gaps[name])
    if now.mean - max(first.mean, 0.0) <= _NOISE * math.hypot(now.error, first.error):
        return ""
    return (
        f"{name} on training tasks is {now.mean:.3g} above that on validation tasks ({first.mean:.3g} at the first "
        f"evaluation of this run), more than noise explains ({_NOISE:g} standard errors): tasks are learned by heart; "
        "more tasks, a higher training.phase2_rl.kl_coef or fewer updates help, and phase2_best is what did best on "
        "validation tasks"
    )


def _by_task(episodes: Sequence[Episode]) -> dict[str, list[float]]:
    """Mean reward and success of each task, over its attempts that could be judged."""
    found: dict[str, dict[str, list[float]]] = {"reward": {}, "success": {}}
    for episode in episodes:
        if isinstance(episode.reward, Reward):
            found["reward"].setdefault(episode.task_id, []).append(episode.reward.total)
            if "success" in episode.metrics:
                found["success"].setdefault(episode.task_id, []).append(episode.metrics["success"])
    return {name: [fmean(values) for values in tasks.values()] for name, tasks in found.items() if tasks}


METRICS, ROLLOUTS = "phase2_metrics.jsonl", "phase2_rollouts.jsonl"
_ALSO_CALLED = {"success": "success_rate", "cost_usd": "avg_cost", "latency_ms": "avg_latency"}
"""Names under which trackers get these figures too, as many dashboards call them."""
SAMPLES_PER_UPDATE = 8
"""Plans that the file of rollouts keeps of each update."""


class TrainingReport:
    """Writes on the main process; on the others every call does nothing.

    Use as a context manager. A run that is resumed first drops what the files hold of later updates; a new one begins
    them anew.

    Args:
        config: says how long the run is.
        position: where an earlier run stopped, or the beginning.
    """

    def __init__(
        self, output: Path, accelerator: Accelerator, *, config: RlConfig, position: Position, resumed: bool
    ) -> None:
        self._metrics = output / METRICS
        self._rollouts = output / ROLLOUTS
        self._accelerator = accelerator
        self._main = accelerator.is_main_process
        self._progress = open_progress("phase 2", disable=not self._main)
        self._line = self._progress.add_task(
            "phase 2", total=length_of(config), completed=position.done(config), status=""
        )
        self._config = config
        if self._main:
            for path in (self._metrics, self._rollouts):
                _keep_until(path, position.update if resumed else -1)

    def __enter__(self) -> TrainingReport:
        self._progress.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._progress.stop()

    def update(self, position: Position, metrics: Mapping[str, float], samples: Sequence[Mapping[str, Any]]) -> None:
        """One update's figures and some of its plans."""
        if not self._main:
            return
        update = position.update
        _append(self._metrics, [{"update": update, **metrics}])
        _append(self._rollouts, [{"update": update, **sample} for sample in samples])
        also = {name: metrics[figure] for figure, name in _ALSO_CALLED.items() if figure in metrics}
        self._accelerator.log({**metrics, **also}, step=update)
        columns = list(dict.fromkeys(key for one in samples for key in one if key not in ("rewards", "turns")))
        rows = [[sample.get(column) for column in columns] for sample in samples]
        for tracker in self._accelerator.trackers:
            if tracker.name == "wandb" and rows:
                tracker.log_table("plans", columns=columns, data=rows, step=update)
        lost = f"  unscorable {metrics['unscorable_share']:.0%}" if metrics["unscorable_share"] else ""
        shown = (
            f"reward {metrics['reward']:.2f}  success {metrics['success']:.0%}  flat {metrics['flat_group_share']:.0%}"
        )
        self._progress.update(self._line, completed=position.done(self._config), status=shown + lost)

    def evaluation(
        self, update: int, metrics: Mapping[str, float], standing: Standing, gaps: Mapping[str, Gap]
    ) -> None:
        """The figures of an evaluation, under names that begin with `eval_`, and how it compares with those before."""
        if not self._main:
            return
        named = {f"eval_{name}": value for name, value in metrics.items()}
        if standing.success_change is not None:
            named["eval_success_change"] = standing.success_change.mean
        named |= {f"eval_gap_{name}": gap.mean for name, gap in gaps.items()}
        _append(self._metrics, [{"update": update, **named}])
        self._accelerator.log(named, step=update)
        costs = f", {metrics['cost_usd']:.3g} USD" if "cost_usd" in metrics else ""
        latency = f", {metrics['latency_ms']:.0f} ms" if "latency_ms" in metrics else ""
        reward_change = f" ({standing.reward_change:+.3f} since the start)" if update else ""
        success_change = f" ({standing.success_change})" if update and standing.success_change is not None else ""
        self.say(
            f"update {update}: validation reward {metrics['reward']:.3f}{reward_change}, success "
            f"{metrics['success']:.1%}{success_change}{costs}{latency}{' (best so far)' if standing.best else ''}"
        )
        if standing.passed_over:
            self.say(f"update {update}: {standing.passed_over}")

    def say(self, message: str) -> None:
        """A line above the progress bar."""
        if self._main:
            self._progress.console.print(message, highlight=False)


def _append(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise UserError(
            f"{path}: cannot write: {error.strerror or error}; free space or choose another folder"
        ) from error


def _keep_until(path: Path, update: int) -> None:
    """Drop the rows of later updates, and a last line that was cut off."""
    if not path.exists():
        return
    with path.open(encoding="utf-8", newline="\n") as file:  # texts hold other ends of lines, such as U+2028
        kept = [line for line in file if line.endswith("\n") and json.loads(line)["update"] <= update]
    artifacts.write_text(path, "".join(kept))


class StopSignals:
    """Notes the first SIGTERM or Ctrl-C; a further one does what it did before. A context manager.

    Outside the main thread, where signals cannot be handled, it does nothing.

    Args:
        say: tells people that the signal was heard.

    Attributes:
        received: the signal, if one came.
    """

    def __init__(self, say: Callable[[str], None]) -> None:
        self.received: signal.Signals | None = None
        self._say = say
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> StopSignals:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT):
                self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._restore()

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._restore()
        self.received = note_interrupt(number)
        self._say(f"{self.received.name}: the present update is finished and saved; once more stops at once")

    def _restore(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before.clear()
