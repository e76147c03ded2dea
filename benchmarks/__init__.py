"""What `make bench` measures: our figures beside those of peers, in one run.

`python -m benchmarks` prints the table and keeps it; a figure is a module, a peer a
script in `peers`.
"""
