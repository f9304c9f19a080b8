"""Java's regular expressions at random, from a grammar that knows most of Java's, and mistakes too."""

import random

LITERALS = "abAB019.-_tk"
QUANTIFIERS = ["*", "+", "?", "{2}", "{1,}", "{0,2}", "{1,3}", "{3,2}", "{,2}", "{0}"]
# Separated by spaces, which none of them has.
ODD_CHARACTERS = str.split(
    "\u017f \u212a"
    r"""
    \x41 \x{61} \u0061 \0101 \060 \07 \cA \e \t \\ é \é \& \- \] # } ] { & && ~ : \_ \y \i \Qa.b\E \Q* \E \Q]\E \Q\E
"""
)
CLASSES = str.split(r"""
    \d \w \s \D \W \S \h \V \p{Alpha} \p{Upper} \P{Lower} \pL \pN \p{XDigit} \p{Punct} \p{IsLetter} \p{IsDigit} \p{Foo}
    \p{javaLowerCase} \X \R
""")
ANCHORS = str.split(r"^ $ \A \z \Z \b \B \b{g} \G")
FLAGS = str.split("(?i) (?-i) (?s) (?im) (?x) (?u) (?i-s) (?) (?d)")
GROUPS = str.split("( ( (?: (?: (?> (?= (?! (?<= (?<! (?i: (?-i: (?<n1> (?<n2> (?P<x> (?<1a>")
REFERENCES = str.split(r"\1 \1 \2 \3 \11 \10 \k<n1> (?i)\1 \1*")
STRAY = list("()[]{}*+?|^$\\&-,:<=!QEpdwx1")


class JavaPatterns:
    """Patterns of one seed: always the same ones."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def pattern(self) -> str:
        """One more; about half of them are none that Java could read."""
        text = self._alternatives(self._random.choice([1, 2, 2, 3]))
        if self._chance(0.1):
            text += self._random.choice(REFERENCES) + self._sequence(1)
        if self._chance(0.1):
            index = self._random.randrange(len(text) + 1)
            text = text[:index] + self._random.choice(STRAY) + text[index:]
        if self._chance(0.05) and text:
            index = self._random.randrange(len(text))
            text = text[:index] + text[index + 1 :]
        return text

    def _chance(self, share: float) -> bool:
        return self._random.random() < share

    def _alternatives(self, depth: int) -> str:
        return "|".join(self._sequence(depth) for _ in range(self._random.choice([1, 1, 1, 2, 3])))

    def _sequence(self, depth: int) -> str:
        return "".join(self._item(depth) for _ in range(self._random.choice([0, 1, 1, 2, 2, 3, 4])))

    def _item(self, depth: int) -> str:
        atom = self._atom(depth)
        if self._chance(0.35):
            atom += self._random.choice(QUANTIFIERS) + self._random.choice(["", "", "", "?", "+"])
        return atom

    def _atom(self, depth: int) -> str:
        kind = self._random.random()
        for share, choices in ((0.07, CLASSES), (0.06, ANCHORS), (0.02, FLAGS), (0.04, REFERENCES), (0.03, ["."])):
            if kind < share:
                return self._random.choice(choices)
            kind -= share
        if kind < 0.1:
            return self._class(2)
        if depth > 0 and kind < 0.4:
            return self._random.choice(GROUPS) + self._alternatives(depth - 1) + ")"
        return self._character()

    def _character(self) -> str:
        return self._random.choice(ODD_CHARACTERS if self._chance(0.05) else LITERALS)

    def _class(self, depth: int) -> str:
        parts = [self._class_part(depth) for _ in range(self._random.choice([1, 1, 2, 3, 4]))]
        return "[" + self._random.choice(["", "", "", "^"]) + "".join(parts) + "]"

    def _class_part(self, depth: int) -> str:
        kind = self._random.random()
        if kind < 0.35:
            return self._character()
        if kind < 0.6:
            first, last = sorted([self._random.choice("aAbz019Z-."), self._random.choice("aAbz019Z_.")])
            return f"{first}-{last}" if self._chance(0.95) else f"{last}-{first}"
        if kind < 0.75:
            return self._random.choice(CLASSES)
        if kind < 0.83 and depth > 0:
            return self._class(depth - 1)
        if kind < 0.93:
            operands = ["a-z", "\\w", "ab", "^a", "", "0-9a"]
            return "&&" + (self._class(depth - 1) if depth > 0 and self._chance(0.6) else self._random.choice(operands))
        return self._random.choice(["-", "^", "&", "]", "[", "\\b", "-a", "."])
