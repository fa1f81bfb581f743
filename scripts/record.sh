#!/usr/bin/env bash
# Remakes data/recordings/composition.jsonl.gz by live runs of the embedded model: every worker on every wording of every
# operation, and asked for the test tasks whole. About half an hour on two idle cores; repeat it to continue.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=runs/recording
collect() {
  .venv/bin/orchestai collect --output_dir "$folder/logs" --record "$folder/$1.jsonl" "${@:2}" 'workers.recordings=[]'
}
for worker in smol-greedy smol-fewshot smol-sample; do
  collect steps --planner "reference:$worker" --num_executions 2400
  collect whole --planner "whole:$worker" --num_executions 300 tasks.split=test
done
collect whole --planner heuristic --num_executions 300 tasks.split=test
.venv/bin/python - <<'PACK'
from pathlib import Path

from orchestai.workers.recording import pack_recordings

folder = Path("runs/recording")
pack_recordings([folder / "steps.jsonl", folder / "whole.jsonl"], Path("data/recordings/composition.jsonl.gz"))
PACK
