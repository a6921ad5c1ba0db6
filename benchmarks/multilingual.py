r"""One model of several directions beside a model of each: LibreOffice's help, without tags.

    mkdir raw && cd raw && apt-get download libreoffice-help-{en-us,de,fr,es,it,cs,ja,zh-cn}
    python benchmarks/multilingual.py --tmp_dir=raw --output_dir=FOLDER [--only=many,added,any_pair]

The parts, each by t2t-datagen, t2t-trainer, t2t-decoder and t2t-eval, on the test pages:

- many: one model from English into `--languages`, beside a model of each language. All have the
  same size, and as many updates for each direction (`--updates`).
- added: `--added` joins them later. Its vocabulary goes on from that of the many
  (t2t-datagen --extend_vocab), its model from theirs (t2t-trainer --warm_start_from), for a tenth
  of their updates. Half of the examples are of it. Beside it: a model of that language alone.
- any_pair: German to French and back, by a model that has learned both with English: directly,
  which it has not learned, by way of English (--pivot=en), and by models of these pairs.

Steps whose output exists are skipped, so that a killed command resumes when it is run again.
"""

import argparse
import dataclasses
import json
import pathlib
import statistics
from collections.abc import Iterable, Sequence

from adaptation import command

from t2t_lite import registry

HPARAMS = (
    "num_hidden_layers=2,hidden_size=128,filter_size=512,num_heads=4,batch_size=1024,max_length=128,"
    "layer_prepostprocess_dropout=0"
)
RATE = "learning_rate_constant=1,learning_rate_warmup_steps=400"
RATE_OF_MORE = "learning_rate_constant=0.08,learning_rate_warmup_steps=50"  # of a trained model
PARTS = ("many", "added", "any_pair")
_SHARE_OF_ADDED = 0.1  # of the updates of the many


def from_english(language: str) -> str:
    """Returns the name of the problem from English into a language."""
    return f"translate_en{language}_libreoffice_plain"


@dataclasses.dataclass(frozen=True)
class Bench:
    """What all models have in common.

    Attributes:
        tmp_dir: folder of the packages.
        output_dir: folder of the data and of the runs.
        updates: of each direction.
    """

    tmp_dir: pathlib.Path
    output_dir: pathlib.Path
    updates: int

    def train(self, name: str, problem: str, updates: int, base: str = "") -> pathlib.Path:
        """Returns the run folder of a model, which continues the run `base` if that is given."""
        data, run = self.output_dir / f"data_{name}", self.output_dir / name
        further = {"extend_vocab": self.output_dir / base} if base else {}
        command("t2t_datagen", problem=problem, tmp_dir=self.tmp_dir, data_dir=data, **further)
        command(
            "t2t_trainer",
            problem=problem,
            data_dir=data,
            output_dir=run,
            model="transformer",
            hparams_set="transformer_small",
            hparams=f"{HPARAMS},{RATE_OF_MORE if base else RATE}",
            train_steps=updates,
            schedule="train",
            **({"warm_start_from": self.output_dir / base} if base else {}),
        )
        return run

    def scores(self, run: pathlib.Path) -> dict[str, float]:
        """Returns BLEU and chrF of each of a run's directions on the test pages."""
        path = run.with_suffix(".json")
        if not path.exists():
            text = command(
                "t2t_eval",
                output_dir=run,
                dataset_split="test",
                engine="ctranslate2",
                metrics="bleu,chrf",
                output_format="json",
            )
            path.write_text(text, encoding="utf-8")
        (checkpoint,) = json.loads(path.read_text(encoding="utf-8"))["checkpoints"]
        return checkpoint["values"]

    def many(self, languages: Sequence[str]) -> None:
        """Prints the table of one model of all directions beside a model of each."""
        problem = "+".join(map(from_english, languages))
        together = self.scores(self.train("many", problem, self.updates * len(languages)))
        alone = {
            language: self.scores(self.train(language, from_english(language), self.updates))
            for language in languages
        }
        rows = [
            (x, alone[x]["bleu"], together[f"bleu__{x}"], alone[x]["chrf"], together[f"chrf__{x}"])
            for x in languages
        ]
        means = (statistics.mean(column) for column in list(zip(*rows, strict=True))[1:])
        _print(
            ("en-", "BLEU, own model", "BLEU, one model", "chrF, own", "chrF, one"),
            [*rows, ("mean", *means)],
        )

    def added(self, languages: Sequence[str], added: str) -> None:
        """Prints the table of a language that joins later."""
        updates = round(_SHARE_OF_ADDED * self.updates * len(languages))
        weights = dict.fromkeys(languages, 0.5 / len(languages)) | {added: 0.5}
        problem = "+".join(f"{from_english(x)}:{weight:g}" for x, weight in weights.items())
        before = self.scores(self.output_dir / "many")
        after = self.scores(self.train("added", problem, updates, base="many"))
        own = self.scores(self.train(added, from_english(added), self.updates))
        rows = [(x, before[f"bleu__{x}"], after[f"bleu__{x}"]) for x in languages]
        _print(
            ("en-", "BLEU before, or of its own model", "after"),
            [*rows, (added, own["bleu"], after[f"bleu__{added}"])],
        )

    def any_pair(self) -> None:
        """Prints the table of German and French."""
        pairs = [from_english(x) + turned for x in ("de", "fr") for turned in ("", "_rev")]
        run = self.train("four", "+".join(pairs), self.updates * len(pairs))
        direct = "translate_defr_libreoffice_plain"
        data = self.output_dir / "data_defr"
        rows = []
        for name, problem in (("defr", direct), ("frde", f"{direct}_rev")):
            own = self.train(name, problem, self.updates)
            source, target = name[:2], name[2:]
            lines, references = self._texts(data, direct, turned=name == "frde")
            row: list[float] = []
            for way, flags in (
                ("direct", {"output_dir": own}),
                ("zero", {"output_dir": run, "target_language": target}),
                ("pivot", {"output_dir": run, "target_language": target, "pivot": "en"}),
            ):
                path = self.output_dir / f"{name}.{way}.txt"
                if not path.exists():
                    given = {"decode_from_file": lines, "decode_to_file": path}
                    command("t2t_decoder", engine="ctranslate2", **given, **flags)
                report = command("t2t_bleu", translation=path, reference=references, metrics="bleu")
                row.append(float(report.partition("=")[2].split()[0]))
            rows.append((f"{source}-{target}", *row))
        _print(("", "own model", "zero-shot", "by way of English"), rows)

    def _texts(
        self, data: pathlib.Path, name: str, turned: bool
    ) -> tuple[pathlib.Path, pathlib.Path]:
        """Returns the files of the sources and of the references of the test pages."""
        problem = registry.problem(name)
        sides = [self.output_dir / f"{name}.{side}" for side in ("inputs", "targets")]
        if not all(path.exists() for path in sides):
            samples = [*problem.generate_samples(str(data), str(self.tmp_dir), "test")]
            for path, side in zip(sides, ("inputs", "targets"), strict=True):
                path.write_text("".join(f"{x[side]}\n" for x in samples), encoding="utf-8")
        return (sides[1], sides[0]) if turned else (sides[0], sides[1])


def _print(header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    print(f"| {' | '.join(header)} |\n|---|{'---:|' * (len(header) - 1)}")
    for name, *figures in rows:
        print(f"| {name} | {' | '.join(f'{figure:.2f}' for figure in figures)} |")
    print(flush=True)


def main() -> None:
    """Prints the tables in Markdown."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    path = pathlib.Path
    parser.add_argument("--tmp_dir", type=path, required=True, help="folder of the packages")
    parser.add_argument("--output_dir", type=path, required=True, help="folder of all files")
    parser.add_argument("--languages", default="de,fr,es,cs,zh,ja", help="(de,fr,es,cs,zh,ja)")
    parser.add_argument("--added", default="it", help="the language that joins later (it)")
    parser.add_argument("--updates", type=int, default=480, help="of each direction (480)")
    parser.add_argument("--only", default=",".join(PARTS), help=f"parts ({','.join(PARTS)})")
    args = parser.parse_args()
    bench = Bench(args.tmp_dir, args.output_dir, args.updates)
    languages, parts = args.languages.split(","), args.only.split(",")
    if "many" in parts:
        bench.many(languages)
    if "added" in parts:
        bench.added(languages, args.added)
    if "any_pair" in parts:
        bench.any_pair()


if __name__ == "__main__":
    main()
