"""Files of plans for readers to read."""

from __future__ import annotations

import gzip
import json

from orchestai.data.readers import READERS, SourcePlan

BREAK = {
    "question_id": "ATIS_7",
    "question_text": "which flights from denver are cheaper than those from boston ",
    "decomposition": "return flights ;return #1 from  denver ;return price of #2 ;return #1 where #3 is low",
    "operators": "[]",
}


def write(path, content) -> None:
    text = "".join(json.dumps(c) + "\n" for c in content) if ".jsonl" in path.name else json.dumps(content)
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())


def only(name: str, path) -> SourcePlan:
    [plan] = READERS[name](path)
    return plan
