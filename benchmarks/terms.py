r"""Prescribes the terms of LibreOffice's help: how many are met, and what it costs.

    python benchmarks/terms.py --libreoffice=FOLDER --run=RUN [--language=de]

RUN is a run folder of a model that translates the text of the help, without tags, from English. The
terms are the names that training pages have in `<span class="emph">`, and that stand in their text
at least three times, with one translation in at least 90 % of these. The model translates the
segments of dev and test pages, without terms and with them, in turns, by the decoder of t2t-decoder
with batches of 64 sentences. A table in Markdown has the terms met (of those in the sources), BLEU
of all segments and of those with terms, and the speed. Outputs of sources without terms must be
equal.
"""

import argparse
import collections
import gzip
import pathlib
import re
import statistics
import time
from collections.abc import Iterator, Sequence

from adaptation import plain_text

from t2t_lite.data.problem import Output
from t2t_lite.decoding.config import DecoderConfig
from t2t_lite.decoding.hypotheses import best_output
from t2t_lite.decoding.loading import find_models, load_decoder
from t2t_lite.decoding.request import NOTHING, TextOptions
from t2t_lite.metrics.by_name import score_outputs
from t2t_lite.terms.term_list import TermList, uses

_NAME = re.compile(r'<span class="emph">(.*?)</span>')
_LEAST, _SHARE = 3, 0.9


def rows(path: pathlib.Path, language: str) -> Iterator[tuple[str, str]]:
    """Yields the segments of a file in English and another language, with their tags."""
    with gzip.open(path, "rt", encoding="utf-8", newline="\n") as lines:
        columns = next(lines).rstrip("\n").split("\t")
        en, other = columns.index("en"), columns.index(language)
        for line in lines:
            cells = line.rstrip("\n").split("\t")
            if cells[en] and cells[other]:
                yield cells[en], cells[other]


def terms_of(pairs: Sequence[tuple[str, str]]) -> TermList:
    """Returns the names with one usual translation, wherever they stand in training pages.

    Args:
        pairs: segments with their tags.
    """
    found: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    for pair in pairs:
        source, target = ([plain_text(name) for name in _NAME.findall(side)] for side in pair)
        if len(source) == len(target):
            for name, translation in zip(source, target, strict=True):
                found[name][translation] += bool(name and translation)
    candidates = TermList(
        {
            name: (counts.most_common(1)[0][0],)
            for name, counts in found.items()
            if counts.total() >= _LEAST and any(map(str.isalpha, name))
        }
    )
    wanted: collections.Counter[str] = collections.Counter()
    met: collections.Counter[str] = collections.Counter()
    for source, target in dict.fromkeys(pairs):
        for use in uses(candidates.wanted(plain_text(source)), plain_text(target)):
            wanted[use.wanted.term] += use.wanted.times
            met[use.wanted.term] += use.met
    return TermList(
        {
            name: candidates.forms[name]
            for name, times in wanted.items()
            if times >= _LEAST and met[name] >= _SHARE * times
        }
    )


def parser_of(description: str | None) -> argparse.ArgumentParser:
    """Returns a parser of what a model of the help is measured with."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    path = pathlib.Path
    parser.add_argument("--libreoffice", type=path, required=True, help="folder of *.tsv.gz")
    parser.add_argument("--run", type=path, required=True, help="the run folder")
    parser.add_argument("--language", default="de", help="the target's (de)")
    return parser


def main() -> None:
    """Prints the table."""
    parser = parser_of(__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="of which medians are printed (3)")
    parser.add_argument("--splits", default="dev,test", help="of the help (dev,test)")
    parser.add_argument("--decode_hparams", default="", help="changes to the search")
    args = parser.parse_args()
    terms = terms_of([*rows(args.libreoffice / "train.tsv.gz", args.language)])
    asked = TextOptions(terms=terms.forms)
    pairs = [
        (plain_text(source), plain_text(target))
        for split in args.splits.split(",")
        for source, target in rows(args.libreoffice / f"{split}.tsv.gz", args.language)
    ]
    pairs = [*dict.fromkeys(pair for pair in pairs if all(pair))]
    search = ",".join(filter(None, ("batch_size=64", args.decode_hparams)))
    config = DecoderConfig(output_dir=str(args.run), decode_hparams=search)
    decoder, _ = load_decoder(config, find_models(config))
    lines = [source for source, _ in pairs]
    seconds: dict[str, list[float]] = {"without terms": [], "with terms": []}
    outputs: dict[str, list[Output]] = {}
    for round_ in range(args.rounds + 1):
        for name in seconds:
            sources = decoder.text.encode(lines, asked if name == "with terms" else NOTHING)
            start = time.perf_counter()
            found = decoder.decode(sources)
            if round_:  # the first one compiles
                seconds[name].append(time.perf_counter() - start)
            outputs[name] = [best_output(hypotheses) for hypotheses in found]
    has_terms = [bool(terms.wanted(source)) for source in lines]
    changed = sum(
        one != other
        for one, other, has in zip(*outputs.values(), has_terms, strict=True)
        if not has
    )
    print(
        f"{len(terms.forms)} terms; {len(lines)} segments, {sum(has_terms)} of them with terms; "
        f"{changed} of the others changed\n\n"
        "| | terms met, % | BLEU | BLEU of segments with terms | sentences/s |\n"
        "|---|---:|---:|---:|---:|"
    )
    people = [Output(target) for _, target in pairs]
    print(f"| people | {_row(terms, pairs, people, has_terms).partition('|')[0]}| | | |")
    for name, found in outputs.items():
        print(f"| {name} | {_row(terms, pairs, found, has_terms)} | ", end="")
        print(f"{len(lines) / statistics.median(seconds[name]):.1f} |")
    ratios = [a / b for a, b in zip(*seconds.values(), strict=True)]
    print(f"\nspeed with terms: {statistics.median(ratios):.2f} of that without", end=" ")
    print(f"({min(ratios):.2f} to {max(ratios):.2f})")


def _row(
    terms: TermList,
    pairs: Sequence[tuple[str, str]],
    outputs: Sequence[Output],
    has_terms: Sequence[bool],
) -> str:
    found = [
        use
        for (source, _), output in zip(pairs, outputs, strict=True)
        for use in uses(terms.wanted(source), output.text)
    ]
    met, wanted = sum(use.met for use in found), sum(use.wanted.times for use in found)
    references = [target for _, target in pairs]
    bleu = score_outputs("bleu", outputs, references).values["bleu"]
    kept = [i for i, has in enumerate(has_terms) if has]
    own = score_outputs("bleu", [outputs[i] for i in kept], [references[i] for i in kept])
    return f"{100 * met / wanted:.2f} ({met} of {wanted}) | {bleu:.2f} | {own.values['bleu']:.2f}"


if __name__ == "__main__":
    main()
