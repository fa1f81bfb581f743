"""Tiny models that vLLM computes on a CPU, and started servers of vLLM."""

from __future__ import annotations

import copy
import math
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM

from orchestai.installed import shipped
from support.models.language_model import tiny_tokenizer

CONTEXT = 4096
"""Tokens; long enough for the prompts of agents, byte by byte."""

OPTIONS: dict[str, bool | int] = {
    "enforce_eager": True,
    # vLLM 0.32 cannot read a prompt with a seed of its own in several passes on a CPU: its engine ends.
    "enable_chunked_prefill": False,
    "max_num_batched_tokens": 8192,  # at least the context of any model here
}
"""For engines and servers alike."""

_TO_START_S = 1200
"""A minute on a free core; ten and more where several programs share it."""


def make_model(*, tied: bool) -> LlamaForCausalLM:
    """Two layers whose heads are of 32 numbers, the fewest that vLLM computes on a CPU; the same at each call."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        config = LlamaConfig(
            vocab_size=257,
            hidden_size=64,
            intermediate_size=128,
            num_hidden_layers=2,
            num_attention_heads=2,
            num_key_value_heads=1,
            initializer_range=0.1,
            max_position_embeddings=CONTEXT,
            tie_word_embeddings=tied,
            bos_token_id=None,
            eos_token_id=0,
        )
        return LlamaForCausalLM(config).eval()


def save_model(folder: Path, *, tied: bool) -> Path:
    make_model(tied=tied).save_pretrained(folder)
    tiny_tokenizer().save_pretrained(folder)
    return folder


@torch.no_grad()
def save_taught_model(folder: Path) -> Path:
    """The tiny model that was taught how turns of agents look, with heads of 32 numbers instead of 16.

    A head computes the same when its pairs of numbers go where positions turn them as before, every other pair of the
    wider one, and zeros stand between them.
    """
    taught = AutoModelForCausalLM.from_pretrained(shipped("data/agents/tiny"), dtype=torch.float32)
    narrow = taught.config.head_dim
    heads = taught.config.num_attention_heads
    config = copy.deepcopy(taught.config)
    config.head_dim = 2 * narrow
    wide = LlamaForCausalLM(config)
    place = torch.cat([torch.arange(0, narrow, 2), torch.arange(narrow, 2 * narrow, 2)])
    place = (torch.arange(heads)[:, None] * 2 * narrow + place).flatten()
    weights = taught.state_dict()
    for name, parameter in wide.named_parameters():
        if "q_proj" in name or "k_proj" in name or "v_proj" in name:
            parameter.zero_()[place] = weights[name] * (math.sqrt(2) if "q_proj" in name else 1)
        elif "o_proj" in name:
            parameter.zero_()[:, place] = weights[name]
        else:
            parameter.copy_(weights[name])
    ids = torch.arange(40, 100)[None]
    torch.testing.assert_close(wide(ids).logits, taught(ids).logits, atol=1e-3, rtol=1e-4)
    wide.save_pretrained(folder)
    AutoTokenizer.from_pretrained(shipped("data/agents/tiny")).save_pretrained(folder)
    return folder


@contextmanager
def serving(model: Path, *options: str, log: Path, dev_mode: bool = True) -> Iterator[tuple[str, subprocess.Popen]]:
    """A started server of vLLM; gives its URL and its process, which leads a group of its own."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", str(model), "--host", "127.0.0.1"]
    command += ["--port", str(port), "--dtype", "float32", "--logprobs-mode", "processed_logprobs"]
    for name, value in OPTIONS.items():
        flag = name.replace("_", "-")
        command += [f"--{flag if value else 'no-' + flag}"] if isinstance(value, bool) else [f"--{flag}", str(value)]
    mode = {"VLLM_SERVER_DEV_MODE": "1", "VLLM_ALLOW_RUNTIME_LORA_UPDATING": "1"} if dev_mode else {}
    with log.open("w") as output:
        process = subprocess.Popen(
            [*command, *options], env=os.environ | mode, stdout=output, stderr=output, start_new_session=True
        )
    url = f"http://127.0.0.1:{port}"
    try:
        _wait(url, process, log)
        yield url, process
    finally:
        end(process)


def end(process: subprocess.Popen) -> None:
    """Kill a server with the processes that it started."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    process.wait()


def _wait(url: str, process: subprocess.Popen, log: Path) -> None:
    deadline = time.monotonic() + _TO_START_S
    while time.monotonic() < deadline:
        try:
            urllib.request.urlopen(f"{url}/health", timeout=5).close()
        except (urllib.error.URLError, OSError):
            assert process.poll() is None, log.read_text()[-3000:]
            time.sleep(1)
        else:
            return
    raise AssertionError(f"no server within {_TO_START_S} s; {log.read_text()[-3000:]}")
