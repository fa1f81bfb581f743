"""Whole models reach vLLM by its own weight transfer, from GPU to GPU: a server by NCCL, an engine by CUDA IPC."""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlsplit

from orchestai.lm import loading
from orchestai.lm.backends.base import Weights
from orchestai.storage import artifacts

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel


class ModelWeights:
    """Those of a model that is whole in every process; of its adapters alone where it has some, which it never merges.

    Args:
        main: whether this process writes; the others do nothing.
    """

    def __init__(self, model: PreTrainedModel, *, main: bool) -> None:
        self._model = model
        self._main = main

    def write(self, folder: Path) -> None:
        """See `Weights.write`."""
        if self._main:
            with artifacts.replacing_folder(folder) as unfinished, loading.quietly():
                self._model.save_pretrained(unfinished)

    def tensors(self) -> dict[str, Tensor]:
        """See `Weights.tensors`."""
        from transformers.core_model_loading import revert_weight_conversion

        held = {name: parameter.detach() for name, parameter in self._model.named_parameters()}
        return revert_weight_conversion(self._model, held)


class Folders:
    """A folder for each time that weights are handed over, under `root`; only the last is kept.

    Args:
        run: sets this run apart from an earlier one, of which a server may still know an adapter by the same name.
    """

    def __init__(self, root: Path, run: str) -> None:
        self._root = root.absolute()
        self._run = run
        self._last: Path | None = None
        self.count = 0

    def next(self, policy_version: int) -> Path:
        """Where the weights are to be written; its name, never given twice, is also that of the adapter."""
        self.count += 1
        return self._root / f"orchestai-{self._run}-{self.count}-v{policy_version}"

    def keep(self, path: Path) -> Path | None:
        """Remove the folder before `path`, which the engine has taken over; the one removed, if any, is given back."""
        before, self._last = self._last, path
        if before is not None:
            shutil.rmtree(before, ignore_errors=True)
        return before

    def clear(self) -> None:
        """Remove the last folder too."""
        if self._last is not None:
            shutil.rmtree(self._last, ignore_errors=True)


OPTION = "weight_transfer_config"
FLAG = "--weight-transfer-config"
"""What asks for it: an argument of an engine, and of a server."""
TO_SERVER, TO_ENGINE = {"backend": "nccl"}, {"backend": "ipc"}
"""What that argument is to say."""


class Sender(Protocol):
    """The trainer's side of vLLM's weight transfer, open."""

    def send_weights(self) -> None:
        """Give the engine the present weights; blocks until it has them."""
        ...


def possible(weights: Weights) -> bool:
    """Whether they can go by themselves: they are on a GPU, and the trainer's side of vLLM is installed here."""
    try:
        from vllm.distributed.weight_transfer import WeightTransferTrainerFactory  # noqa: F401
    except ImportError:
        return False
    return next(iter(weights.tensors().values())).is_cuda


def to_server(weights: Weights, url: str, workers: int, timeout_s: float) -> Sender:
    """Open the way to a server that was started with `TO_SERVER`. Blocks until its workers have joined.

    Args:
        workers: processes of the server, each with a GPU of its own. This process sends from its first, as a new thread
            has it.
        timeout_s: most seconds for each request.
    """
    from vllm.distributed.weight_transfer import HTTPVLLMWeightSyncClient, WeightTransferTrainerFactory
    from vllm.distributed.weight_transfer.nccl_engine import NCCLTrainerInitInfo

    host, port = _meeting_point(url)
    joining = NCCLTrainerInitInfo(rank=0, master_address=host, master_port=port, world_size=1 + workers)
    client = HTTPVLLMWeightSyncClient(url, timeout_s)
    sender: Sender = WeightTransferTrainerFactory.trainer_init(joining, client=client, source=_Source(weights))
    return sender


def prepare_engine() -> None:
    """Before an engine with `TO_ENGINE` is opened: what is sent to its process are handles, which vLLM pickles."""
    os.environ["VLLM_ALLOW_INSECURE_SERIALIZATION"] = "1"


def to_engine(weights: Weights, llm: Any) -> Sender:
    """Open the way to a `vllm.LLM` on the same GPU that was opened with `TO_ENGINE`."""
    from vllm.distributed.weight_transfer import WeightTransferTrainerFactory
    from vllm.distributed.weight_transfer.ipc_engine import IPCTrainerInitInfo

    sender: Sender = WeightTransferTrainerFactory.trainer_init(
        IPCTrainerInitInfo(rank=0), client=_EngineClient(llm), source=_Source(weights)
    )
    return sender


def _meeting_point(url: str) -> tuple[str, int]:
    """An address of this machine that the server can reach, and a port that is free there."""
    parts = urlsplit(url)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as towards:
        towards.connect((parts.hostname, parts.port or 80))
        host: str = towards.getsockname()[0]
    with socket.socket() as free:
        free.bind((host, 0))
        return host, free.getsockname()[1]


class _Source:
    """What vLLM sends, as its `WeightSource`."""

    def __init__(self, weights: Weights) -> None:
        self._weights = weights

    def metadata(self) -> list[Any]:
        from vllm.distributed.weight_transfer import ParamMeta

        return [ParamMeta(name, tensor.dtype, tuple(tensor.shape)) for name, tensor in self]

    def __iter__(self) -> Iterator[tuple[str, Tensor]]:
        return iter(self._weights.tensors().items())


class _EngineClient:
    """A `vllm.LLM` as the trainer's side asks it, which says it plainly where `vllm.LLM` wants requests."""

    def __init__(self, llm: Any) -> None:
        self._llm = llm
        self.start_weight_update = llm.start_weight_update
        self.finish_weight_update = llm.finish_weight_update

    def init_weight_transfer_engine(self, init_info: dict[str, Any]) -> None:
        self._llm.init_weight_transfer_engine({"init_info": init_info})

    def update_weights(self, update_info: dict[str, Any] | list[dict[str, Any]]) -> None:
        self._llm.update_weights({"update_info": update_info})


class Handover(Protocol):
    """Brings weights to an engine that writes nothing meanwhile."""

    async def give(self, weights: Weights, policy_version: int) -> None:
        """Let the engine have them; only the prompts that it keeps are still those of the weights before.

        Raises:
            UserError: it did not take them.
        """
        ...


class ByFolder:
    """Writes a folder, and lets the engine read it.

    Args:
        load: tells the engine to.
    """

    def __init__(self, folders: Folders, load: Callable[[Path], Awaitable[None]]) -> None:
        self._folders = folders
        self._load = load

    async def give(self, weights: Weights, policy_version: int) -> None:
        """See `Handover.give`."""
        folder = self._folders.next(policy_version)
        weights.write(folder)
        await self._load(folder)
        self._folders.keep(folder)


class ByTransfer:
    """Lets vLLM send what it was opened for.

    Args:
        do: runs what blocks, where it belongs.
    """

    def __init__(self, sender: Sender, do: Callable[[Callable[[], None]], Awaitable[Any]]) -> None:
        self._sender = sender
        self._do = do

    async def give(self, weights: Weights, policy_version: int) -> None:
        """See `Handover.give`."""
        await self._do(self._sender.send_weights)
