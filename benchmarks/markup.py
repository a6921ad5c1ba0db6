r"""Keeps the tags of LibreOffice's help: whether all survive, and where they go.

    python benchmarks/markup.py --libreoffice=FOLDER --run=RUN [--language=de] [--raw_run=RUN]

RUN is a run folder of a model that translates the text of the help, without tags, from English. It
translates the segments of test pages that have tags, with `--markup=html`, and their text alone.
The other run is of a model that has learned to translate the tags as text. A table in Markdown has,
in percent:

- segments that are well-formed, by Python's html.parser, and those with the tags of their source;
- BLEU (chrF if the targets are Japanese) of the text without tags, and of the translated text;
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
from t2t_lite.decoding.decoder import Decoder
from t2t_lite.decoding.hypotheses import best_output
from t2t_lite.decoding.loading import find_models, load_decoder
from t2t_lite.decoding.request import TextOptions
from t2t_lite.metrics.by_name import score_outputs

_TAG = re.compile(r"<[^<>]*>")
# Each Chinese or Japanese character is a word.
_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]|[^\W\u3040-\u30ff\u3400-\u9fff]+|[^\w\s]")
_METRICS = {"zh": "bleu_zh", "ja": "chrf"}  # of targets; others have BLEU
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


def opened(run: object) -> Decoder:
    """Returns the decoder of a run."""
    config = DecoderConfig(output_dir=str(run))
    return load_decoder(config, find_models(config))[0]


def translated(decoder: Decoder, lines: Sequence[str], markup: str = "") -> list[str]:
    """Returns the best output for each line."""
    found = decoder.decode(decoder.text.encode(lines, TextOptions(markup=markup)))
    return [best_output(hypotheses).text for hypotheses in found]


def placed(decoder: Decoder, sources: Sequence[str], texts: Sequence[str]) -> list[str]:
    """Returns translations with the tags of their sources, by the attention of the model."""
    encoded = decoder.text.encode(sources, TextOptions(markup="html"))
    ids = decoder.text.encode_targets(texts, "target")
    scored = decoder.variant(return_beams=False, with_details=True).score(encoded, ids)
    return [
        best_output(
            decoder.text.stages_of(source).after(
                source, [h._replace(output=Output(text)) for h in hypotheses]
            )
        ).text
        for source, hypotheses, text in zip(encoded, scored, texts, strict=True)
    ]


class Measure:
    """Measures translations of segments with tags.

    Args:
        pairs: segments and people's translations.
        metric: of the text.
    """

    def __init__(self, pairs: Sequence[tuple[str, str]], metric: str) -> None:
        self.pairs, self._metric = pairs, metric
        self._references = [plain_text(target) for _, target in pairs]
        # Where people changed a tag, no output can agree: attributes with text, say.
        self.kept = [
            i for i, (source, target) in enumerate(pairs) if _tags(source) == _tags(target)
        ]

    def score(self, texts: Sequence[str]) -> float:
        """Returns the metric of texts without tags."""
        return score_outputs(self._metric, [*map(Output, texts)], self._references).values[
            self._metric
        ]

    def agreement(self, outputs: Sequence[str]) -> float:
        """Returns the share of tags between the same words, where people kept the tags."""
        return agreement([outputs[i] for i in self.kept], [self.pairs[i][1] for i in self.kept])

    def rows(self, outputs: Sequence[str]) -> dict[str, float]:
        """Returns what is measured of outputs with tags."""
        same = [_tags(pair[0]) == _tags(out) for pair, out in zip(self.pairs, outputs, strict=True)]
        return {
            "well-formed, %": 100 * sum(map(is_well_formed, outputs)) / len(outputs),
            "the tags of the source, %": 100 * sum(same) / len(outputs),
            f"{self._metric} without tags": self.score([plain_text(out) for out in outputs]),
            "tags between the words of people's, %": self.agreement(outputs),
        }


def _tags(segment: str) -> collections.Counter[str]:
    return collections.Counter(_TAG.findall(segment))


def main() -> None:
    """Prints the table."""
    parser = parser_of(__doc__)
    parser.add_argument("--raw_run", default="", help="of a model of text with tags")
    args = parser.parse_args()
    found = rows(args.libreoffice / "test.tsv.gz", args.language)
    pairs = [pair for pair in found if _TAG.search(pair[0]) and all(map(plain_text, pair))]
    sources = [source for source, _ in pairs]
    metric = _METRICS.get(args.language, "bleu")
    measure = Measure(pairs, metric)
    decoder = opened(args.run)
    columns = {"--markup=html": measure.rows(translated(decoder, sources, "html"))}
    texts = translated(decoder, [*map(plain_text, sources)])
    columns["--markup=html"] |= {
        f"{metric} of the text alone": measure.score(texts),
        "tags in people's own translations, %": measure.agreement(
            placed(decoder, sources, [plain_text(target) for _, target in pairs])
        ),
    }
    if args.raw_run:
        columns["tags as text"] = measure.rows(translated(opened(args.raw_run), sources))
    print(f"{len(pairs)} segments; people kept all tags in {len(measure.kept)} of them\n")
    print(f"| | {' | '.join(columns)} |\n|---|{'---:|' * len(columns)}")
    for name in columns["--markup=html"]:
        figures = (f"{column[name]:.2f}" if name in column else "" for column in columns.values())
        print(f"| {name} | {' | '.join(figures)} |")


if __name__ == "__main__":
    main()
