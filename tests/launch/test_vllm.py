"""The server that rollouts ask: its command follows from the configuration, and seed 001's script starts it."""

from __future__ import annotations

import os
import socket
import subprocess
from pathlib import Path

import pytest

from orchestai.launch.trainings import Server, server_for
from orchestai.lm.backends.vllm_worker import EXTENSION
from support.models.language_model import save_tiny_model
from support.repository import REPOSITORY

RECIPE = REPOSITORY / "local_training/hf_recipes/Qwen/Qwen3-0.6B--mt-grpo.yaml"
WRITING = REPOSITORY / "configs/agents/magrpo_arxiv_shared.yaml"
PLANS = REPOSITORY / "configs/bigcodebench/eight_gpus.yaml"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_model(tmp_path_factory.mktemp("model"))


def pairs(server: Server) -> dict[str, str]:
    """Arguments with a value."""
    flags = [word for word in server.arguments if word != "--enable-lora"]
    return dict(zip(flags[::2], flags[1::2], strict=True))


def test_whole_models_and_adapters_get_what_they_need(folder: Path) -> None:
    whole = server_for(RECIPE, [f"model_name_or_path={folder}", "use_vllm=true", "vllm_server_port=8001"])
    assert pairs(whole) == {
        **{"--model": str(folder), "--host": "localhost", "--port": "8001", "--dtype": "float32"},
        **{"--logprobs-mode": "processed_logprobs", "--worker-extension-cls": EXTENSION},
    }
    assert whole.environment == {"VLLM_SERVER_DEV_MODE": "1"}
    words = ["model.backend=vllm_server", "model.lora.rank=12", f"model.name={folder}"]
    shared = server_for(WRITING, words)
    of_roles = server_for(WRITING, [*words, "agents.policies=adapter"])
    for server, adapters in ((shared, "1"), (of_roles, "2")):
        assert "--enable-lora" in server.arguments
        assert pairs(server)["--max-lora-rank"] == "16", "vLLM knows no rank of 12"
        assert pairs(server)["--max-loras"] == adapters
        assert server.environment == {"VLLM_ALLOW_RUNTIME_LORA_UPDATING": "1"}


SERVER = """
[[ $1 == -c ]] && exec {python} "$@"
echo "$CUDA_VISIBLE_DEVICES|$*" > server
sleep 1
exec {python} -c '
import http.server, signal
class Healthy(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if self.path == "/health" else 404)
        self.end_headers()
    def log_message(self, *words): pass
http.server.HTTPServer(("localhost", {port}), Healthy).serve_forever()'
"""
"""For `python`: a server that is healthy after a second."""


@pytest.fixture
def script(tmp_path: Path) -> tuple[list[str], dict[str, str], int]:
    """The script with stand-ins for what it starts, which write what they were given, and the port of its server."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    stand_ins = {
        "python": SERVER.format(python=subprocess.sys.executable, port=port),
        "accelerate": 'echo "$CUDA_VISIBLE_DEVICES|$*" > trained\n'
        'trap "echo saved > saved; exit 7" TERM\n[[ $* != *wait* ]] || while :; do sleep 0.1; done',
    }
    (tmp_path / "bin").mkdir()
    for name, text in stand_ins.items():
        (tmp_path / "bin" / name).write_text(f"#!/bin/bash\n{text}\n")
        (tmp_path / "bin" / name).chmod(0o755)
    command = [str(REPOSITORY / "local_training/scripts/local_mt_grpo_train.sh"), "--vllm_port", str(port)]
    return command, os.environ | {"PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"}, port


def refuses(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("localhost", port)) != 0


def test_the_script_gives_the_last_gpu_to_the_server(tmp_path: Path, script) -> None:
    """Seven processes train on the first of eight GPUs, once the server is healthy, and end it."""
    command, env, port = script
    words = ["--num_process", "8", "--learning_rate", "2e-6", "model.dtype=bfloat16"]
    subprocess.run([*command, *words], cwd=tmp_path, env=env, check=True, timeout=60)
    gpu, _, served = (tmp_path / "server").read_text().strip().partition("|")
    assert gpu == "7"
    assert served.endswith(f"--learning_rate 2e-6 model.dtype=bfloat16 vllm_port={port}")
    assert "vllm_server.py --config" in served
    gpus, _, trained = (tmp_path / "trained").read_text().strip().partition("|")
    assert gpus == "0,1,2,3,4,5,6"
    assert "--num_processes 7" in trained
    assert trained.endswith(f"--learning_rate 2e-6 model.dtype=bfloat16 vllm_port={port}")
    assert refuses(port), "the server has ended"
