"""Plain programs for torchrun, to read, to run and to copy.

From the package, on any machine that has it:

    torchrun --nproc-per-node 4 -m collectives_lab.scripts.collective_cheatsheet

or by the file's own path, with or without the package.
"""
