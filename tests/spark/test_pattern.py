import re

import pytest
from monedula import ConfigError
from monedula.spark.source.pattern import topic_pattern


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
        (r"[^\d]+", "abc", "a1"),
        (r"[a\-z]+", "-az", "b"),
        ("(?i)ab|c", "C", "d"),
        ("a(?i:b)c", "aBc", "aBC"),
        ("(?<=a)b|ab", "ab", "cb"),
        ("a{2}b{1,}c{0,1}", "aabb", "ab"),
        (r"\bab\b", "ab", "abc"),
        (r"a\\Qb", r"a\Qb", "ab"),
        (r"\Aab\z", "ab", "abc"),
        (r"\p{Alpha}+[^\d]", "ab-", "ab1"),
        ("(?<region>eu|us)-a", "us-a", "uk-a"),
        (r"\x41\u0043", "AC", "ac"),
        ("^(?!.*tmp).+$", "orders", "a-tmp-b"),
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


def test_case_is_ignored_among_ascii_letters_only() -> None:
    assert not topic_pattern(r"(?i)k").search("\u212a")


@pytest.mark.parametrize(
    ("pattern", "construct", "position"),
    [
        ("(?x)a b", "'(?x)'", 1),
        ("a(?i)b", "'(?i)'", 2),
        ("(?P<x>a)", "'(?P<'", 1),
        ("a(?#b)", "'(?#b'", 2),
        (r"ab\R", r"'\R'", 3),
        (r"a\y", r"'\y'", 2),
        (r"\b{g}a", r"'\b{g'", 1),
        (r"\p{IsGreek}", r"'\p{I'", 1),
        (r"(a)\1", r"'\1'", 4),
        ("(?>a)", "'(?>a'", 1),
        ("(?<=a{2})b", "a repetition in a lookbehind", 6),
        ("^*a", "'*' has nothing before it to repeat", 2),
        ("(?=a)+", "'+' has nothing before it to repeat", 6),
        ("[a-z&&[^b]]", "'[a-z'", 1),
        ("[a[b]]", "'[a[b'", 1),
        ("[]a]", "'[]a]'", 1),
        (r"(?:0|\A){2}", "repeating a group with an assertion", 9),
        ("(?:a(?!b))*", "repeating a group with an assertion", 11),
        ("a++c", "'+' has nothing before it to repeat, or makes a repetition possessive", 3),
        ("a{2}{3}", "'{3}' has nothing before it to repeat", 5),
        (r"\Q\E+", "'+' has nothing before it to repeat", 5),
        ("a{2147483648}", "Java repeats nothing so often", 2),
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
    assert re.search(r"at (character|position) \d", refusal(pattern))


@pytest.mark.parametrize("pattern", ["(" * 20_000 + ")" * 20_000])
def test_a_pattern_nested_too_deeply_is_refused(pattern: str) -> None:
    assert "Python cannot read it" in refusal(pattern)
