"""Weights that go to real vLLM by its own transfer, and as a folder where they cannot.

Without a GPU the tensors themselves go by TCP (`wire`); all that is asked of vLLM, in which order and with which names,
is real. The tests marked `gpu` leave nothing out.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from orchestai.config import VllmConfig
from orchestai.errors import UserError
from orchestai.lm.backends import transfer, vllm_engine
from orchestai.lm.backends.transfer import ByFolder, ByTransfer, Folders, ModelWeights
from orchestai.lm.backends.vllm_engine import EngineModel, VllmEngine
from real_vllm.gaps import Gaps
from real_vllm.servers import CONTEXT, OPTIONS, serving
from real_vllm.test_backends import ENDS, PROMPTS, SECTION, SEEDS, SETTINGS, check, client, policy
from support.repository import REPOSITORY

ASKED = (transfer.FLAG, json.dumps(transfer.TO_SERVER))


@pytest.fixture(scope="module")
def server(untied: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Whose workers are those of `wire`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", f"{REPOSITORY}:{REPOSITORY / 'tests'}")
        log = tmp_path_factory.mktemp("transfer") / "log"
        with serving(untied, *ASKED, "--worker-extension-cls", "real_vllm.wire.Workers", log=log) as (url, _):
            yield url


@pytest.fixture
def senders(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Lets this process send as on a GPU."""

    def install() -> None:
        from real_vllm import wire

        wire.senders(monkeypatch)
        monkeypatch.setattr(transfer, "possible", lambda weights: True)

    return install


async def test_a_server_takes_over_what_is_sent_and_what_is_written(
    server: str, tmp_path: Path, gaps: Gaps, senders: Callable[[], None]
) -> None:
    """As a folder where the model is on no GPU, although the server could do otherwise."""
    learner = policy(adapters=False, tied=False)
    written = client(server, tmp_path / "written", adapters=False)
    await written.sync(ModelWeights(learner.model, main=True), 0)
    assert isinstance(written._handover, ByFolder)
    await written.close()

    senders()
    sent = client(server, tmp_path / "sent", adapters=False)
    gaps(await check(learner, sent))
    assert isinstance(sent._handover, ByTransfer)
    assert not (tmp_path / "sent").exists()
    await sent.close()


def engine(model: Path, folder: Path) -> VllmEngine:
    config = VllmConfig(engine_options={**OPTIONS, transfer.OPTION: transfer.TO_ENGINE})
    opened = EngineModel(str(model), "float32", None, ENDS, CONTEXT)
    return VllmEngine(opened, config, Folders(folder, "run"), processes=1, section=SECTION)


async def test_an_engine_takes_over_what_is_sent(
    untied: Path, tmp_path: Path, gaps: Gaps, senders: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    senders()
    monkeypatch.setattr(vllm_engine, "EXTENSION", "real_vllm.wire.Workers")
    backend = engine(untied, tmp_path / "sync")
    try:
        gaps(await check(policy(adapters=False, tied=False), backend))
        assert isinstance(backend._handover, ByTransfer)
    finally:
        await backend.close()
    assert not (tmp_path / "sync").exists()


async def test_a_group_that_does_not_come_together_is_told(
    untied: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """vLLM's own worker, which has no GPU to join with."""
    monkeypatch.setattr(transfer, "possible", lambda weights: True)
    with serving(untied, *ASKED, log=tmp_path / "log") as (url, _):
        backend = client(url, tmp_path / "run", adapters=False)
        assert len((await backend.generate(PROMPTS, SEEDS, SETTINGS)).completions) == 3
        with pytest.raises(UserError, match=r"could not be sent from GPU to GPU .*without --weight-transfer-config"):
            await backend.sync(ModelWeights(policy(adapters=False, tied=False).model, main=True), 0)
        await backend.close()


@pytest.mark.gpu
@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="a server and a model that learns need a GPU each")
async def test_nccl(untied: Path, tmp_path: Path, gaps: Gaps, monkeypatch: pytest.MonkeyPatch) -> None:
    learner = policy(adapters=False, tied=False)
    learner.model.to("cuda:0")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")  # the server's; this process has read its own
    with serving(untied, *ASKED, log=tmp_path / "log") as (url, _):
        backend = client(url, tmp_path / "sync", adapters=False)
        gaps(await check(learner, backend))
        assert isinstance(backend._handover, ByTransfer)
        await backend.close()


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
async def test_cuda_ipc(untied: Path, tmp_path: Path, gaps: Gaps) -> None:
    learner = policy(adapters=False, tied=False)
    learner.model.to("cuda")
    backend = engine(untied, tmp_path / "sync")
    try:
        gaps(await check(learner, backend))
        assert isinstance(backend._handover, ByTransfer)
    finally:
        await backend.close()
