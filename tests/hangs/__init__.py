"""Jobs that hang, and some that do not: what `explain` is tried on.

`jobs/` are plain programs; `launch` runs them and keeps what a job leaves. `nccl` writes
dumps as NCCL's recorder does, and `generated` the jobs in that form. `cases` has the
answers, `battery` the marks, `torchfrtrace` the table of torch's own tool.
"""
