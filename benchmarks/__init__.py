"""Benchmarks of `make bench`: our figures beside those of peers, in one run.

`python -m benchmarks` prints the table and saves it; a figure is a module, a peer a
script in `peers`.
"""
