"""The chapters as a book: executed, written as pages, and read without a network.

`python -m book` builds it; `make book` is the same. What is here: `execution` runs a
chapter and keeps what came out, `pages` lays out what Sphinx reads, `build` has Sphinx
write it, and `links` checks it. Sphinx's own configuration is `conf`, which has the
formulas from `mathml` and the colours of cells from `lexer`.
"""
