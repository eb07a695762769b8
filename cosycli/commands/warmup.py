"""TODO"""


def warmup() -> None:
    """x"""
