"""Says whether this machine can train by `local_mt_grpo_train.sh`, part by part; exit code 1 if one is missing."""

import sys

from orchestai.doctor import check_training

if __name__ == "__main__":
    findings = check_training()
    print("\n".join(map(str, findings)))
    sys.exit(any(one.needed and not one.there for one in findings))
