"""The commands one after the other, as a user would run them, in this process."""

import json
import re

from support.commands import printed_by
from t2t_lite.bin import t2t_avg_checkpoints, t2t_bleu, t2t_datagen, t2t_decoder, t2t_trainer

PAIRS = [(f"{i} and {i * 7 % 10}", f"erst {i * 7 % 10} und dann {i}") for i in range(60)]


def test_from_two_files_to_bleu(eagerly, few_shards, tmp_path):
    text, data, run = (tmp_path / name for name in ("text", "data", "run"))
    text.mkdir()
    for split, pairs in (("train", PAIRS[6:]), ("eval", PAIRS[:6])):
        for side, column in (("inputs", 0), ("targets", 1)):
            lines = "".join(f"{pair[column]}\n" for pair in pairs)
            (text / f"{side}.{split}.txt").write_text(lines, encoding="utf-8")
    printed_by(
        t2t_datagen.main, "--problem=text2text_tmpdir", f"--tmp_dir={text}", f"--data_dir={data}"
    )
    assert len(list(data.glob("text2text_tmpdir-train-*"))) == 2
    printed_by(
        t2t_trainer.main,
        "--problem=text2text_tmpdir",
        "--model=transformer",
        "--hparams_set=transformer_test",
        "--hparams=batch_size=64,max_length=16,num_hidden_layers=1",
        f"--data_dir={data}",
        f"--output_dir={run}",
        "--train_steps=2",
        "--local_eval_frequency=1",
        "--decode_hparams=beam_size=1,extra_length=1",
    )
    records = [json.loads(line) for line in (run / "metrics.jsonl").open(encoding="utf-8")]
    assert [record["step"] for record in records if record["kind"] == "eval"] == [1, 2]
    averaged = printed_by(
        t2t_avg_checkpoints.main, f"--output_dir={run}", "--num_last_checkpoints=2"
    ).strip()
    assert averaged == str(run / "averaged.ckpt-2")
    output = tmp_path / "output.txt"
    printed_by(
        t2t_decoder.main,
        f"--checkpoint_path={averaged}",
        f"--decode_from_file={text / 'inputs.eval.txt'}",
        f"--decode_to_file={output}",
        "--decode_hparams=beam_size=2,extra_length=2",
    )
    assert len(output.read_text(encoding="utf-8").splitlines()) == 6
    reference = text / "targets.eval.txt"
    found = printed_by(t2t_bleu.main, f"--translation={output}", f"--reference={reference}")
    assert re.search(r"^BLEU_cased = +\d+\.\d\d$", found, re.M)
    perfect = printed_by(t2t_bleu.main, f"--translation={reference}", f"--reference={reference}")
    assert re.search(r"^BLEU_cased = +100\.00$", perfect, re.M)
