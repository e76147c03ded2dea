"""Jobs that hang, and some that do not: what `explain` is tried on.

`jobs/` are plain programs; `launch` runs them and keeps what a job leaves. `play` has
jobs on paper, `nccl` writes their dumps as NCCL's recorder does, `generated` are some.
`cases` has the answers, `battery` the marks, `torchfrtrace` those of torch's own tool.
"""
