"""Makes a bundle smaller or faster and proves what that costs: float16, int8, int4.

The rest of the package never imports it; it knows no model family, only graphs and what a family says of its own.
"""
