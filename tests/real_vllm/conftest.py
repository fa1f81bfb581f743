"""Tests of this folder need vLLM (make test-vllm), and share a server of each kind."""

from __future__ import annotations

import importlib.util
import json
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestai.lm.backends.vllm_worker import EXTENSION, METHOD
from real_vllm.gaps import NAME, Gaps
from real_vllm.servers import save_model, save_taught_model, serving


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    absent = importlib.util.find_spec("vllm") is None
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.vllm)
            item.add_marker(pytest.mark.timeout(1800))
            if absent:
                item.add_marker(pytest.mark.skip(reason="vllm is not installed here; run: make test-vllm"))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reports = [report for report in terminalreporter.getreports("passed") if report.when == "call"]
    measured = {report.nodeid: dict(report.user_properties).get(NAME) for report in reports}
    if any(measured.values()):
        terminalreporter.section("canary gaps, in nats per token")
        for name, found in measured.items():
            if found:
                terminalreporter.line(f"{name.partition('::')[2]}: {', '.join(f'{gap:.1e}' for gap in found)}")


@pytest.fixture(scope="session", autouse=True)
def _on_a_thread() -> Iterator[None]:
    """What engines and servers inherit. To compile what draws tokens takes longer than to write all of them."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {
            "VLLM_CPU_OMP_THREADS_BIND": "nobind",
            "VLLM_CPU_KVCACHE_SPACE": "1",
            "OMP_NUM_THREADS": "1",
            "TORCHDYNAMO_DISABLE": "1",
            "VLLM_NO_USAGE_STATS": "1",
            "VLLM_LOGGING_LEVEL": "WARNING",
        }.items():
            patch.setenv(name, value)
        yield


@pytest.fixture
def gaps(record_property) -> Gaps:
    return lambda found: record_property(NAME, list(found))


@pytest.fixture(scope="session")
def untied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_model(tmp_path_factory.mktemp("untied"), tied=False)


@pytest.fixture(scope="session")
def tied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_model(tmp_path_factory.mktemp("tied"), tied=True)


@pytest.fixture(scope="session")
def taught(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_taught_model(tmp_path_factory.mktemp("taught"))


OUR_WORKERS = ("--worker-extension-cls", EXTENSION, "--enable-lora", "--max-lora-rank", "32", "--max-loras", "2")
"""A server that takes over whole models and adapters alike."""


@pytest.fixture(scope="session")
def tied_server(tied: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving(tied, *OUR_WORKERS, log=tmp_path_factory.mktemp("tied_server") / "log") as (url, _):
        yield url


@pytest.fixture(scope="session")
def taught_server(taught: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving(taught, *OUR_WORKERS, log=tmp_path_factory.mktemp("taught_server") / "log") as (url, _):
        yield url


@pytest.fixture
def server(tied_server: str, tied: Path) -> str:
    """With the weights of `tied`, whoever used it before."""
    return reset(tied_server, tied)


@pytest.fixture
def agents_server(taught_server: str, taught: Path) -> str:
    """With the weights of `taught`, whoever used it before."""
    return reset(taught_server, taught)


def reset(url: str, model: Path) -> str:
    """The server's URL, after it has taken over a model's weights."""
    for path, body in {
        "collective_rpc": {"method": METHOD, "kwargs": {"weights_path": str(model)}},
        "reset_prefix_cache": {},
    }.items():
        sent = json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        urllib.request.urlopen(urllib.request.Request(f"{url}/{path}", sent, headers), timeout=60).close()
    return url


@pytest.fixture(scope="session")
def plain_server(tied: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Without our workers."""
    with serving(tied, log=tmp_path_factory.mktemp("plain") / "log") as (url, _):
        yield url
