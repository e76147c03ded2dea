"""What the site makes of words: the glossary, the index, and links in the text."""

import re
from itertools import pairwise
from pathlib import Path

import pytest
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_output

from book import (
    crosslinks,
    execution,
    glossary,
    notation,
    pages,
    truth_links,
    word_index,
)
from book.crosslinks import Targets
from book.sections import Section, sections_of

TEXT = """# Glossary

- **all-reduce**: A sum for all. (1.2)
- **ring** (ring all-reduce): Round it goes.
- **ring buffer**: Another thing.
- **SHARP**: Switches that add.
- **turn** (a plain word): A step of a ring. (1.1)
- **unheard-of**: Nowhere in the book.
"""

TERMS = glossary.terms(TEXT)


def cells(*sources: str) -> list[NotebookNode]:
    return [new_markdown_cell(source) for source in sources]


ONE = cells("# 1 · Verbs\n\nA ring.", "## 1.1 Circles\n\nA *ring* is round.")
ONE += cells("## 1.2 `all_reduce` for all\n\nSums.", "## Recap\n\nSHARP.")
TWO = [*cells("# 2 · More"), new_code_cell("%%ranks 4\ndist.all_reduce(lab.x.y(1))")]
TRY = "try:\n    import lab\nexcept ImportError:\n    %pip install lab\nplans.items()"
TWO += [new_code_cell(TRY)]
SECTIONS = [
    *sections_of(Path("01_verbs.ipynb"), ONE),
    *sections_of(Path("02_more.ipynb"), TWO),
]
INTRODUCED = glossary.introductions(TERMS, SECTIONS)
TARGETS = Targets({s.number: s for s in SECTIONS}, TERMS, INTRODUCED)


def linked(text: str, chapter: int = 2) -> str:
    """The text of a cell with its links as `[words](address)`."""
    (cell,) = crosslinks.linked(cells(text), chapter, TARGETS)
    link = re.compile(r'<a (?:class="term" )?href="([^"]*)"[^>]*>(.*?)</a>')
    return link.sub(r"[\2](\1)", cell.source)


def test_a_chapter_is_taken_apart_into_numbered_sections() -> None:
    """With their places as Sphinx names them; a recap is none."""
    assert [s.address for s in SECTIONS] == [
        "chapters/01_verbs.html",
        "chapters/01_verbs.html#circles",
        "chapters/01_verbs.html#all-reduce-for-all",
        "chapters/02_more.html",
    ]
    assert SECTIONS[-1].codes == [cell.source for cell in TWO[1:]]


def test_a_term_is_introduced_where_it_is_in_italics() -> None:
    """Unless its entry gives the section, or it is in italics nowhere."""
    numbers = {name: section.number for name, section in INTRODUCED.items()}
    assert numbers == {"all-reduce": "1.2", "ring": "1.1", "turn": "1.1"}


RING, SUM = "../docs/glossary.html#term-ring", "../docs/glossary.html#term-all-reduce"


@pytest.mark.parametrize(
    "text, expected",
    [
        ("A ring, and a ring.", f"A [ring]({RING}), and a ring."),
        ("Rings turn.", f"[Rings]({RING}) turn."),
        ("A ring all-reduce.", f"A [ring all-reduce]({RING})."),
        ("A ring buffer.", "A ring buffer."),
        ("A string, `ring` and $ring$.", "A string, `ring` and $ring$."),
        ("## A ring\n\n| ring | ring |", "## A ring\n\n| ring | ring |"),
        ("## A ring\n\nA ring.", f"## A ring\n\nA [ring]({RING})."),
        ("[a ring](x.md)", "[a ring](x.md)"),
        ("## Exercises\n\n1. A ring.", "## Exercises\n\n1. A ring."),
        ("The *all-reduce*.", f"The *[all-reduce]({SUM})*."),
        ("In chapter 1.", "In [chapter 1](01_verbs.html)."),
        ("In chapter 2, and chapter 3.", "In chapter 2, and chapter 3."),
        ("See section 1.1.", "See [section 1.1](01_verbs.html#circles)."),
        ("Section 1.1.2 of a paper.", "Section 1.1.2 of a paper."),
        ("## Reading\n\nA paper, section 1.1.", "## Reading\n\nA paper, section 1.1."),
        ("It is (1.1) round.", "It is ([1.1](01_verbs.html#circles)) round."),
        ("It takes 1.1 s, in 1.1 s.", "It takes 1.1 s, in 1.1 s."),
        ("It is in 1.1, and 1.2 times.", "It is in 1.1, and 1.2 times."),
    ],
)
def test_words_become_links(text: str, expected: str) -> None:
    """Terms once and only in text, plain words never, chapters where they are named."""
    assert linked(text) == expected


def test_a_chapter_links_its_own_sections_and_not_its_own_terms() -> None:
    """ "in 1.1" is a section in chapter 1, and may be a figure elsewhere."""
    own = "A ring as in [1.1](01_verbs.html#circles) goes round."
    assert linked("A ring as in 1.1 goes round.", chapter=1) == own
    asked = "By a factor of 1.1, as in that of [1.1](01_verbs.html#circles)?"
    assert linked("By a factor of 1.1, as in that of 1.1?", chapter=1) == asked


def test_a_figure_is_linked_where_it_is_numbered() -> None:
    """Its caption has the number; a figure that is not drawn is plain text."""
    drawn = '<figure style=""><figcaption>Figure 2.1. A'
    html = crosslinks.with_place(drawn)
    assert html.startswith('<figure id="figure-2-1" ')
    two = crosslinks.with_place(drawn + drawn.replace("2.1", "2.3"))
    assert two.count("<figure id=") == 2 and '<figure id="figure-2-3" ' in two
    shown = new_code_cell(
        "x", outputs=[new_output("display_data", {"text/html": html})]
    )
    text = new_markdown_cell("Figure 2.1 and Figure 2.2")
    _, after = crosslinks.linked([shown, text], 2, TARGETS)
    assert after.source == '<a href="#figure-2-1">Figure 2.1</a> and Figure 2.2'


def test_the_glossary_names_its_places_and_sections() -> None:
    """Every entry can be linked to, and links the section that introduces it."""
    page = glossary.page(TEXT, INTRODUCED)
    assert (
        '- <a id="term-ring"></a>**ring**: Round it goes. '
        '<a href="../chapters/01_verbs.html#circles">1.1</a>\n'
    ) in page
    assert "(1.2)" not in page and page.endswith("Nowhere in the book.\n")


def test_the_index_has_terms_and_code_by_section() -> None:
    """The introduction in bold; names of code are the longest dotted ones."""
    index = word_index.page(TERMS, INTRODUCED, SECTIONS)
    link = '<a href="../chapters/01_verbs.html#circles">1.1</a>'
    assert f'<a href="glossary.html#term-ring">ring</a> **{link}**' in index
    code = '`dist.all_reduce` <a href="../chapters/02_more.html">2</a>'
    assert f"- {code}" in index
    assert "- `lab.x.y` " in index and "- `lab.x` " not in index
    assert "items" not in index, "that is a dictionary of this name"
    assert "## A\n" in index and "unheard-of" not in index


NOTATION = """# Notation

## In the whole book

| letter | meaning |
| --- | --- |
| P | ranks |
| α | latency |

## In one chapter

| chapter | letter | meaning |
| --- | --- | --- |
| 1 | R, b | rates |
"""


def test_the_notation_has_letters_of_the_book_and_of_a_chapter() -> None:
    """Those of another chapter are not known in this one."""
    assert {"P", "α", "R", "b"} <= notation.letters_of(NOTATION, 1)
    assert "R" not in notation.letters_of(NOTATION, 11)


def test_letters_are_found_in_text_and_formulas() -> None:
    """Not those of words, code, units and LaTeX's commands."""
    text = "# Q\n\nA rank's `x` sends 2 (P − 1)/P in 20 s, 4 GB/s: I say "
    text += "$S\\beta$ × 4<sup>r</sup> <code>y</code>."
    assert notation.letters_in(text) == {"P", "S", "β", "r"}


# -- the book's own --------------------------------------------------------------------


@pytest.fixture(scope="module")
def own() -> tuple[list[glossary.Term], list[Section]]:
    done = map(execution.unexecuted, execution.chapters())
    found = [s for one in done for s in sections_of(one.chapter, one.notebook.cells)]
    return glossary.terms(pages.GLOSSARY.read_text()), found


def test_the_glossary_is_in_order_and_its_sections_hold(own) -> None:
    """Sorted, each term once, and a section that an entry gives has the term."""
    terms, sections = own
    lines = [*filter(None, pages.GLOSSARY.read_text().splitlines())]
    assert len(terms) == sum(line.startswith("- ") for line in lines) > 80
    names = [term.name.casefold() for term in terms]
    assert names == sorted(set(names))
    given = {term: term.section for term in terms if term.section}
    by_number = {section.number: section for section in sections}
    for term, number in given.items():
        assert number in by_number, f"{term.name}: there is no section {number}"
        cells = [by_number[number].title, *by_number[number].texts]
        assert any(map(term.uses.search, cells)), f"{number} does not say {term.name!r}"


def test_every_term_has_another_place_and_other_words(own) -> None:
    """No two entries have the same anchor or claim the same word."""
    terms, _ = own
    assert len({term.anchor for term in terms}) == len(terms)
    words = [w for t in terms for w in (*t.name.split(", "), *t.forms)]
    assert len({word.casefold() for word in words}) == len(words)


def test_the_first_prediction_of_a_section_leads_to_how_wrong_it_is() -> None:
    """Cells without an output, and those that predict nothing, do not."""
    seen = [new_output("execute_result", {"text/plain": "1 ms"})]
    sources = ["lab.predict(1)", "plan.replay(net)", "lab.run(f)"]
    page = [
        *cells("## 1.1 A", "text"),
        new_code_cell("def f():\n    return plan.replay(net)"),
        *(new_code_cell(source, outputs=seen) for source in sources),
        *cells("## 1.2 B"),
        new_code_cell("predicted(1)", outputs=seen),
        *cells("## 1.3 C"),
        new_code_cell("forecast(s)", outputs=seen),
    ]
    shown = [cell.source for cell in truth_links.with_truth_links(page)]
    linked = [before for before, after in pairwise(shown) if after == truth_links.LINK]
    assert linked == ["lab.predict(1)", "forecast(s)"]
    assert len(shown) == len(page) + 2
