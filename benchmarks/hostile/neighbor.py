"""Whether an honest program keeps its verdict and its speed while the program of another slot attacks the machine.

    python benchmarks/hostile/neighbor.py [--rounds 5] [--only NAME ...] [--json FILE]

Judges an honest program that computes for about half a second, by turns alone and beside each attack, which runs again
and again meanwhile. Its speed is the wall-clock time that it takes alone over that beside the attack, the median of
`--rounds` of each. `one busy process` is no attack: what any other program costs. The exit code is 1 where a verdict
was wrong, or a speed is less than 40 % of that alone.
"""

from __future__ import annotations

import argparse
import os
import sys
import threading
import time
from pathlib import Path
from statistics import median
from typing import Any

from orchestai.sandbox import Limits, Program, Sandbox
from orchestai.storage import artifacts

LEAST = 0.4
HONEST = """\
def task_func(n):
    total = 0
    for i in range(n):
        total = (total * 31 + i) % 1000003
    return total
"""
TESTS = """\
import unittest
class TestCases(unittest.TestCase):
    def test_a(self): self.assertEqual(task_func(4_000_000), 370714)
"""
ATTACK_TESTS = """\
import unittest
class TestCases(unittest.TestCase):
    def test_a(self): self.assertEqual(task_func(), "done")
"""
_FORKS = """\
import os, time
def spread(count, work, alone):
    for _ in range(count):
        try:
            if os.fork() == 0:
                if alone:
                    os.setsid()
                while True: work()
        except OSError:
            time.sleep(0.01)
def task_func():
    {body}
"""
_BURN = "lambda: sum(range(10000))"
ATTACKS = {
    "one busy process": "def task_func():\n    while True: pass",
    "processes": _FORKS.format(body=f"spread(55, {_BURN}, False)\n    while True: pass"),
    "processes in sessions of their own": _FORKS.format(body=f"spread(55, {_BURN}, True)\n    while True: pass"),
    "threads outside of the lock": """\
import hashlib, threading
def task_func():
    data = bytes(1 << 20)
    def work():
        while True: hashlib.sha256(data).digest()
    for _ in range(30): threading.Thread(target=work, daemon=True).start()
    work()
""",
    "processes that come and go": """\
import os
def task_func():
    while True:
        try:
            if os.fork() == 0: os._exit(0)
            os.waitpid(-1, os.WNOHANG)
        except OSError: pass
""",
    "memory": _FORKS.format(body="spread(8, lambda: bytearray(60 << 20).find(b'x'), True)\n    while True: pass"),
    "pipes": """\
import os
def task_func():
    held = []
    while True:
        try:
            read, write = os.pipe()
            os.set_blocking(write, False)
            held.append(read)
            while os.write(write, bytes(65536)): pass
        except OSError: pass
""",
    "sockets": _FORKS.format(
        body="import socket\n"
        "    def fill():\n"
        "        held = []\n"
        "        while True:\n"
        "            try:\n"
        "                pair = socket.socketpair()\n"
        "                held.append(pair)\n"
        "                for one in pair:\n"
        "                    one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 23)\n"
        "                    one.setblocking(False)\n"
        "                    while one.send(bytes(65536)): pass\n"
        "            except OSError: pass\n"
        "    spread(40, fill, True)\n"
        "    fill()"
    ),
    "files": """\
import os
def task_func():
    while True:
        try:
            for i in range(4000): open(f"f{i}", "wb").write(bytes(8192))
        except OSError: pass
        for name in os.listdir("."): os.remove(name)
""",
    "system calls": _FORKS.format(body="spread(20, lambda: os.listdir('/'), True)\n    while True: os.stat('/')"),
    "loopback": """\
import socket, threading
def task_func():
    server = socket.create_server(("127.0.0.1", 0))
    def send():
        client = socket.create_connection(server.getsockname())
        while True: client.sendall(bytes(1 << 20))
    for _ in range(8): threading.Thread(target=send, daemon=True).start()
    connections = [server.accept()[0] for _ in range(8)]
    while True:
        for one in connections: one.recv(1 << 20)
""",
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", nargs="+", choices=ATTACKS, default=list(ATTACKS), metavar="NAME")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    args = parser.parse_args()
    limits = Limits(wall_s=12, load_s=6, test_s=6)
    with Sandbox(workers=2, limits=limits, strictness="strict", cache_size=0) as sandbox:
        results = {name: measure(sandbox, ATTACKS[name], args.rounds) for name in args.only}
    for name, result in results.items():
        print(f"{name:36} {result['speed']:5.0%} of its speed, {result['wrong']} verdicts wrong  {result['attack']}")
    facts = {"rounds": args.rounds, "cores": os.cpu_count(), "load_at_the_end": round(os.getloadavg()[0], 1)}
    if args.json is not None:
        artifacts.write_json(args.json, facts | {"attacks": results})
    return int(any(result["wrong"] or result["speed"] < LEAST for result in results.values()))


def measure(sandbox: Sandbox, attack: str, rounds: int) -> dict[str, Any]:
    """The honest program's speed beside `attack`, how often its verdict was wrong, and what became of the attack."""
    alone, beside, endings = [], [], []
    wrong = 0
    for _ in range(rounds):
        seconds, right = _judge(sandbox)
        alone.append(seconds)
        wrong += not right
        over = threading.Event()

        def attack_again(over: threading.Event = over) -> None:
            while not over.is_set():
                report = sandbox.run(Program(attack, ATTACK_TESTS))
                endings.append(f"{report.status}: {report.reason}")

        attacker = threading.Thread(target=attack_again)
        attacker.start()
        time.sleep(0.5)
        seconds, right = _judge(sandbox)
        beside.append(seconds)
        wrong += not right
        over.set()
        attacker.join()
    return {
        "speed": round(median(alone) / median(beside), 3),
        "alone_s": [round(seconds, 3) for seconds in alone],
        "beside_s": [round(seconds, 3) for seconds in beside],
        "wrong": wrong,
        "attack": max(set(endings), key=endings.count),
    }


def _judge(sandbox: Sandbox) -> tuple[float, bool]:
    start = time.monotonic()
    report = sandbox.run(Program(HONEST, TESTS))
    return time.monotonic() - start, report.success


if __name__ == "__main__":
    sys.exit(main())
