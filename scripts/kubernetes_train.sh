#!/usr/bin/env bash
# A training on N pods of a Kubernetes cluster, a process per GPU: prints an Indexed Job and the service by which its pods find
# each other. The same words again, with --resume, go on with it.
#   scripts/kubernetes_train.sh NAME IMAGE CLAIM PODS GPUS LAYOUT COMMAND [WORDS of orchestai COMMAND] | kubectl apply -f -
#   scripts/kubernetes_train.sh run-a registry/orchestai:1 runs 2 8 fsdp train-phase2 --output_dir /runs/a | kubectl apply -f -
# IMAGE holds this repository in /app (Dockerfile, with a CUDA build of torch). CLAIM is a volume that all pods may write to; it is
# mounted on /runs. LAYOUT is a file of accelerate_configs without its ending. kubectl apply --dry-run=client -f - tries it.
set -euo pipefail
if (($# < 7)) || [[ "$1" == -h || "$1" == --help ]]; then sed -n '2,7s/^# \{0,1\}//p' "$0" >&2; exit 2; fi
name=$1 image=$2 claim=$3 pods=$4 gpus=$5 layout=$6
shift 6
[[ "$name" =~ ^[a-z]([-a-z0-9]{0,50}[a-z0-9])?$ ]] || {
  echo "kubernetes_train.sh: a NAME has small letters, digits and hyphens alone, 52 at most, and begins with a letter: not '$name'" >&2
  exit 2
}
for count in "$pods" "$gpus"; do
  [[ "$count" =~ ^[1-9][0-9]*$ ]] || { echo "kubernetes_train.sh: '$count' is not a whole number from 1" >&2; exit 2; }
done
root="$(cd "$(dirname "$0")/.." && pwd)"
[[ -f "$root/accelerate_configs/$layout.yaml" ]] || { echo "kubernetes_train.sh: no layout '$layout'" >&2; exit 2; }

cat <<YAML
apiVersion: v1
kind: Service
metadata: {name: $name}
spec:
  clusterIP: None
  publishNotReadyAddresses: true
  selector: {job-name: $name}
---
apiVersion: batch/v1
kind: Job
metadata: {name: $name}
spec:
  completionMode: Indexed
  completions: $pods
  parallelism: $pods
  backoffLimit: 0
  template:
    spec:
      subdomain: $name
      restartPolicy: Never
      terminationGracePeriodSeconds: 300
      containers:
        - name: train
          image: $image
          workingDir: /app
          command: [bash, -c]
          args:
            - exec python -m accelerate.commands.launch --config_file accelerate_configs/$layout.yaml
              --num_processes $((pods * gpus)) --num_machines $pods --machine_rank "\$JOB_COMPLETION_INDEX"
              --main_process_ip $name-0.$name --main_process_port 29500 -m orchestai.cli "\$@"
            - orchestai
YAML
for word in "$@"; do
  echo "            - $(python3 -c 'import json, sys; print(json.dumps(sys.argv[1]))' "$word")"
done
cat <<YAML
          env: # to finish an update and save; it is half a minute otherwise
            - {name: TORCH_ELASTIC_SHUTDOWN_TIMEOUT, value: "280"}
          resources:
            limits: {nvidia.com/gpu: $gpus}
          volumeMounts:
            - {name: runs, mountPath: /runs}
            - {name: memory, mountPath: /dev/shm}
      volumes:
        - name: runs
          persistentVolumeClaim: {claimName: $claim}
        - name: memory
          emptyDir: {medium: Memory}
YAML
