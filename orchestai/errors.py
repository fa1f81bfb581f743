"""The errors that a user can cause and fix."""


class UserError(Exception):
    """Bad input: one line that says what happened, where, and what to do.

    The command line prints the message without a traceback and exits with code 2.
    """


class InfrastructureError(Exception):
    """Something that is neither the planner's nor the candidate's fault failed: a server, a disk, a time-out of ours.

    Whoever catches it makes the episode `Unscorable`; it is never scored as a zero.
    """
