"""The demo is the first thing a newcomer runs, often twice, often interrupted: finished stages must stay finished."""

import pytest

from orchestai.cli.demo import Stages
from orchestai.errors import UserError


def test_a_finished_stage_is_not_run_again(tmp_path):
    done = []
    Stages(tmp_path, "a").run("collect", "about", lambda: done.append(1))
    Stages(tmp_path, "a").run("collect", "about", lambda: done.append(2))
    assert done == [1]


def test_an_interrupted_stage_runs_again(tmp_path):
    def interrupted():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Stages(tmp_path, "a").run("collect", "about", interrupted)
    done = []
    Stages(tmp_path, "a").run("collect", "about", lambda: done.append(1))
    assert done == [1]


def test_stages_of_another_configuration_are_refused(tmp_path):
    Stages(tmp_path, "a").run("collect", "about", lambda: None)
    with pytest.raises(UserError, match="another configuration"):
        Stages(tmp_path, "b")
