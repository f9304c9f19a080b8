import pytest
from monedula import ConfigError
from monedula.spark.pattern import topic_pattern


def refusal(pattern: str) -> str:
    with pytest.raises(ConfigError) as caught:
        topic_pattern(pattern)
    assert caught.value.key == "subscribePattern"
    assert str(caught.value).startswith(f"option 'subscribePattern' is '{pattern}': ")
    return str(caught.value)


@pytest.mark.parametrize(
    ("pattern", "matching", "other"),
    [
        ("orders-.*", "orders-eu", "order"),
        (r"(a|b)\.v[0-9]+", "b.v12", "c.v1"),
        ("(?!internal)[a-z]+", "orders", "internal"),
        (r"^topic-\d{3}$", "topic-123", "topic-12"),
        ("a|b|", "b", "c"),
        (r"\Qa.b\E+", "a.bbb", "axb"),
        (r"a\Q*", "a*", "aa"),
        (r"[a-z&&[^aeiou]]+", "xyz", "abc"),
        (r"[a-c[x-z]]+", "axz", "m"),
        (r"[\w&&[^_]&&[^0-9]]+", "abZ", "a1"),
        (r"[]a]+", "a", "b"),
        (r"[^\d]+", "abc", "a1"),
        (r"[a\-z]+", "-az", "b"),
        (r"[\Q^-]\Ea]+", "-a", "b"),
        (r"\p{Alpha}+\P{Alpha}", "ab1", "abc"),
        (r"\pL\p{IsDigit}", "a1", "1a"),
        ("(?i)ab|c", "C", "d"),
        ("a(?i:b)c", "aBc", "aBC"),
        ("(a(?i)b)c", "aBc", "aBC"),
        ("(?i)[a-c]x(?-i)y", "BXy", "BXY"),
        (r"(?<region>eu|us)-\k<region>", "us-us", "us-eu"),
        (r"(a)(b)\2\1", "abba", "abab"),
        (r"(a)\10", "aa0", "aa"),
        ("a++b", "aab", "b"),
        ("(?>a|ab)c", "ac", "abc"),
        ("(?<=a)b|ab", "ab", "cb"),
        (r"\x41\x{42}\u0043\0104", "ABCD", "abcd"),
        ("a{2}b{1,}c{0,1}", "aabb", "ab"),
        (r"\bab\b", "ab", "abc"),
        (r"a\\Qb", r"a\Qb", "ab"),
        (r"\0477\0101\07", "'7A\a", "'7A7"),
        (r"\Aab\z", "ab", "abc"),
        ("a]}b", "a]}b", "ab"),
    ],
)
def test_a_pattern_means_what_it_means_in_java(pattern: str, matching: str, other: str) -> None:
    translated = topic_pattern(pattern)
    assert translated.fullmatch(matching)
    assert not translated.fullmatch(other)


def test_a_match_may_be_searched_for_within_a_name() -> None:
    assert topic_pattern("orders").search("my-orders-2")
    assert not topic_pattern("^orders").search("my-orders-2")


def test_a_possessive_repetition_gives_nothing_back() -> None:
    assert topic_pattern("[ab]++c").fullmatch("abac")
    assert not topic_pattern("[ab]*+b").search("aab")


def test_case_is_ignored_among_ascii_letters_only() -> None:
    assert not topic_pattern(r"(?i)k").search("\u212a")


@pytest.mark.parametrize(
    ("pattern", "construct", "position"),
    [
        ("(?x)a b", "'(?x' is not known, or not supported", 3),
        ("(?u)a", "'(?u' is not known, or not supported", 3),
        ("(?P<x>a)", "'(?P' is not known", 3),
        ("a(?#b)", "'(?#' is not known", 4),
        (r"ab\R", r"the escape '\R'", 3),
        (r"\X", r"the escape '\X'", 1),
        (r"\Gab", r"the escape '\G'", 1),
        (r"a\y", r"the escape '\y'", 2),
        (r"\b{g}a", r"'\b{g}' is not supported", 3),
        (r"\p{IsGreek}", r"the class '\p{IsGreek}'", 12),
        (r"(?i)\p{Lower}", r"the class '\p{Lower}'", 14),
        ("(?<=a+)b", "a lookbehind of varying length", 5),
        ("(?<=(?:ab){2})c", "a repeated group in a lookbehind", 11),
        (r"(a)(?<=\1)b", "a reference to a group in a lookbehind", 10),
        (r"\1(a)", "a reference to group 1, which is not complete", 3),
        (r"(a\1)", "a reference to group 1, which is not complete", 5),
        ("^*a", "there is nothing to repeat", 2),
        ("[a&&]", "'&&' has nothing after it", 5),
        ("[a&&^b]", "'^' after '&&'", 5),
        ("[a&&b&c]", "a '&' next to '&&'", 6),
        (r"(a|b)*\1", "a reference to a group that is repeated", 9),
        (r"(?=(a))\1", "a reference to a group that is repeated, or in a lookaround", 10),
        (r"(?:0|\A){2}", "repeating what may be empty and depends on what is around it", 9),
        ("(?:a|ab)++c", "a possessive repetition of a group", 9),
        ("(?>(?:a|)*)b", "repeating what may be empty is not supported in an atomic group", 12),
        ("a{2}{3}", "'{' has nothing before it to repeat", 5),
        ("a*+?", "'?' has nothing before it to repeat", 4),
    ],
)
def test_what_python_lacks_is_refused_with_its_place(pattern: str, construct: str, position: int) -> None:
    message = refusal(pattern)
    assert construct in message
    assert message.endswith(f"(at character {position})"), message


# Separated by spaces, which none of them has.
NOT_JAVA = r"""
    ( ) a) (a [ [] [a [b-a] *a + a** a{ a{x} a{,2} a{2 a{3,2} \ a{99999999999} (? (?<a (?<1>a) (?<a>x)(?<a>y) \k<a> \x4
    \u004 \x{110000} \08 \c \p \p{ [\b] [\1] (?i (?z) \Ea [a-\d] (?i)*
"""


@pytest.mark.parametrize("pattern", NOT_JAVA.split())
def test_what_java_cannot_read_is_refused(pattern: str) -> None:
    assert "at character" in refusal(pattern)


@pytest.mark.parametrize("pattern", ["(" * 20_000 + ")" * 20_000, "[" * 20_000])
def test_a_pattern_nested_too_deeply_is_refused(pattern: str) -> None:
    assert "cannot be translated" in refusal(pattern)
