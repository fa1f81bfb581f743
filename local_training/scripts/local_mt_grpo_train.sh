#!/usr/bin/env bash
# MT-GRPO in all GPUs of this machine (or N processes):
#   local_training/scripts/local_mt_grpo_train.sh [--config FILE] [--num_process N] [FLAGS and KEY=VALUE words of orchestai agents train]
# FILE is a recipe or a configuration, hf_recipes/Qwen/Qwen3-0.6B--mt-grpo.yaml if absent. What a recipe says can be said
# here too: --learning_rate 2e-6. LAYOUT: a file of accelerate_configs without its ending (deepspeed_zero3).
# With --vllm_port PORT a server of vLLM on the last of the N GPUs writes the rollouts, and the others train.
#   local_training/scripts/local_mt_grpo_train.sh --config configs/agents/tool_use.yaml --num_process 8 --vllm_port 8000 --output_dir runs/mt_grpo
set -euo pipefail
here="$(cd "$(dirname "$0")/.." && pwd)"
root="$(dirname "$here")"
config="$here/hf_recipes/Qwen/Qwen3-0.6B--mt-grpo.yaml"
processes=
port=
rest=()
while (($#)); do
  case "$1" in
    --config) config=${2:?--config wants a file}; shift 2 ;;
    --num_process | --num_processes | --num_gpus) processes=${2:?--num_process wants a number}; shift 2 ;;
    --vllm_port) port=${2:?--vllm_port wants a number}; shift 2 ;;
    -h | --help) sed -n '2,8s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) rest+=("$1"); shift ;;
  esac
done
if [[ -z "$processes" ]]; then
  processes=$(python -c 'import torch; print(max(torch.cuda.device_count(), 1))')
fi
[[ "$processes" =~ ^[1-9][0-9]*$ ]] || { echo "--num_process $processes: write a whole number from 1" >&2; exit 2; }
[[ -z "$port" ]] || { processes=$((processes - 1)); rest+=("vllm_port=$port"); }
training=(accelerate launch --config_file "$root/accelerate_configs/${LAYOUT:-deepspeed_zero3}.yaml"
  --num_processes "$processes" --main_process_port "${MASTER_PORT:-29500}"
  "$here/mt_grpo_trainer.py" --config "$config" ${rest[@]+"${rest[@]}"})
[[ -n "$port" ]] || exec "${training[@]}"

if ((processes < 1)); then
  echo "--vllm_port $port: the server takes one GPU of at least two; give --num_process 2 or more, or no --vllm_port" >&2
  exit 2
fi
CUDA_VISIBLE_DEVICES=$processes python "$here/vllm_server.py" --config "$config" "${rest[@]}" &
server=$!
trap 'kill "$server" 2>/dev/null && wait "$server" || true' EXIT # its port and its GPU are free again
health="import urllib.request; urllib.request.urlopen('http://localhost:$port/health', timeout=5)"
until python -c "$health" 2>/dev/null; do
  kill -0 "$server" 2>/dev/null || { echo "the server of vLLM has ended; its output above says why" >&2; exit 1; }
  sleep 1
done
CUDA_VISIBLE_DEVICES=$(seq --separator , 0 $((processes - 1))) "${training[@]}" &
trainer=$!
trap 'kill "$trainer" 2>/dev/null' INT TERM
code=0
wait "$trainer" || code=$?
if kill -0 "$trainer" 2>/dev/null; then # a signal ended the waiting, and the training saves what it has
  code=0
  wait "$trainer" || code=$?
fi
exit "$code"
