"""Reads the text of `.proto` files, and writes it in one form: without comments, one statement a line."""

import re
from collections.abc import Sequence

from monedula.testing.registry.protobuf.model import SCALARS, Enum, Field, File, Message, ProtoError

MAX_DEPTH = 100

_TOKEN = re.compile(
    r"""(?P<skip>\s+|//[^\n]*|/\*.*?\*/)
    |(?P<text>"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')
    |(?P<word>[A-Za-z0-9_.]+)
    |(?P<sign>[{}\[\]()<>=;,:\-+/])""",
    re.VERBOSE | re.DOTALL,
)


def tokens_of(text: str) -> list[str]:
    """What a text is made of, without blanks and comments.

    Raises:
        ProtoError: there is something else in it.
    """
    found, at = [], 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            line = text.count("\n", 0, at) + 1
            raise ProtoError(f"line {line}: {text[at]!r} is not expected")
        if match.lastgroup != "skip":
            found.append(match[0])
        at = match.end()
    return found


def canonical(tokens: Sequence[str]) -> str:
    """The text of tokens, one statement a line."""
    lines: list[str] = []
    line: list[str] = []
    depth, inner = 0, 0
    for token in tokens:
        # What an option is set to may have braces, and is one statement.
        is_inline = inner > 0 or (line and line[0] == "option")
        if token in ("[", "(") or (token == "{" and is_inline):
            inner += 1
        elif token in ("]", ")") or (token == "}" and inner > 0):
            inner -= 1
        if token == "}" and not is_inline:
            depth -= 1
            lines.append("  " * depth + "}")
        elif token == ";" and not line:
            continue
        else:
            line.append(token)
            if not is_inline and token == "{":
                lines.append("  " * depth + _joined(line))
                line, depth = [], depth + 1
            elif token == ";" and inner == 0:
                lines.append("  " * depth + _joined(line))
                line = []
    return "\n".join([*lines, *([_joined(line)] if line else [])]) + "\n"


def _joined(tokens: Sequence[str]) -> str:
    text = ""
    for token in tokens:
        tight = not text or token in ";,>])" or text[-1] in "<[(-" or (token == "<" and text.endswith("map"))
        text += token if tight else f" {token}"
    return text


class Parser:
    """Reads one file out of its tokens."""

    def __init__(self, tokens: Sequence[str]) -> None:
        self.tokens = tokens
        self.at = 0
        self.file = File()

    def read(self) -> File:
        """The file.

        Raises:
            ProtoError: the tokens are none.
        """
        while self.at < len(self.tokens):
            match self._next():
                case "syntax" | "edition" as what:
                    self._expect("=")
                    text = self._text()
                    self.file.syntax = text if what == "syntax" else "editions"
                    if what == "syntax" and text not in ("proto2", "proto3"):
                        raise ProtoError(f"there is no syntax {text!r}")
                    self._expect(";")
                case "package":
                    self.file.package = self._name()
                    self._expect(";")
                case "import":
                    kind = self._next() + " " if self._peek() in ("public", "weak", "option") else ""
                    self.file.imports.append((self._text(), kind))
                    self._expect(";")
                case "message":
                    self.file.messages.append(self._message(self._name(), 0))
                case "enum":
                    self.file.enums.append(self._enum())
                case "service" | "extend":
                    self.file.has_others = True
                    self._skip()
                case "option":
                    self._skip()
                case ";":
                    pass
                case other:
                    raise ProtoError(f"{other!r} is not expected; a declaration is")
        return self.file

    def _peek(self, ahead: int = 0) -> str:
        return self.tokens[self.at + ahead] if self.at + ahead < len(self.tokens) else ""

    def _next(self) -> str:
        if self.at >= len(self.tokens):
            raise ProtoError("the text ends too early")
        self.at += 1
        return self.tokens[self.at - 1]

    def _expect(self, wanted: str) -> None:
        found = self._next()
        if found != wanted:
            raise ProtoError(f"{found!r} is not expected; {wanted!r} is")

    def _name(self) -> str:
        name = self._next()
        if not re.fullmatch(r"\.?[A-Za-z_][\w.]*", name):
            raise ProtoError(f"{name!r} is no name")
        return name

    def _text(self) -> str:
        text = self._next()
        if text[0] not in "\"'":
            raise ProtoError(f"{text!r} is no text in quotes")
        return text[1:-1]

    def _number(self) -> int:
        sign = -1 if self._peek() == "-" else 1
        if sign < 0:
            self.at += 1
        text = self._next()
        try:
            is_octal = len(text) > 1 and text[0] == "0" and text.isdigit()
            return sign * (int(text, 8) if is_octal else int(text, 0))
        except ValueError:
            raise ProtoError(f"{text!r} is no whole number") from None

    def _skip(self) -> list[str]:
        """Step over a statement, up to its semicolon or the end of its block."""
        begin, depth = self.at, 0
        while True:
            token = self._next()
            depth += (token in ("{", "[", "(")) - (token in ("}", "]", ")"))
            if (token == ";" and depth == 0) or (token == "}" and depth <= 0):
                return list(self.tokens[begin : self.at - 1])

    def _message(self, name: str, depth: int) -> Message:
        if depth > MAX_DEPTH:
            raise ProtoError(f"messages are declared more than {MAX_DEPTH} deep in others")
        message = Message(name)
        self._expect("{")
        while (token := self._next()) != "}":
            if token == "message" and self._peek(1) == "{":
                message.messages.append(self._message(self._name(), depth + 1))
            elif token == "enum" and self._peek(1) == "{":
                message.enums.append(self._enum())
            elif token == "oneof" and self._peek(1) == "{":
                self._oneof(message, depth)
            elif token == "option" or (token == "extend" and self._peek(1) == "{"):
                self._skip()
            elif token in ("reserved", "extensions") and self._peek(1) != "=":
                message.reserved.append(" ".join([token, *self._skip()]))
            elif token != ";":
                self.at -= 1
                message.fields.append(self._field(message, "", depth))
        _check_fields(message)
        return message

    def _oneof(self, message: Message, depth: int) -> None:
        oneof = self._name()
        self._expect("{")
        while (token := self._next()) != "}":
            if token == "option":
                self._skip()
            elif token != ";":
                self.at -= 1
                message.fields.append(self._field(message, oneof, depth))

    def _field(self, message: Message, oneof: str, depth: int) -> Field:
        label = ""
        if self._peek() in ("optional", "required", "repeated") and self._peek(2) != "=":
            label = self._next()
        if not label and not oneof and self.file.syntax == "proto2" and self._peek() != "map":
            raise ProtoError(f"the field {self._peek(1)!r} of proto2 is neither optional, required nor repeated")
        if self._peek() == "map" and self._peek(1) == "<":
            self.at += 2
            key = self._name()
            self._expect(",")
            kind = self._name()
            self._expect(">")
            field = Field(self._name(), 0, kind, "repeated", key)
            if key not in SCALARS or key in ("double", "float", "bytes"):
                raise ProtoError(f"{key!r} is no type of a map's keys")
        elif self._peek() == "group" and self._peek(2) == "=":
            self.at += 1
            name = self._name()
            field = Field(name.lower(), 0, name, label, "", oneof, is_group=True)
        else:
            kind = self._name()
            field = Field(self._name(), 0, kind, label, "", oneof)
        self._expect("=")
        field.number = self._number()
        if self._peek() == "{":
            message.messages.append(self._message(field.type, depth + 1))
        else:
            self._skip()
        return field

    def _enum(self) -> Enum:
        enum = Enum(self._name())
        self._expect("{")
        while (token := self._next()) != "}":
            if token in ("option", "reserved") and self._peek() != "=":
                self._skip()
            elif token != ";":
                self._expect("=")
                enum.values.append((token, self._number()))
                self._skip()
        if not enum.values:
            raise ProtoError(f"the enum {enum.name!r} has no value")
        if self.file.syntax == "proto3" and enum.values[0][1] != 0:
            raise ProtoError(f"the first value of the enum {enum.name!r} is not 0")
        return enum


def _check_fields(message: Message) -> None:
    numbers: dict[int, str] = {}
    for each in message.fields:
        if not 0 < each.number < 2**29 or 19_000 <= each.number < 20_000:
            raise ProtoError(f"the field {each.name!r} of {message.name!r} has the number {each.number}")
        if each.number in numbers:
            other = numbers[each.number]
            raise ProtoError(
                f"the fields {other!r} and {each.name!r} of {message.name!r} have one number, {each.number}"
            )
        if each.name in numbers.values():
            raise ProtoError(f"{message.name!r} has two fields {each.name!r}")
        numbers[each.number] = each.name
