"""A Sphinx extension: the API reference from stubs and docstrings, and links from code in the guides into it.

- The classes of the Rust extension carry docstrings, but no types: these are read from `_monedula.pyi`.
- Docstrings are Google style, with text between single backticks as in Markdown.
- In the guides, code that is the name of a public object, such as `monedula.read` or `ConfigError`, links to the API
  reference, and the name of a setting to the table of settings. So the pages stay plain Markdown.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

import monedula
from docutils import nodes
from monedula.admin import arguments
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.ext.napoleon import Config
from sphinx.ext.napoleon.docstring import GoogleDocstring
from sphinx.util.nodes import make_refnode
from sphinx.util.typing import stringify_annotation

STUB = Path(monedula.__file__).with_name("_monedula.pyi")
NAPOLEON = Config(napoleon_numpy_docstring=False, napoleon_use_ivar=True, napoleon_use_rtype=False)
CODE = re.compile(r"(?<![`:\w])`([^`]+)`(?!`)")
SECTION = re.compile(r"[A-Z]\w+:")
SPECIAL = re.compile(r"\*\*(?=\S)[^*]+\*\*|[*|\\]")
PAGE = re.compile(r"docs/([\w/-]+)\.md")
PARAMETER = re.compile(r" *(\*{1,2}\w+:|[*-] )")
NAME = re.compile(r"[A-Za-z_][\w.]*(\(\))?")
# Variables of types in signatures of Admin, such as P, which stands for a pair of topic and partition.
BOUNDS = {
    name: stringify_annotation(made.__bound__, "smart").replace("~", "")
    for name, made in vars(arguments).items()
    if isinstance(made, TypeVar) and made.__bound__ is not None
}
BOUND_VARIABLE = re.compile(rf"\b(?:{'|'.join(BOUNDS)})\b")
SETTINGS_PAGE = "settings"


class _Stub:
    """The signatures of the Rust extension's classes."""

    def __init__(self, path: Path) -> None:
        body = ast.parse(path.read_text()).body
        self._aliases = {
            statement.targets[0].id: statement.value
            for statement in body
            if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name)
        }
        self._members = {
            (statement.name, member.name): member
            for statement in body
            if isinstance(statement, ast.ClassDef)
            for member in statement.body
            if isinstance(member, ast.FunctionDef)
        }

    def find(self, made: object) -> ast.FunctionDef | None:
        """The function of the stub for a method or a property of the extension."""
        if isinstance(made, type):
            return self._members.get((made.__name__, "__new__"))
        owner = getattr(made, "__objclass__", None)
        return self._members.get((getattr(owner, "__name__", ""), getattr(made, "__name__", "")))

    def signature(self, function: ast.FunctionDef) -> tuple[str, str]:
        """The parameters without `self`, and the type of the result."""
        arguments = _Expanded(self._aliases).visit(ast.parse(ast.unparse(function))).body[0].args
        del (arguments.posonlyargs or arguments.args)[0]
        return f"({ast.unparse(arguments)})", self.returns(function)

    def returns(self, function: ast.FunctionDef) -> str:
        """The type of the result, or of the property."""
        assert function.returns is not None
        copy = ast.parse(ast.unparse(function.returns), mode="eval")
        return ast.unparse(_Expanded(self._aliases).visit(copy))


class _Expanded(ast.NodeTransformer):
    """Private aliases of types are replaced by what they stand for."""

    def __init__(self, aliases: dict[str, ast.expr]) -> None:
        self._aliases = aliases

    def visit_Name(self, node: ast.Name) -> ast.AST:
        alias = self._aliases.get(node.id) if node.id.startswith("_") else None
        return node if alias is None else self.visit(ast.parse(ast.unparse(alias), mode="eval").body)


STUBS = _Stub(STUB)


def signature_of(
    _app: Sphinx, what: str, name: str, made: object, _options: object, signature: str | None, returns: str | None
) -> tuple[str, str] | None:
    """The signature with types, for what is in the Rust extension."""
    if what == "exception":
        return "", ""  # programs catch them; what they tell stands in their attributes
    if what == "class" and signature is not None and re.search(r"\b\w+Core\b", signature):
        return "", ""  # programs do not make such objects
    if signature is not None and returns is not None and name.startswith("monedula.admin."):
        return BOUND_VARIABLE.sub(lambda found: BOUNDS[found[0]], signature), returns
    function = STUBS.find(made)
    if function is None or what not in ("class", "method", "function"):
        return None
    arguments, result = STUBS.signature(function)
    return (arguments, "") if what == "class" else (arguments, result)


def docstring_of(app: Sphinx, what: str, name: str, made: object, options: object, lines: list[str]) -> None:
    """A docstring as reStructuredText."""
    text = list(_with_blocks(list(_joined(lines))))
    # As a method, since a property's first line would be read as `type: description`.
    shown = "method" if what in ("property", "attribute") else what
    lines[:] = GoogleDocstring(text, NAPOLEON, app, shown, name, made, options).lines()
    if what in ("property", "attribute") and (function := STUBS.find(made)) is not None:
        lines += ["", f":type: {STUBS.returns(function)}"]


def _joined(lines: list[str]) -> Iterator[str]:
    """The lines; code that a line break divides is put on one line."""
    rest = ""
    for line in lines:
        whole = f"{rest} {line.lstrip()}" if rest else line
        rest = whole if whole.count("`") % 2 else ""
        if not rest:
            yield whole
    if rest:
        yield rest


def _with_blocks(lines: list[str]) -> Iterator[str]:
    """Markdown's blocks as reStructuredText's: tables, and indented code outside of the sections."""
    section, code, table, example = False, False, False, False
    for number, line in enumerate(lines):
        begins_block = number > 0 and not lines[number - 1]
        if line and not line.startswith(" "):
            section, code = SECTION.fullmatch(line) is not None, False
            if line in ("Returns:", "Yields:"):
                # Not left to Napoleon, which would take what stands before a colon for a type.
                yield f":{line.lower()}"
                continue
            example = line in ("Example:", "Examples:")
            if example:
                yield from (line, "    .. code-block:: python", "")
                continue
        elif line and not section and not code and begins_block:
            yield from (".. code-block:: python", "")
            code = True
        if line.startswith("|"):
            yield from _table_row(line, first=not table)
        else:
            yield f"    {line}" if example else line if code else _inline(line)
        table = line.startswith("|")


def _escaped(found: re.Match[str]) -> str:
    return found[0] if found[0].startswith("**") else f"\\{found[0]}"


def _table_row(line: str, *, first: bool) -> Iterator[str]:
    if first:
        yield from (".. list-table::", "   :header-rows: 1", "")
    cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
    if not all(re.fullmatch(":?-+:?", cell) for cell in cells):
        for number, cell in enumerate(cells):
            yield f"   {'-' if number else '* -'} {_inline(cell)}".replace("   - ", "     - ", 1)


def _inline(line: str) -> str:
    """Code, and characters that mean something in reStructuredText alone."""
    parts = CODE.split(line)
    made = []
    for number, part in enumerate(parts):
        if number % 2:
            page = PAGE.fullmatch(part)
            code = f":doc:`/{page[1]}`" if page else f":py:obj:`{part}`" if NAME.fullmatch(part) else f"``{part}``"
            follows = parts[number + 1][:1]
            made.append(code + (r"\ " if follows.isalnum() else ""))
        else:
            text = part if PARAMETER.match(part) and not number else SPECIAL.sub(_escaped, part)
            made.append(re.sub(r"(?<=\w)_(?!\w)", r"\_", text))
    return "".join(made)


def link_to_files(_app: Sphinx, _page: str, source: list[str]) -> None:
    """Make a link to a Markdown file outside of this folder, such as the changelog, one to the file itself."""
    source[0] = re.sub(r"\]\((?=\.\./(?:\.\./)?(?:[A-Z]+|(?:benches|tests)/[\w/]+)\.md\))", "](path:", source[0])


def missing(app: Sphinx, _env: object, node: addnodes.pending_xref, content: nodes.Element) -> nodes.Element | None:
    """A link to a public object by its last names: docstrings say `position()`, not `monedula.Consumer.position`."""
    target = node["reftarget"]
    if node.get("refdomain") != "py" or not _names_something(target):
        return None
    found = _find(app, target.removesuffix("()"))
    return None if found is None else _link(app, node["refdoc"], *found, content)


def _names_something(text: str) -> bool:
    """Whether code is a public object's name, and not that of an argument or a column, such as `headers`."""
    return text[:1].isupper() or text.endswith("()") or "." in text or text in monedula.__all__


def _find(app: Sphinx, name: str) -> tuple[str, str] | None:
    """The page and the anchor of the public object whose full name ends with this; of several, that of `monedula`."""
    index = _index(app)
    entries = index.get(f"monedula.{name}") or index.get(name)
    last = name.rpartition(".")[2]
    if not entries and name.startswith("monedula.") and last[:1].isupper():  # not loggers, such as monedula.groups
        entries = index.get(last)
    return entries[0] if entries and len({anchor for _, anchor in entries}) == 1 else None


def _index(app: Sphinx) -> dict[str, list[tuple[str, str]]]:
    kept: dict[str, list[tuple[str, str]]] | None = getattr(app, "_monedula_index", None)
    if kept is None:
        kept = {}
        for full, entry in app.env.domains.python_domain.objects.items():
            parts = full.split(".")
            for first in range(len(parts)):
                kept.setdefault(".".join(parts[first:]), []).append((entry.docname, entry.node_id))
        app._monedula_index = kept  # type: ignore[attr-defined]
    return kept


def _link(app: Sphinx, page: str, to_page: str, anchor: str, content: nodes.Node) -> nodes.reference:
    return make_refnode(app.builder, page, to_page, anchor, content)


def link_code(app: Sphinx, doctree: nodes.document, page: str) -> None:
    """Link code in the text: public objects to the API reference, settings to their table."""
    for field in doctree.findall(nodes.field_name):
        if field.astext() == "Variables":
            field[0] = nodes.Text("Attributes")
    settings = {name for key in monedula.config_keys() for name in (key.name, *key.aliases)}
    for literal in list(doctree.findall(nodes.literal)):
        if _inside_a_link(literal):
            continue
        text = literal.astext()
        if page != SETTINGS_PAGE and text in settings:
            found: tuple[str, str] | None = (SETTINGS_PAGE, setting_anchor(text))
        elif (name := text.removesuffix("()")).startswith("monedula.") or name[:1].isupper():
            found = _find(app, name)
        else:
            found = None
        if found is not None:
            literal.replace_self(_link(app, page, *found, literal.deepcopy()))
    _let_break(doctree)


def _let_break(doctree: nodes.document) -> None:
    """In tables, let dotted names break after a dot."""
    for entry in doctree.findall(nodes.entry):
        for literal in list(entry.findall(nodes.literal)):
            text = literal.astext()
            if re.fullmatch(r"\w+(\.\w+)+", text):
                pieces = re.split(r"(?<=\.)", text)
                literal.clear()
                for number, piece in enumerate(pieces):
                    literal += [nodes.raw("", "<wbr>", format="html")] if number else []
                    literal += nodes.Text(piece)


def _inside_a_link(node: nodes.Node) -> bool:
    above: Any = node.parent
    while above is not None:
        if isinstance(above, nodes.reference | nodes.title | addnodes.desc_signature):
            return True
        above = above.parent
    return False


def setting_anchor(name: str) -> str:
    """The anchor of a setting on the page of settings."""
    return f"setting-{name.replace('.', '-')}"


def leave_type(_app: Sphinx, doctree: nodes.document) -> None:
    """In signatures, `type` is Python's, and not an attribute of that name."""
    for reference in list(doctree.findall(addnodes.pending_xref)):
        if reference.get("refdomain") == "py" and reference["reftarget"] == "type":
            reference.replace_self(nodes.Text(reference.children[0].astext()))


def mark_settings(app: Sphinx, doctree: nodes.document) -> None:
    """On the page of settings, the first cell of a row gets an anchor for each name in it."""
    if app.env.docname != SETTINGS_PAGE:
        return
    known = {name for key in monedula.config_keys() for name in (key.name, *key.aliases)}
    for row in doctree.findall(nodes.row):
        first = row[0]
        assert isinstance(first, nodes.Element)
        first["ids"] += [
            setting_anchor(code.astext()) for code in first.findall(nodes.literal) if code.astext() in known
        ]


def setup(app: Sphinx) -> dict[str, bool]:
    """Connect to Sphinx."""
    app.connect("autodoc-process-signature", signature_of)
    app.connect("autodoc-process-docstring", docstring_of)
    app.connect("source-read", link_to_files)
    app.connect("missing-reference", missing)
    app.connect("doctree-read", leave_type)
    app.connect("doctree-read", mark_settings)
    app.connect("doctree-resolved", link_code)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
