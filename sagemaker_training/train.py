"""The entry of a SageMaker container; `orchestai launch sagemaker` starts it through scripts/sm_mt_grpo_train.sh."""

import sys

from orchestai.launch.container import main

sys.exit(main())
