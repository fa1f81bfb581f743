#!/usr/bin/env bash
# MT-GRPO in all GPUs of this machine (or N processes):
#   local_training/scripts/local_mt_grpo_train.sh [--config FILE] [--num_process N] [FLAGS and KEY=VALUE words of orchestai agents train]
# FILE is a recipe or a configuration, hf_recipes/Qwen/Qwen3-0.6B--mt-grpo.yaml if absent. What a recipe says can be said
# here too: --learning_rate 2e-6. LAYOUT: a file of accelerate_configs without its ending (deepspeed_zero3).
#   local_training/scripts/local_mt_grpo_train.sh --config configs/agents/tool_use.yaml --num_process 8 --output_dir runs/mt_grpo
set -euo pipefail
here="$(cd "$(dirname "$0")/.." && pwd)"
root="$(dirname "$here")"
config="$here/hf_recipes/Qwen/Qwen3-0.6B--mt-grpo.yaml"
processes=
rest=()
while (($#)); do
  case "$1" in
    --config) config=$2; shift 2 ;;
    --num_process | --num_processes | --num_gpus) processes=$2; shift 2 ;;
    -h | --help) sed -n '2,7s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) rest+=("$1"); shift ;;
  esac
done
if [[ -z "$processes" ]]; then
  processes=$(python -c 'import torch; print(max(torch.cuda.device_count(), 1))')
fi
exec accelerate launch --config_file "$root/accelerate_configs/${LAYOUT:-deepspeed_zero3}.yaml" \
  --num_processes "$processes" --main_process_port "${MASTER_PORT:-29500}" \
  "$here/mt_grpo_trainer.py" --config "$config" ${rest[@]+"${rest[@]}"}
