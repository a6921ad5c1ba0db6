r"""Keeps the tags of LibreOffice's help: whether all survive, and where they go.

    python benchmarks/markup.py --libreoffice=FOLDER --run=RUN [--language=de]

RUN is a run folder of a model that translates the text of the help, without tags, from English. It
translates the segments of test pages that have tags, with `--markup=html`, and their text alone. A
table in Markdown has, in percent:

- segments that are well-formed, by Python's html.parser, and those with the tags of their source;
- BLEU of the text without tags, and of the translated text;
- of people's tags, those between the same two words. With the model's words this says more of the
  translation than of the tags. So the tags are also put into people's own translations, by the
  attention of the model: the second figure of this kind.
"""

import collections
import html.parser
import re
from collections.abc import Iterator, Sequence

from adaptation import plain_text
from terms import parser_of, rows

from t2t_lite.data.problem import Output
from t2t_lite.decoding.config import DecoderConfig
from t2t_lite.decoding.hypotheses import best_output, with_markup
from t2t_lite.decoding.loading import find_models, load_decoder
from t2t_lite.metrics.by_name import score_outputs

_TAG = re.compile(r"<[^<>]*>")
_WORD = re.compile(r"\w+|[^\w\s]")
_VOID = frozenset(
    ["area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "wbr"]
)

# A tag with the words before and after it; "" at an end.
Place = tuple[str, str, str]


class _Nesting(html.parser.HTMLParser):
    """Notes whether every end tag closes the innermost element, and none is left open."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.is_right = True

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag not in _VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: object) -> None:
        """An empty element."""

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.is_right = False


def is_well_formed(segment: str) -> bool:
    """Returns whether elements nest."""
    parser = _Nesting()
    parser.feed(segment)
    parser.close()
    return parser.is_right and not parser.open


def places(segment: str) -> Iterator[Place]:
    """Yields the tags of a segment in order, each with the words around it."""
    for match in _TAG.finditer(segment):
        before, after = (
            _WORD.findall(html.unescape(_TAG.sub(" ", part)))
            for part in (segment[: match.start()], segment[match.end() :])
        )
        yield match[0], before[-1] if before else "", after[0] if after else ""


def agreement(outputs: Sequence[str], people: Sequence[str]) -> float:
    """Returns the share of people's tags that an output has between the same words, in percent."""
    same = total = 0
    for output, wanted in zip(outputs, people, strict=True):
        left = collections.Counter(places(output))
        for place in places(wanted):
            total += 1
            if left[place]:
                left[place] -= 1
                same += 1
    return 100 * same / total


def main() -> None:
    """Prints the table."""
    args = parser_of(__doc__).parse_args()
    pairs = rows(args.libreoffice / "test.tsv.gz", args.language)
    pairs = [pair for pair in pairs if _TAG.search(pair[0]) and all(map(plain_text, pair))]
    sources, people = zip(*pairs, strict=True)
    config = DecoderConfig(output_dir=str(args.run))
    decoder, _ = load_decoder(config, find_models(config))

    def translated(lines: Sequence[str], markup: str) -> list[str]:
        found = decoder.decode(decoder.text.encode(lines, markup=markup))
        return [best_output(hypotheses).text for hypotheses in found]

    outputs = translated(sources, "html")
    texts = translated([plain_text(source) for source in sources], "")
    references = [plain_text(target) for target in people]
    # In people's words: given targets, aligned by the attention of the model.
    encoded = decoder.text.encode(sources, markup="html")
    ids = decoder.text.encode_targets(references, "target")
    detailed = decoder.variant(return_beams=False, with_details=True)
    scored = detailed.score(encoded, ids)
    placed = [
        best_output(
            with_markup(source, [h._replace(output=Output(reference)) for h in hypotheses])
        ).text
        for source, hypotheses, reference in zip(encoded, scored, references, strict=True)
    ]

    def bleu(found: Sequence[str]) -> float:
        return score_outputs("bleu", [*map(Output, found)], references).values["bleu"]

    well_formed = sum(map(is_well_formed, outputs)) / len(outputs)
    same = sum(
        collections.Counter(_TAG.findall(source)) == collections.Counter(_TAG.findall(output))
        for source, output in zip(sources, outputs, strict=True)
    )
    # Where people changed a tag, no output can agree: attributes with text, say.
    kept = [
        i
        for i, (source, target) in enumerate(pairs)
        if collections.Counter(_TAG.findall(source)) == collections.Counter(_TAG.findall(target))
    ]
    wanted = [people[i] for i in kept]
    figures = {
        "well-formed, %": 100 * well_formed,
        "the tags of the source, %": 100 * same / len(pairs),
        "BLEU without tags": bleu([plain_text(output) for output in outputs]),
        "BLEU of the text alone": bleu(texts),
        "tags between the words of people's, %": agreement([outputs[i] for i in kept], wanted),
        "the same in people's own translations, %": agreement([placed[i] for i in kept], wanted),
    }
    print(
        f"{len(pairs)} segments; people kept all tags in {len(kept)} of them\n\n| | |\n|---|---:|"
    )
    for name, figure in figures.items():
        print(f"| {name} | {figure:.2f} |")


if __name__ == "__main__":
    main()
