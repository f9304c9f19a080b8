"""Texts that come from outside of Python."""


def is_utf8(text: str) -> bool:
    """Whether a text can be written as UTF-8.

    Bytes of an environment variable or an argument that are no UTF-8 are lone surrogates in Python's text. The error
    that Python raises for them holds the text, which may be a password.
    """
    return text.isascii() or not any("\ud800" <= character <= "\udfff" for character in text)
