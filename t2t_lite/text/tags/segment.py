"""Parses a segment with tags: the text to translate, and a tree of what is put back."""

import dataclasses
import html
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple, Self

import regex

from t2t_lite.text.source_form import UNSEEN as UNSEEN_CHARACTER
from t2t_lite.text.source_form import places, source_form
from t2t_lite.text.tags.codes import paired
from t2t_lite.text.tags.kinds import PLACEHOLDERS, XML
from t2t_lite.text.tags.tokens import Token, TokenKind, tokens_of

# Of XLIFF, for the codes of other formats: tags without a partner, which stand for no word.
_CODES = frozenset(["bpt", "ept", "it"])
# What readers do not read, though it may hold text.
UNREAD = frozenset(["math", "object", "script", "style", "svg"])
_UNTRANSLATED = frozenset(["code", "kbd", "samp", "var", "notranslate", "ph"]) | _CODES | UNREAD
_UNTRANSLATED |= {"[code]", "[pre]", "{code}", "{kbd}"}  # by their names in `named_pairs`
# What macros of Confluence are told.
_UNTRANSLATED |= {"ac:parameter", "ac:plain-text-body", "ac:task-id", "ac:task-status"}
_WORD = regex.compile(r"[\p{L}\p{N}]")
# Pieces that break the line: HTML's, that in codes of XLIFF, and characters.
_BREAK = regex.compile(
    r"""(?:<|.lt;)/?(?:br|div|li|p|t[dr])\b|\b(?:ctype|subtype)=["'](?:xlf:)?[lp]b["']
      |\A(?:\\n|&\#0?10;|\|)\Z""",
    regex.IGNORECASE | regex.VERBOSE,
)
_LONGEST_BREAK = 300  # characters of a piece that are looked at; without a limit, time is quadratic
# A place where a word may break, and an entity, which in HTML of XLIFF is a tag.
_SMALL = regex.compile(r"<wbr\b[^<>]*>|(?:<t \W)?(?P<entity>&\#?\w+;?)(?: \W/>)?", regex.IGNORECASE)
_NOTED = frozenset(".,;:!?)\"'”’»")  # what may stand before the number of a note
_DEEPEST = 100  # elements that are nested more deeply are not translated
_FIRST_UNSPACED = "\u2e80"  # from here on, scripts are written without spaces


@dataclasses.dataclass
class Node:
    """An element with words in it, or an atom: a piece that is put back as it is.

    Attributes:
        opening: the start tag of an element; an atom's raw text.
        closing: the end tag; "" for an atom.
        start: where it begins in the text, in characters.
        end: where it ends; an atom's `start`.
        children: of an element.
        is_atom: which of the two it is.
        space_before: of an atom, whether white space precedes it; of an element, whether its text
            begins with white space.
        space_after: of an atom, whether white space follows it; of an element, whether its text
            ends with white space.
        is_glued: of an atom, whether it stands within what would be one word without it, or breaks
            a line between words.
        before: of an atom, the character before it in the source, if there is one.
        after: that after it.
    """

    opening: str
    closing: str
    start: int
    end: int
    children: list["Node"] = dataclasses.field(default_factory=list)
    is_atom: bool = False
    space_before: bool = False
    space_after: bool = False
    is_glued: bool = False
    before: str = ""
    after: str = ""


@dataclasses.dataclass(frozen=True)
class Segment:
    """A segment, parsed.

    Attributes:
        source: the segment as it is.
        kind: one of `kinds.KINDS`.
        text: what is translated; no tag or placeholder is in it.
        nodes: the elements and atoms, in order; their offsets are those of `text`.
        marked: the marks that stand in `text` for pieces, in order, and these pieces; "" in place
            of a mark, if the piece is an atom.
        pieces: how many tags, entities, comments and placeholders the segment has.
    """

    source: str
    kind: str
    text: str
    nodes: list[Node]
    marked: Sequence[tuple[str, str]] = ()
    pieces: int = 0

    @property
    def marks(self) -> str:
        """The marks in the text."""
        return "".join(mark for mark, _ in self.marked)

    def in_source_form(self) -> Self:
        """Returns the segment with its text as models read it, and tags where they were there."""
        text = source_form(self.text, self.marks)
        if text == self.text:
            return self
        moved = places(self.text, self.marks) if text else [0] * (len(self.text) + 1)
        return dataclasses.replace(self, text=text, nodes=[_moved(n, moved) for n in self.nodes])

    def escaped(self, text: str) -> str:
        """Returns a text in which no character is taken for a piece of this kind."""
        return text if self.kind == PLACEHOLDERS else html.escape(text, quote=False)


def parse(
    source: str, kind: str, marks: Sequence[str] = (), tokens: Iterable[Token] = ()
) -> Segment:
    """Parses a segment, which may be malformed.

    Atoms are the elements without a word (with all that is in them), elements that are not to be
    translated (`translate="no"`, `code`, `kbd`, `samp`, `var`), void elements, comments, URLs and
    placeholders, entities of no visible character, and tags without a partner. They are taken out
    of the text: a model that reads a placeholder may change or drop it, but what it never read is
    put back unchanged, once. A model that has learned to carry marks reads one for each of the
    first pieces that stand for words: placeholders, and elements that are not to be translated.

    Args:
        source: the segment.
        kind: one of `kinds.KINDS`.
        marks: characters for the first of these pieces; "": that one is an atom. Those that the
            segment has are not used.
        tokens: those of the segment; none: it is read here.
    """
    parser = _Parser(source, kind, ["" if mark in source else mark for mark in marks])
    tokens = tokens or tokens_of(source, kind)
    for token in paired(tokens) if kind == XML else tokens:
        parser.add(token)
    segment = parser.finish()
    if marks and not has_word(segment.text):
        return parse(source, kind)  # there is nothing to translate
    return segment


def translation_of(token: Token) -> bool | None:
    """Returns whether what is in an element is translated, given its start tag; None: it inherits.

    HTML's and XLIFF's `translate`, XLIFF's `mtype="protected"`, and the class that browsers know.
    """
    given = token.attributes()
    if "notranslate" in given.get("class", "").split() or given.get("mtype") == "protected":
        return False
    told = {"no": False, "yes": True, "": True}.get(given.get("translate", "?").lower())
    return False if told is None and token.name in _UNTRANSLATED else told


def has_word(text: str) -> bool:
    """Returns whether a text has a letter or a digit: something to translate."""
    return bool(_WORD.search(text))


def is_translated(token: Token) -> bool:
    """Returns whether what is in an element is translated, if what is around it is."""
    return translation_of(token) is not False


class _Open(NamedTuple):
    """An element whose end tag has not come.

    Attributes:
        token: its start tag.
        at: the offset of that in the source.
        atom: its place among the nodes, where its start tag is an atom, for lack of an end tag.
        text: how many parts the text before it has.
        start: where these end, in characters.
        space_before: whether white space precedes it.
        marked: how many pieces before it could have marks.
        pending: how many atoms there were since the last text.
    """

    token: Token
    at: int
    atom: int
    text: int
    start: int
    space_before: bool
    marked: int
    pending: int


class _Parser:
    """Builds a segment token by token; arguments as in `parse`."""

    def __init__(self, source: str, kind: str, marks: Sequence[str]) -> None:
        self._source = source
        self._kind = kind
        self._marks = marks
        self._marked: list[tuple[str, str]] = []
        self._at = 0  # in the source
        self._text: list[str] = []  # its parts
        self._size = 0  # of these, in characters
        self._words: list[int] = []  # where those with a word begin
        self._nodes: list[Node] = []  # what is in an open element comes after its start tag
        self._open: list[_Open] = []
        self._names: Counter[str] = Counter()  # of the open elements
        self._took_out = False  # whether visible atoms stand between the text and what comes next
        self._broke = False  # whether one of them breaks the line
        self._after_space = False  # whether the last text or atom ends with white space
        self._pending: list[Node] = []  # atoms since the last text
        self._begun: Node | None = None  # the last start tag since then
        self._pieces = 0

    def add(self, token: Token) -> None:
        self._pieces += token.kind != TokenKind.TEXT
        match token.kind:
            case TokenKind.TEXT | TokenKind.ENTITY:
                self._add_text(token.text)
            case TokenKind.OPEN:
                self._begin(token)
            case TokenKind.CLOSE:
                self._close(token)
            case TokenKind.PROTECTED if not token.raw.startswith("&"):  # no entity, maybe unseen
                self._add_piece(self._at, len(token.raw), self._after_space)
            case _:
                self._took_out |= token.kind != TokenKind.HIDDEN and not _is_unseen(token.raw)
                self._add_atom(self._at, len(token.raw), self._after_space)
        self._at += len(token.raw)

    def finish(self) -> Segment:
        text = "".join(self._text)
        _note_spaces(self._nodes, text)
        return Segment(self._source, self._kind, text, self._nodes, self._marked, self._pieces)

    def _add_text(self, text: str) -> None:
        for node in self._pending[-1:]:
            node.space_after = text[0].isspace()
        if self._begun:
            self._begun.space_after = text[0].isspace()  # it may have no end tag
            self._begun = None
        self._after_space = text[-1].isspace()
        before = self._text[-1][-1] if self._text else ""
        if before.isspace() and text[0] == " ":  # leave no two spaces
            text = text[1:]
        elif self._took_out and before and _joins(before, text[0], self._broke):
            text = " " + text
            for node in self._pending:
                node.is_glued = not _is_unseen(node.opening)
        self._pending = []
        if text:
            if has_word(text):
                self._words.append(self._size)
            self._text.append(text)
            self._size += len(text)
            self._took_out = self._broke = False

    def _add_piece(self, at: int, size: int, space_before: bool) -> None:
        """Adds a piece of the source that stands for words: its mark, if there is one left."""
        number = len(self._marked)
        mark = self._marks[number] if number < len(self._marks) else ""
        self._marked.append((mark, self._source[at : at + size]))
        if mark:
            self._add_text(mark)
        else:
            self._took_out = True
            self._add_atom(at, size, space_before)

    def _add_atom(self, at: int, size: int, space_before: bool) -> None:
        """Adds a piece of the source."""
        node = self._atom(at, size, space_before)
        self._broke |= bool(_BREAK.search(node.opening, 0, _LONGEST_BREAK))
        self._pending.append(node)
        self._after_space = False

    def _atom(self, at: int, size: int, space_before: bool) -> Node:
        raw, end = self._source[at : at + size], at + size
        node = Node(raw, "", self._size, self._size, is_atom=True, space_before=space_before)
        node.before, node.after = self._source[max(0, at - 1) : at], self._source[end : end + 1]
        self._nodes.append(node)
        return node

    def _begin(self, token: Token) -> None:
        sizes = len(self._nodes), len(self._text), self._size
        others = len(self._marked), len(self._pending)
        self._open.append(_Open(token, self._at, *sizes, self._after_space, *others))
        self._names[token.name] += 1
        # Until its end tag comes.
        self._begun = self._atom(self._at, len(token.raw), self._after_space)

    def _close(self, token: Token) -> None:
        if not self._names[token.name]:
            self._add_atom(self._at, len(token.raw), self._after_space)
            return
        element = self._pop()
        while element.token.name != token.name:
            element = self._pop()
        children = self._nodes[element.atom + 1 :]
        del self._nodes[element.atom :]
        is_kept = is_translated(element.token) and not self._is_note(element)
        has_word = bool(self._words) and self._words[-1] >= element.start
        if is_kept and len(self._open) < _DEEPEST and has_word:
            tags = (element.token.raw, token.raw)
            self._nodes.append(Node(*tags, element.start, self._size, children))
        else:
            self._take_out(element, len(token.raw), is_kept)

    def _is_note(self, element: _Open) -> bool:
        """Whether an element is a link to a note: a number behind a word or a sentence."""
        before = self._text[element.text - 1][-1] if element.text else " "
        return (
            element.token.name == "a"
            and (before.isalnum() or before in _NOTED)
            and not any(map(str.isalpha, "".join(self._text[element.text :])))
        )

    def _take_out(self, element: _Open, closing: int, is_kept: bool) -> None:
        """Adds an element as a piece of the source; its text goes.

        Args:
            element: the element.
            closing: characters of its end tag.
            is_kept: whether it would be translated, if there were words in it.
        """
        del self._text[element.text :], self._pending[element.pending :]
        self._size = element.start
        while self._words and self._words[-1] >= element.start:
            self._words.pop()
        has_pieces = len(self._marked) > element.marked
        del self._marked[element.marked :]
        size = self._at + closing - element.at
        if (has_pieces or not is_kept) and element.token.name not in _CODES:
            self._add_piece(element.at, size, element.space_before)
        else:
            self._took_out = True
            self._add_atom(element.at, size, element.space_before)

    def _pop(self) -> _Open:
        element = self._open.pop()
        self._names[element.token.name] -= 1
        return element


def _is_unseen(raw: str) -> bool:
    """Whether a piece changes nothing of how the words around it look: such as `&shy;`."""
    match = _SMALL.fullmatch(raw)
    if not match or not match["entity"]:
        return bool(match)
    return bool(UNSEEN_CHARACTER.fullmatch(html.unescape(match["entity"])))


def _moved(node: Node, places: Sequence[int]) -> Node:
    """Returns a node of a text whose places are others."""
    children = [_moved(child, places) for child in node.children]
    start, end = places[node.start], places[node.end]
    return dataclasses.replace(node, start=start, end=end, children=children)


def _joins(before: str, after: str, broke: bool) -> bool:
    """Whether two characters side by side would be read as one word, or one sentence.

    Args:
        before: the first one.
        after: the second one.
        broke: whether the line breaks between them.
    """
    are_words = before.isalnum() and after.isalnum()
    is_apart = before.isspace() or after.isspace()
    return (are_words or (broke and not is_apart)) and max(before, after) < _FIRST_UNSPACED


def _note_spaces(nodes: list[Node], text: str) -> None:
    """Notes for each element whether its text begins and ends with white space."""
    for node in nodes:
        if not node.is_atom:
            edges = {child.start for child in node.children if child.is_atom}
            first, last = text[node.start : node.start + 1], text[node.end - 1 : node.end]
            node.space_before = first.isspace() and node.start not in edges
            node.space_after = last.isspace() and node.end not in edges
            _note_spaces(node.children, text)
