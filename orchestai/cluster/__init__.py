"""Actors on the nodes of a Ray cluster: what they keep of their environment, how it is joined, and which is asked."""

from importlib.util import find_spec

from orchestai.errors import UserError


def refuse_absent_ray(key: str, otherwise: str) -> None:
    """Raise `UserError` where Ray is not installed.

    Args:
        key: of the configuration, that asks for it.
        otherwise: a value of the key that needs none.
    """
    if find_spec("ray") is None:
        raise UserError(f"{key}: ray is not installed; pip install 'orchestai[ray]', or set it to {otherwise}")
