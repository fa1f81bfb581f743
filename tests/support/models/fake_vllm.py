"""What vLLM does at its borders, with a tiny model inside: an engine, its HTTP server, and its Python module.

The engine has its own copy of the model, reads weights from folders alone, and caches prompts until it is told not to.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import torch
from safetensors.torch import load_file
from transformers import PreTrainedModel

from orchestai.config import LoraConfig
from orchestai.lm import loading
from orchestai.lm.causal import CausalPolicy
from orchestai.lm.sampling import Completion
from support.models.language_model import tiny_model

LORA = LoraConfig(rank=2, targets=("q_proj", "v_proj"))


class Engine:
    """Faults can be switched on: `deaf` (weights are not taken over), `forgetless` (cached prompts survive new
    weights), `hot` (draws at another temperature than it is asked for), `broken` (no finite log-probability),
    `untied` (an output layer that is tied to the embeddings keeps its weights).

    Args:
        make: the model as it is before any weights are handed over.
        end_ids: tokens that end a completion, which every request must name.
    """

    def __init__(
        self,
        *faults: str,
        make: Callable[[], PreTrainedModel] = tiny_model,
        end_ids: frozenset[int] = frozenset({0}),
        lora: LoraConfig = LORA,
    ) -> None:
        self.faults = set(faults)
        self.make = make
        self.end_ids = end_ids
        self.lora = lora
        self.base = CausalPolicy(make(), end_ids)
        self.adapters: dict[str, CausalPolicy] = {}
        self.prompts: dict[tuple[int, ...], CausalPolicy] = {}
        self.calls: list[str] = []
        self.lock = threading.Lock()

    def generate(self, prompt: list[int], seed: int, temperature: float, length: int, adapter: str = "") -> Completion:
        with self.lock:
            policy = self.adapters[adapter] if adapter else self.prompts.setdefault(tuple(prompt), self.base)
            found = policy.sample(
                [torch.tensor(prompt)],
                [seed],
                temperature=temperature * (0.5 if "hot" in self.faults else 1),
                max_new_tokens=length,
            )[0]
        return Completion(found.ids, found.logp * float("nan"), found.ended) if "broken" in self.faults else found

    def reload(self, weights_path: str) -> None:
        self.calls.append("reload")
        if "deaf" not in self.faults:
            state = load_file(Path(weights_path) / "model.safetensors")
            head = self.base.model.get_output_embeddings().weight
            self.base = CausalPolicy(self.make(), self.end_ids)
            missing, unexpected = self.base.model.load_state_dict(state, strict=False)
            assert not unexpected
            assert set(missing) <= set(self.base.model._tied_weights_keys or ()), "tied weights are saved once"
            if "untied" in self.faults:
                self.base.model.get_output_embeddings().weight = torch.nn.Parameter(head.detach().clone())

    def reset_prefix_cache(self) -> None:
        self.calls.append("reset")
        if "forgetless" not in self.faults:
            self.prompts.clear()

    def load_adapter(self, name: str, path: str) -> None:
        assert name not in self.adapters, "vLLM refuses a name that it knows"
        assert json.loads((Path(path) / "adapter_config.json").read_text())["r"] == self.lora.rank
        model = self.make()
        loading.load_adapter(model, self.lora, Path(path))
        self.adapters[name] = CausalPolicy(model.eval(), self.end_ids)
        if "deaf" in self.faults:
            self.adapters[name] = CausalPolicy(self.make(), self.end_ids)


@contextmanager
def serving(engine: Engine) -> Iterator[str]:
    """The engine behind the part of vLLM's HTTP interface that is used; gives its URL."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            if self.path.startswith("/server_info"):
                ways = {"parallel_config": {"worker_extension_cls": ""}}
                return self.answer({"vllm_config": ways})
            assert self.path == "/v1/models"
            cards = [{"id": "base", "object": "model", "parent": None}]
            cards += [{"id": name, "object": "model", "parent": "base"} for name in engine.adapters]
            self.answer({"object": "list", "data": cards})

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if self.path == "/v1/completions":
                self.complete(body)
            elif self.path == "/collective_rpc":
                assert body["method"] == "reload_weights"
                engine.reload(**body["kwargs"])
                self.answer({"results": [None]})
            elif self.path == "/reset_prefix_cache":
                engine.reset_prefix_cache()
                self.answer("")
            elif self.path == "/v1/load_lora_adapter":
                engine.load_adapter(body["lora_name"], body["lora_path"])
                self.answer("Success")
            else:
                assert self.path == "/v1/unload_lora_adapter"
                del engine.adapters[body["lora_name"]]
                self.answer("Success")

        def complete(self, body: dict[str, Any]) -> None:
            if body["model"] not in {"base", *engine.adapters}:
                return self.answer({"error": {"message": f"The model `{body['model']}` does not exist."}}, 404)
            assert (body["top_p"], body["top_k"], body["min_p"], body["repetition_penalty"]) == (1.0, 0, 0.0, 1.0)
            assert body["return_token_ids"]
            assert body["stop_token_ids"] == sorted(engine.end_ids)
            adapter = body["model"] if body["model"] != "base" else ""
            found = engine.generate(body["prompt"], body["seed"], body["temperature"], body["max_tokens"], adapter)
            ids = found.ids.tolist()
            logprobs = {
                "tokens": [f"token {i}" for i in ids],
                "token_logprobs": [value if value == value else None for value in found.logp.tolist()],
                "top_logprobs": [None] * len(ids),
                "text_offset": [0] * len(ids),
            }
            reason = "stop" if found.ended else "length"
            choice = {"index": 0, "text": "", "logprobs": logprobs, "finish_reason": reason, "token_ids": ids}
            self.answer({"id": "1", "object": "text_completion", "model": body["model"], "choices": [choice]})

        def answer(self, content: Any, status: int = 200) -> None:
            text = content if isinstance(content, str) else json.dumps(content)
            self.send_response(status)
            self.send_header("Content-Type", "text/plain" if isinstance(content, str) else "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_: Any) -> None:
            pass

    class Server(ThreadingHTTPServer):
        request_queue_size = 128  # of 5 connections waiting, a busy machine drops the sixth

    server = Server(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def module(engine: Engine) -> dict[str, ModuleType]:
    """The names that `import vllm` is used for."""

    class LLM:
        def __init__(self, **arguments: Any) -> None:
            engine.calls.append("open")
            assert arguments["logprobs_mode"] == "processed_logprobs"
            assert arguments["generation_config"] == "vllm"
            self.arguments = arguments
            self.llm_engine = SimpleNamespace(engine_core=SimpleNamespace(shutdown=self._shutdown))

        def _shutdown(self) -> None:
            engine.calls.append("close")

        def generate(self, prompts: list[Any], params: list[Any], *, lora_request: Any, use_tqdm: bool) -> list[Any]:
            outputs = []
            if lora_request is not None and lora_request.lora_name not in engine.adapters:
                engine.load_adapter(lora_request.lora_name, lora_request.lora_path)
            for prompt, one in zip(prompts, params, strict=True):
                assert set(prompt) == {"prompt_token_ids"}
                assert one.logprobs == 0
                assert one.stop_token_ids == sorted(engine.end_ids)
                adapter = lora_request.lora_name if lora_request is not None else ""
                found = engine.generate(prompt["prompt_token_ids"], one.seed, one.temperature, one.max_tokens, adapter)
                steps = [
                    {token: SimpleNamespace(logprob=value, rank=1)}
                    for token, value in zip(found.ids.tolist(), found.logp.tolist(), strict=True)
                ]
                reason = "stop" if found.ended else "length"
                output = SimpleNamespace(token_ids=found.ids.tolist(), logprobs=steps, finish_reason=reason)
                outputs.append(SimpleNamespace(outputs=[output]))
            return outputs

        def collective_rpc(self, method: str, kwargs: dict[str, Any]) -> None:
            assert method == "load_folder", "of the workers' extension"
            engine.reload(**kwargs)

        def reset_prefix_cache(self) -> None:
            engine.reset_prefix_cache()

    class LoRARequest:
        def __init__(self, lora_name: str, lora_int_id: int, lora_path: str) -> None:
            assert lora_int_id >= 1
            self.lora_name, self.lora_int_id, self.lora_path = lora_name, lora_int_id, lora_path

    vllm, lora, request = ModuleType("vllm"), ModuleType("vllm.lora"), ModuleType("vllm.lora.request")
    vllm.LLM, vllm.SamplingParams, request.LoRARequest = LLM, SimpleNamespace, LoRARequest  # type: ignore[attr-defined]
    return {"vllm": vllm, "vllm.lora": lora, "vllm.lora.request": request}
