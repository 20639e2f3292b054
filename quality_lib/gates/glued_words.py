"""Pairs of small words that often follow each other, glued together. Pure."""

from __future__ import annotations

from itertools import product

from quality_lib.gates.text_fold import listed

_PARTS = (
    (
        "of in to on for with at from by and is that as into when where was are because through",
        "the this that it its their his which they",
    ),
    (
        "de en con por para que sobre entre cuando es se como hasta desde porque donde",
        "la las los el un una se lo del su",
    ),
    (
        "de dans sur pour par avec est que et en comme quand vers",
        "la le les un une des ce son sa il elle",
    ),
    ("di che con per in come quando sono dove", "il la lo le gli una"),
    (
        "in mit von auf für und ist an bei zu dass wenn aus durch wird nach",
        "der die das dem den ein eine einem einen sich",
    ),
)
# Words of some language that are also two small words of another.
_REAL = frozenset(
    listed(
        "init deel dese dele deles esse sela selo desa deil sursa parla parce parsa estil etles endes dilo dile perla perun indie "
        "indem inden ander anden beiden zudem nachdem ence ender parson person esel dela"
    )
)
GLUED_WORDS = (
    frozenset(
        a + b
        for first, second in _PARTS
        for a, b in product(first.split(), second.split())
        if a != b
    )
    - _REAL
)
