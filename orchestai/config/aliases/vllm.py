"""TRL's words for what samples with vLLM: whether anything does, where a server listens, and what an engine takes."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from orchestai.config.aliases.table import override
from orchestai.errors import UserError

_log = logging.getLogger(__name__)
_PORT = ("vllm_server_port", "vllm_port")
_OF_SERVER = ("vllm_server_base_url", "vllm_server_host", *_PORT)
_OF_ENGINE = {
    "vllm_gpu_memory_utilization": "gpu_memory_utilization",
    "vllm_tensor_parallel_size": "tensor_parallel_size",
}
KEYS = ("use_vllm", "vllm_mode", *_OF_SERVER, *_OF_ENGINE)


def vllm_words(values: Mapping[str, Any], section: str) -> list[str]:
    """Overrides of a model's section, for all of the `KEYS` that are given.

    As in TRL nothing is sampled by vLLM unless `use_vllm` says so. `vllm_port`, which is not TRL's, says so too.
    Without `vllm_mode` a server is meant.

    Args:
        section: of the configuration, such as `model`.

    Raises:
        UserError: the mode is unknown.
    """
    given = {key: values[key] for key in KEYS if values.get(key) is not None}
    if str(given.get("use_vllm", "vllm_port" in given)).lower() != "true":
        _warn(given, ("use_vllm",), "nothing is sampled by vLLM without use_vllm=true")
        return [f"{section}.backend=transformers"] if "use_vllm" in given else []
    mode = given.get("vllm_mode", "server")
    if mode == "server":
        _warn(given, ("use_vllm", "vllm_mode", *_OF_SERVER), "a server is started with its own")
        return [f"{section}.backend=vllm_server", override(f"{section}.vllm.base_url", _url(given))]
    if mode != "colocate":
        raise UserError(f"vllm_mode={mode}: write server, or colocate for an engine in every process")
    _warn(given, ("use_vllm", "vllm_mode", *_OF_ENGINE), "with vllm_mode=colocate there is no server")
    engine = [f"{section}.vllm.{ours}={given[key]}" for key, ours in _OF_ENGINE.items() if key in given]
    return [f"{section}.backend=vllm", *engine]


def _url(given: Mapping[str, Any]) -> str:
    if "vllm_server_base_url" in given:
        return str(given["vllm_server_base_url"])
    host = given.get("vllm_server_host", "localhost")
    port = next((given[key] for key in _PORT if key in given), 8000)
    return f"http://{'localhost' if host == '0.0.0.0' else host}:{port}"


def _warn(given: Mapping[str, Any], used: tuple[str, ...], reason: str) -> None:
    unused = [key for key in given if key not in used]
    if unused:
        _log.warning("%s: changes nothing here, since %s", ", ".join(unused), reason)
