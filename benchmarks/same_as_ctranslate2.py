"""Compares the outputs of CTranslate2 and t2t-decoder with the same weights.

    pip install -e '.[ct2]'
    python benchmarks/same_as_ctranslate2.py --output_dir=runs/multi30k --text=test.en

exports the newest checkpoint of a run and prints, for greedy search and for beam search without a
length penalty, how many lines are equal, and those that differ. Bar: 99 %.
"""

import argparse
import pathlib
import tempfile
from collections.abc import Sequence

import ctranslate2
import sentencepiece

from t2t_lite.decoding.decoder import Decoder
from t2t_lite.decoding.translator import Translator
from t2t_lite.export import ctranslate2 as exporter
from t2t_lite.runs import run_folder
from t2t_lite.search.decode_hparams import DecodeHParams
from t2t_lite.text.text_files import read_lines


def theirs(
    exported: pathlib.Path, lines: Sequence[str], beam_size: int, most: int
) -> Sequence[str]:
    """Returns CTranslate2's translations, of `most` subwords at most."""
    (model,) = exported.glob("*.model")
    spm = sentencepiece.SentencePieceProcessor(str(model))
    found = ctranslate2.Translator(str(exported), compute_type="float32").translate_batch(
        spm.encode(list(lines), out_type=str),
        beam_size=beam_size,
        length_penalty=0,
        max_batch_size=2048,
        batch_type="tokens",
        min_decoding_length=0,
        max_decoding_length=most,
        max_input_length=0,
    )
    return [spm.decode(result.hypotheses[0]) for result in found]


def main() -> None:
    """Prints how many lines are equal."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--output_dir", required=True)
    parser.add_argument("--text", required=True)
    args = parser.parse_args()
    run = run_folder.RunFolder.open(args.output_dir)
    lines = [line.strip() for line in read_lines(args.text) if line.strip()]
    with tempfile.TemporaryDirectory() as folder:
        exported = pathlib.Path(folder) / "exported"
        exporter.export(run, None, str(exported), "float32")
        for name, beam_size in (("greedy", 1), ("beam 4, alpha 0", 4)):
            search = DecodeHParams.of(run.problem, f"beam_size={beam_size},alpha=0")
            ours = Translator(Decoder.from_run(run, hparams=search))(lines)
            pairs = list(zip(ours, theirs(exported, lines, beam_size, 256), strict=True))
            same = sum(one == other for one, other in pairs)
            print(f"{name}: {same} of {len(lines)} lines are the same, {same / len(lines):.2%}")
            for one, other in pairs:
                if one != other:
                    print(f"  t2t_lite:    {one}\n  CTranslate2: {other}")


if __name__ == "__main__":
    main()
