#!/usr/bin/env bash
# MT-GRPO in all GPUs of this machine (or N processes):
#   scripts/local_mt_grpo_train.sh [--config FILE] [--num_process N] [FLAGS and KEY=VALUE words of orchestai agents train]
# FILE is configs/agents/tool_use.yaml if absent. LAYOUT: a file of accelerate_configs without its ending (deepspeed_zero3).
#   scripts/local_mt_grpo_train.sh --config configs/agents/tool_use_small.yaml --num_process 8 --output_dir runs/mt_grpo
set -euo pipefail
root="$(cd "$(dirname "$0")/.." && pwd)"
config="$root/configs/agents/tool_use.yaml"
processes=
rest=()
while (($#)); do
  case "$1" in
    --config) config=$2; shift 2 ;;
    --num_process | --num_processes) processes=$2; shift 2 ;;
    -h | --help) sed -n '2,6s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) rest+=("$1"); shift ;;
  esac
done
if [[ -z "$processes" ]]; then
  processes=$(python -c 'import torch; print(max(torch.cuda.device_count(), 1))')
fi
exec accelerate launch --config_file "$root/accelerate_configs/${LAYOUT:-deepspeed_zero3}.yaml" --num_processes "$processes" \
  --main_process_port "${MASTER_PORT:-29500}" "$root/mt_grpo_trainer.py" --config "$config" ${rest[@]+"${rest[@]}"}
