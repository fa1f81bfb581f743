#!/usr/bin/env bash
# Phase 2 in N processes of this machine:
#   scripts/launch.sh N [default] [LAYOUT] [WORDS of train.py]         on BigCodeBench
#   scripts/launch.sh N CONFIG.yaml [LAYOUT] [FLAGS and KEY=VALUE overrides of orchestai train-phase2]
# LAYOUT is a file of accelerate_configs without its ending; short: zero1, zero2, zero3 (if none is named), offload.
#   scripts/launch.sh 8 default trainer_cfg=ppo max_steps=1000
#   scripts/launch.sh 8 config.yaml offload --checkpoint checkpoints/phase1_best
# Both take trainer_cfg=ppo|grpo, max_steps=N (updates) and model_name_or_path=NAME for overrides.
# MASTER_PORT: where the processes meet (29500).
set -euo pipefail
root="$(cd "$(dirname "$0")/.." && pwd)"
layouts="$root/accelerate_configs"

usage() { sed -n '2,9s/^# \{0,1\}//p' "$0" >&2; exit 2; }
[[ "${1:-}" =~ ^[1-9][0-9]*$ ]] || usage
processes=$1
shift

config=
case "${1:-}" in
  default) shift ;;
  *=*) ;;
  *.yaml) config=$1; shift ;;
esac

layout=deepspeed_zero3
case "${1:-}" in
  offload) layout=deepspeed_zero3_cpu_offloading; shift ;;
  zero[123]) layout=deepspeed_$1; shift ;;
  "" | -* | *=*) ;;
  *)
    layout=$1
    if [[ ! -f "$layouts/$layout.yaml" ]]; then
      echo "launch.sh: no layout '$layout'; there are offload, zero1, zero2, zero3 and" \
        "$(cd "$layouts" && ls | sed 's/\.yaml$//' | xargs)" >&2
      exit 2
    fi
    shift
    ;;
esac

launch=(accelerate launch --config_file "$layouts/$layout.yaml" --num_processes "$processes"
  --main_process_port "${MASTER_PORT:-29500}")
if [[ -z "$config" ]]; then
  exec "${launch[@]}" "$root/train.py" "$@"
fi

if [[ ! -f "$config" ]]; then
  echo "launch.sh: no file '$config'" >&2
  exit 2
fi
exec "${launch[@]}" "$root/scripts/train_phase2.py" --config "$config" "$@"
