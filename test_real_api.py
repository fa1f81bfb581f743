"""`python test_real_api.py ...`: one task on the workers of the configuration, API servers among them, is logged.

It is `orchestai collect --num_executions 1 ...` with a task that is another one each time.
"""

import sys
import time

from orchestai import cli

if __name__ == "__main__":
    cli.main(["collect", "--num_executions", "1", "--seed", str(int(time.time())), *sys.argv[1:]])
