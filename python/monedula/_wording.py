"""`Wording`: the words of a front end, such as the command line, for the arguments and settings that errors name."""

from collections.abc import Mapping

from monedula.errors import ArgumentError, KafkaError, with_hint


class Wording:
    """Renders errors by their facts: the argument at fault, its value, what is wrong, and the hint.

    Args:
        phrases: what the front end says for the marked parts of hints; `""` for those that mean nothing there.
    """

    def __init__(self, phrases: Mapping[str, str]) -> None:
        self._phrases = phrases

    def argument(self, name: str, value: str | None) -> str:
        """An argument of Python's API, and its value as Python shows it, if there is one."""
        raise NotImplementedError

    def told(self, error: KafkaError) -> str:
        told = self.reason(error)
        if not isinstance(error, ArgumentError):
            return told
        if error.row is not None:
            told = f"row {error.row}: {told}"
        if error.argument is None:
            return told
        if error.argument == "options" and error.key is not None:
            return f"option {error.key}: {told}"
        return f"{self.argument(error.argument, error.value)}: {told}"

    def reason(self, error: KafkaError) -> str:
        """The message without the argument and the row."""
        parts = error._marked_hint.split("`")
        parts[1::2] = [self._spelled(part, error) for part in parts[1::2]]
        hint = "".join(parts).strip().removesuffix(".")
        return with_hint(_without_hint(error), hint, (error.hint or "")[:1].isupper())

    def _spelled(self, part: str, error: KafkaError) -> str:
        phrase = self._phrases.get(part)
        if phrase is not None:
            for fact in ("topic", "partition", "next_offset"):
                phrase = phrase.replace(f"{{{fact}}}", str(getattr(error, fact, "")))
            return phrase
        name, sign, value = part.partition("=")
        return self.argument(name, value or None) if sign else part


def _without_hint(error: KafkaError) -> str:
    if isinstance(error, ArgumentError):
        return error.reason
    told = str(error)
    if error.hint is None or not told.endswith(error.hint):
        return told
    return told.removesuffix(error.hint).rstrip().removesuffix(";").removesuffix(".")
