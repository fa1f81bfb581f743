"""Says whether this machine can train by `local_mt_grpo_train.sh`, part by part; exit code 1 if one is missing."""

import sys

from orchestai.agents.setup_check import check_setup

if __name__ == "__main__":
    findings = check_setup()
    print("\n".join(map(str, findings)))
    sys.exit(any(one.needed and not one.there for one in findings))
