"""A test whose candidate was killed has no outcome: one that asked it once more got an error, as if it had failed."""

import os
import socket

import pytest

from orchestai.sandbox.inside.judge.proxy import CANDIDATE_GONE, send


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs forked processes")
def test_asking_a_candidate_that_is_gone_ends_the_tests_process() -> None:
    ours, theirs = socket.socketpair()
    theirs.close()
    if not (child := os.fork()):
        send(ours, b"c", b"a call")
        os._exit(0)
    ours.close()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == CANDIDATE_GONE
