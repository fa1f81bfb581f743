#!/usr/bin/env bash
# A training on N nodes of a Slurm cluster, a process per GPU; submit it in the repository's root, on a file system that all
# nodes share. The same words again, with --resume, go on with it.
#   sbatch --nodes 2 --gpus-per-node 8 scripts/slurm_train.sh LAYOUT COMMAND [WORDS of orchestai COMMAND]
#   sbatch --nodes 2 --gpus-per-node 8 scripts/slurm_train.sh fsdp train-phase2 --config config.yaml --output_dir runs/a
#   sbatch --gpus-per-node 8 scripts/slurm_train.sh ddp agents train tool_use --output_dir runs/b
# LAYOUT is a file of accelerate_configs without its ending. DRY_RUN=1: print what each node would start.
#SBATCH --job-name=orchestai
#SBATCH --ntasks-per-node=1
#SBATCH --signal=B:TERM@300
set -euo pipefail
if (($# < 2)) || [[ "$1" == -h || "$1" == --help ]]; then sed -n '2,7s/^# \{0,1\}//p' "$0" >&2; exit 2; fi
layout="accelerate_configs/$1.yaml"
shift
[[ -f "$layout" ]] || { echo "slurm_train.sh: no file '$layout' in $PWD; submit in the repository's root" >&2; exit 2; }

nodes=${SLURM_JOB_NUM_NODES:?"submit it with sbatch"}
gpus=${SLURM_GPUS_ON_NODE:-0}
((gpus > 0)) || gpus=1 # one process of CPUs alone
hosts=$(scontrol show hostnames "$SLURM_JOB_NODELIST")
head=${hosts%%$'\n'*}
port=$((20000 + SLURM_JOB_ID % 10000)) # two jobs of one node do not meet
launch="exec python -m accelerate.commands.launch --config_file $layout --num_processes $((nodes * gpus))"
launch+=" --num_machines $nodes --machine_rank \$SLURM_NODEID --main_process_ip $head --main_process_port $port"
step=(srun --kill-on-bad-exit=1 bash -c "$launch -m orchestai.cli \"\$@\"" orchestai "$@")
if [[ -n "${DRY_RUN:-}" ]]; then
  echo "${step[@]@Q}"
  exit 0
fi
# Slurm warns five minutes before the time is over; the trainer finishes its update and saves, for which torch's launcher would
# give it half a minute.
export TORCH_ELASTIC_SHUTDOWN_TIMEOUT=${TORCH_ELASTIC_SHUTDOWN_TIMEOUT:-280}
"${step[@]}" &
trap 'kill -TERM $!; wait $!' TERM
wait $!
