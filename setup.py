"""Copies the files that commands need beside the code into the built package; the metadata is in pyproject.toml."""

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

SHIPPED = ("config.yaml", "configs", "data", "accelerate_configs", "requirements-embedded.txt")


class BuildWithData(build_py):
    """`orchestai/installed.py` finds them."""

    def run(self) -> None:
        super().run()
        if self.editable_mode:
            return
        for name in SHIPPED:
            source, target = Path(__file__).parent / name, Path(self.build_lib) / "orchestai" / "shipped" / name
            target.parent.mkdir(parents=True, exist_ok=True)
            if source.is_dir():
                shutil.copytree(source, target, dirs_exist_ok=True)
            else:
                shutil.copy(source, target)


setup(cmdclass={"build_py": BuildWithData})
