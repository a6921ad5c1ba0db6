"""A language model beside a Kneser-Ney 5-gram over the same subwords, on the same held-out text.

    python benchmarks/language_model.py --output_dir=RUN --train=TRAIN.txt --text=HELDOUT.txt

RUN is a run of text2self_tmpdir_bpe or another problem without inputs; TRAIN.txt is what it was
trained on, one text a line. Prints the perplexity per token, and the bits per character, of both;
each line's end counts as a token and a character. The bar: the language model's perplexity is at
most the 5-gram's.
"""

import os
import pathlib

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import kneser_ney
import report

from t2t_lite.decoding.decoder import Decoder
from t2t_lite.decoding.perplexity import Perplexity, perplexity
from t2t_lite.runs import run_folder


def main() -> None:
    """Prints the figures."""
    parser = report.parser(__doc__)
    add = parser.add_argument
    add("--output_dir", required=True, help="run folder of a language model")
    add("--train", required=True, help="the text that it was trained on")
    add("--text", required=True, help="the held-out text")
    add("--order", type=int, default=5, help="n of the n-grams (5)")
    args = parser.parse_args()
    with report.opened(args) as add_case:
        decoder = Decoder.from_run(run_folder.RunFolder.open(args.output_dir))
        ours, theirs = perplexities(decoder, args.train, args.text, args.order)
        add_case(_case(ours, theirs, args.order))


def perplexities(
    decoder: Decoder, train: str, text: str, order: int
) -> tuple[Perplexity, Perplexity]:
    """Returns what a language model, and n-grams from the file `train`, make of the file `text`."""
    encode = decoder.text.encode_targets
    lines = _lines(text)
    ids = encode(lines, f"{text}, line")
    scored = decoder.score(decoder.text.encode([""] * len(lines)), ids)
    train_ids = encode(_lines(train), f"{train}, line")
    model = kneser_ney.KneserNey(train_ids, order, decoder.engine.models[0].targets_vocab_size)
    return (
        perplexity((one.score for (one,) in scored), lines, decoder.text),
        perplexity(map(model.log_prob, ids), lines, decoder.text),
    )


def _lines(path: str) -> list[str]:
    lines = pathlib.Path(path).read_text(encoding="utf-8").splitlines()
    return [line.strip() for line in lines if line.strip()]


def _case(ours: Perplexity, theirs: Perplexity, order: int) -> report.Case:
    figures = []
    for name, found in ((f"Kneser-Ney {order}-gram", theirs), ("language model", ours)):
        most = theirs.per_token if found is ours else None
        figures += [
            report.Figure(f"{name}, perplexity", found.per_token, "a token", most),
            report.Figure(f"{name}, bits", found.bits_per_character, "a character"),
        ]
    return report.Case("language_model", figures=tuple(figures))


if __name__ == "__main__":
    main()
