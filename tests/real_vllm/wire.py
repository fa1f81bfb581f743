"""vLLM's weight transfer without a GPU: its own engines, clients and routes, with tensors that go by TCP.

What stands in for NCCL is a `StatelessProcessGroup`, and for the handles of CUDA IPC the tensors themselves.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

from vllm.distributed.utils import StatelessProcessGroup
from vllm.distributed.weight_transfer import (
    WeightTransferEngineFactory,
    WeightTransferTrainerFactory,
    ipc_engine,
    nccl_engine,
)
from vllm.distributed.weight_transfer.ipc_engine import IPCTrainerWeightTransferEngine, IPCWeightTransferEngine
from vllm.distributed.weight_transfer.nccl_engine import NCCLTrainerWeightTransferEngine, NCCLWeightTransferEngine

from orchestai.lm.backends.vllm_worker import FolderLoader


class TcpReceiver(NCCLWeightTransferEngine):
    """Of the server's worker."""

    def init_transfer_engine(self, init_info: Any) -> None:
        self.group = _join(init_info, rank=init_info.rank_offset)

    def update_weights(self, update_info: dict[str, Any]) -> None:
        told = self.parse_update_info(update_info)
        for name, dtype, shape in zip(told.names, told.dtype_names, told.shapes, strict=True):
            weight = self.group.broadcast_obj(None, src=0)
            assert (str(weight.dtype), list(weight.shape)) == (f"torch.{dtype}", shape)
            self.model.load_weights([(name, weight)])

    def shutdown(self) -> None:
        """The group ends with its processes."""


class TcpSender(NCCLTrainerWeightTransferEngine):
    def _broadcast(self, source: Any, meta: Any) -> None:
        for _, tensor in self._checked_iter(source, meta):
            self.model_update_group.broadcast_obj(tensor, src=0)


class PickleReceiver(IPCWeightTransferEngine):
    """Of the engine's worker."""

    def update_weights(self, update_info: dict[str, Any]) -> None:
        told = self.parse_update_info(update_info)
        handles = [handle["no GPU"][0] for handle in told.ipc_handles]
        self.model.load_weights([(name, pickle.loads(one)) for name, one in zip(told.names, handles, strict=True)])


class PickleSender(IPCTrainerWeightTransferEngine):
    def __init__(self, *, client: Any, source: Any, packed: bool, **_: Any) -> None:
        super(IPCTrainerWeightTransferEngine, self).__init__(client=client, source=source)
        self.packed = packed
        self.gpu_uuid = "no GPU"

    @staticmethod
    def _post_send_sync() -> None:
        """Nothing is in the making."""


class Workers(FolderLoader):
    """The extension of workers by which their process reads this file."""


def _join(info: Any, rank: int) -> StatelessProcessGroup:
    return StatelessProcessGroup.create(info.master_address, info.master_port, rank, info.world_size, store_timeout=20)


def senders(patch: Any) -> None:
    """Let this process, which trains, send so."""
    made: dict[str, Callable[[], type]] = {"nccl": lambda: TcpSender, "ipc": lambda: PickleSender}
    for name, make in made.items():
        patch.setitem(WeightTransferTrainerFactory._registry, name, make)
    patch.setattr(nccl_engine, "open_trainer_endpoint", lambda info: _join(info, rank=0))
    patch.setattr(ipc_engine, "reduce_tensor", lambda tensor: (None, (pickle.dumps(tensor),)))


WeightTransferEngineFactory._registry |= {"nccl": lambda: TcpReceiver, "ipc": lambda: PickleReceiver}
