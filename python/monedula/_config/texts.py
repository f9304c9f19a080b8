"""Texts from outside of Python."""


def is_utf8(text: str) -> bool:
    """Return true if a text can be encoded as UTF-8.

    Invalid UTF-8 in an environment variable or an argument becomes lone surrogates in Python's text. Python's own error
    for them contains the text, which may be a password.
    """
    return text.isascii() or not any("\ud800" <= character <= "\udfff" for character in text)


def dotted(key: str) -> str:
    """The name of a setting with dots, which may have underscores in their place."""
    return key.strip().replace("_", ".")
