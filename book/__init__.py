"""The chapters as a book: executed, written as pages, and read without a network.

`python -m book` builds it; `make book` is the same. What is here: `execution` runs a
chapter and keeps what came out, `pages` lays out what Sphinx reads, `build` has Sphinx
write it, and `links` checks it. Sphinx's own configuration is `conf`, which has the
formulas from `mathml` and the colours of cells from `lexer`. On a page `reveals` folds
what answers a question, `answers` the worked exercises, and `crosslinks` makes links of
words, by `sections` and the `glossary`; `word_index` makes the index of them. The
README beside this file is for who writes a chapter.
"""
