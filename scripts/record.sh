#!/usr/bin/env bash
# Remakes data/recordings/composition.jsonl.gz by live runs of the embedded model: every worker on every operation's
# wordings, and asked for whole test tasks. About 40 minutes on two cores; what is done is kept when it is repeated.
set -euo pipefail
cd "$(dirname "$0")/.."
orchestai="${ORCHESTAI:-.venv/bin/orchestai}"
folder=runs/recording
collect() { "$orchestai" collect --output_dir "$folder/logs" --record "$folder/composition.jsonl" "$@" 'workers.recordings=[]'; }
for worker in smol-greedy smol-fewshot smol-sample; do
  collect --planner "reference:$worker" --num_executions 800
done
for worker in smol-greedy smol-fewshot smol-sample; do
  collect --planner "whole:$worker" --num_executions 300 tasks.split=test
done
mkdir -p data/recordings
gzip -9 --no-name --stdout "$folder/composition.jsonl" > data/recordings/composition.jsonl.gz.tmp
mv data/recordings/composition.jsonl.gz.tmp data/recordings/composition.jsonl.gz
