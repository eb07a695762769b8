"""TODO"""


def file() -> None:
    """x"""
