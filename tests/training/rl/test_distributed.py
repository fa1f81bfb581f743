"""Two processes are one: the same losses from the same configuration, and the same error when one of them fails."""

import asyncio
import json
import pickle
import subprocess
import sys
from datetime import timedelta
from types import SimpleNamespace

import pytest

from orchestai.errors import InfrastructureError, UserError
from orchestai.training import distributed
from support.training import bandit

UNEVEN = {"num_episodes": 15, "tasks_per_update": 5, "num_generations": 3, "num_minibatches": 4, "micro_batch_size": 2}
RUNS = {
    f"{policy} {name}": UNEVEN | {"algorithm": name, "kl_coef": 0.1, "entropy_coef": 0.01, **changes}
    for policy, changes in (("bandit", {}), ("speller", {"micro_batch_tokens": 9}))
    for name in ("GRPO", "PPO")
}


@pytest.mark.parametrize("error", [UserError("mend it"), InfrastructureError("timeout", "no answer"), KeyError("bug")])
async def test_an_error_of_one_process_is_what_it_was_in_all(monkeypatch, error):
    """A failure of infrastructure reached the others as a RuntimeError, which the command shows as a bug of ours."""
    for rank in range(2):
        accelerator = SimpleNamespace(
            num_processes=2, process_index=rank, init_handler=SimpleNamespace(timeout=timedelta(minutes=5))
        )

        async def work(rank=rank):
            if rank == 0:
                raise error

        def gathered(told, rank=rank):
            other = distributed._Failure(_sent(error)) if rank else None
            return pickle.loads(pickle.dumps([other, *told] if rank else [*told, None]))

        monkeypatch.setattr(distributed, "gather_object", gathered)
        with pytest.raises(type(_sent(error))) as caught:
            await distributed.on_all(accelerator, work(), "testing")
        assert str(caught.value) == str(_sent(error))


def _sent(error):
    known = isinstance(error, (UserError, InfrastructureError))
    return error if known else RuntimeError("process 0: KeyError: 'bug'")


@pytest.mark.slow
@pytest.mark.distributed
def test_two_processes_give_the_losses_of_one_and_share_an_error(tmp_path, repository):
    """Five tasks for two processes, and minibatches of odd sizes: shares are uneven, and some are empty."""
    launch = [sys.executable, "-m", "accelerate.commands.launch", "--multi_gpu", "--num_processes", "2"]
    launch += ["--num_machines", "1", "--mixed_precision", "no", "--dynamo_backend", "no", "--main_process_port", "0"]
    script = [str(repository / "tests/support/training/bandit.py"), str(tmp_path / "two"), json.dumps(RUNS)]
    done = subprocess.run(launch + script, timeout=240, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]

    for name, changes in RUNS.items():
        asyncio.run(
            bandit.trainer(
                tmp_path / "one" / name, bandit.settings(**changes), bandit.POLICIES[name.split()[0]]()
            ).train()
        )
        one, two = bandit.rows(tmp_path / "one" / name), bandit.rows(tmp_path / "two" / name)
        assert len(one) == len(two) == 3
        for row, other in zip(one, two, strict=True):
            assert bandit.timeless(other) == pytest.approx(bandit.timeless(row), abs=1e-5)
    told = [(tmp_path / "two" / f"stopped{rank}").read_text() for rank in range(2)]
    assert told == ["1 SIGTERM"] * 2, "the only validation task is the first process's, so it came in the first update"
    assert (tmp_path / "two" / "stopped" / "phase2_state.pt").exists()
    errors = [(tmp_path / "two" / f"error{rank}").read_text() for rank in range(2)]
    assert errors[0] == errors[1]
    assert errors[0].startswith("process 1: ValueError: no such thing as task")
