"""What t2t-distill writes, from a teacher or from given translations; kills; what it refuses."""

import dataclasses
import json
import os
import pathlib
import shutil

import pytest

from support.commands import Killed
from support.copying import CopyModel
from support.small_runs import make_run, save_weights
from support.texts import write_lines
from t2t_lite import files
from t2t_lite.decoding.config import DecoderConfig
from t2t_lite.errors import DataError, UsageError, UserError
from t2t_lite.study.distillation import job
from t2t_lite.study.distillation.config import DistillConfig
from t2t_lite.text.text_files import read_lines

SOURCES = ["the cat sleeps", "a dog runs", "so it is"]
TARGETS = ["die Katze schläft", "ein Hund läuft sehr schnell", "so"]  # 0.25 to 2.7 as long
SEARCH = DecoderConfig(decode_hparams="beam_size=2,extra_length=2", worker_gpu=0)


@pytest.fixture
def config(tmp_path) -> DistillConfig:
    raw = tmp_path / "raw"
    raw.mkdir()
    for split, part in (("train", slice(3)), ("eval", slice(1)), ("test", slice(1, 2))):
        write_lines(raw / f"inputs.{split}.txt", SOURCES[part])
        write_lines(raw / f"targets.{split}.txt", TARGETS[part])
    return DistillConfig(
        problem="text2text_tmpdir",
        tmp_dir=str(raw),
        translations=str(write_lines(tmp_path / "translations", TARGETS)),
        output_problem_dir=str(tmp_path / "out"),
    )


@pytest.fixture
def teacher(tmp_path) -> str:
    """A run folder whose model writes its source."""
    names = {"problem": "decoder_test_bytes", "model": "decoder_test_copy"}
    opened = make_run(tmp_path / "teacher", **names)
    model = opened.build_model()
    assert isinstance(model, CopyModel)
    save_weights(opened.folder, model)
    return str(opened.folder)


def translated(config, *lines, **changes):
    """Distills these translations; returns the training pairs."""
    write_lines(pathlib.Path(config.translations), lines)
    return distilled(dataclasses.replace(config, **changes))


def distilled(config, search=SEARCH):
    job.run(config, search)
    out = pathlib.Path(config.output_problem_dir)
    inputs, targets = (read_lines(out / f"{side}.train.txt") for side in ("inputs", "targets"))
    return list(zip(inputs, targets, strict=True))


def origin(config):
    return json.loads((pathlib.Path(config.output_problem_dir) / "origin.json").read_text())


def test_translations_become_targets_and_other_splits_stay(config, tmp_path, capsys):
    outputs = ["die Katze pennt", "so so so ein Hund", "ja, so ist es"]
    assert translated(config, *outputs) == [(SOURCES[0], outputs[0]), (SOURCES[2], outputs[2])]
    assert capsys.readouterr().out == (
        "kept 2 of 3 outputs (66.7%); dropped: empty 0, repeated 1, length 0\n"
    )
    for split, number in (("eval", 0), ("test", 1)):
        assert read_lines(tmp_path / f"out/inputs.{split}.txt") == [SOURCES[number]]
        assert read_lines(tmp_path / f"out/targets.{split}.txt") == [TARGETS[number]]
    made = origin(config)
    assert made["pairs"] == {"train": 2, "eval": 1, "test": 1}
    assert made["outputs"] == {"kept": 2, "dropped": {"empty": 0, "repeated": 1, "length": 0}}
    assert made["origin"]["translations"] == files.digest(config.translations)
    assert made["length_ratios"] == [0.25, 2.7]
    assert not list(tmp_path.glob("out.*"))


def test_the_nearest_hypothesis_is_kept_and_on_request_only(config):
    n_best = [f"x\t{TARGETS[0]}", "ein Hund läuft\tein Hund rennt", "also ja\tso ja"]
    nearest = [TARGETS[0], "ein Hund läuft", "so ja"]
    assert translated(config, *n_best, select="nearest") == list(zip(SOURCES, nearest, strict=True))
    best = dataclasses.replace(config, output_problem_dir=f"{config.output_problem_dir}2")
    assert distilled(best) == [(SOURCES[1], "ein Hund läuft"), (SOURCES[2], "also ja")]  # x: short


def test_all_different_hypotheses_are_pairs_of_their_own(config, tmp_path, capsys):
    n_best = ["x y z a\tx y z b \tx y z a\tx y z c", "", "so\t\tja so so so ja"]
    found = translated(config, *n_best, select="all")
    assert found == [*((SOURCES[0], f"x y z {end}") for end in "abc"), (SOURCES[2], "so")]
    assert capsys.readouterr().out == (
        "kept 4 of 7 outputs (57.1%); dropped: empty 2, repeated 1, length 0\n"
    )
    assert origin(config)["pairs"]["train"] == 4


def test_all_hypotheses_of_an_n_best_list_are_pairs_in_the_order_of_their_scores(config):
    ranked = ["x y z b ||| -2", "x y z a ||| -1", "x y z b ||| -3"]
    lines = [f"{number} ||| {entry}" for number in (0, 1, 2) for entry in ranked]
    found = translated(config, *lines, select="all")
    assert found == [(source, f"x y z {end}") for source in SOURCES for end in "ab"]


def test_all_back_translations_are_sources(config, tmp_path):
    more = write_lines(tmp_path / "more", ["sie liest!"])
    found = translated(config, "she reads\tshe read", sources=str(more), back=True, select="all")
    assert found[3:] == [("<BT> she reads", "sie liest!"), ("<BT> she read", "sie liest!")]


def test_further_sources_come_after_the_problems(config, tmp_path):
    more = write_lines(tmp_path / "more", ["she reads", ""])
    found = translated(config, *TARGETS, "sie liest!", "", sources=str(more))
    assert found == [*zip(SOURCES, TARGETS, strict=True), ("she reads", "sie liest!")]
    assert origin(config)["outputs"]["dropped"]["empty"] == 1


def test_back_translations_are_tagged_and_mixed_with_the_pairs(config, tmp_path):
    more = write_lines(tmp_path / "more", ["sie liest!", "nein danke"])
    found = translated(config, "she reads", "no no no no", sources=str(more), back=True)
    assert found == [*zip(SOURCES, TARGETS, strict=True), ("<BT> she reads", "sie liest!")]
    assert origin(config)["pairs"]["train"] == 4


def test_a_missing_translation_is_an_error_that_names_the_sources(config, tmp_path):
    for lines in (TARGETS[:2], [*TARGETS, "x"]):
        with pytest.raises(DataError, match=rf"of {len(lines)} sources, but there are 3: tra") as e:
            translated(config, *lines)
        assert f"translate {tmp_path}/out.part/sources.txt" in str(e.value)
        assert not (tmp_path / "out").exists()
    assert read_lines(tmp_path / "out.part/sources.txt") == SOURCES


def test_nothing_left_is_an_error(config, tmp_path):
    with pytest.raises(DataError, match="nothing is left to train on: kept 0 of 3"):
        translated(config, "", "", "")
    assert not (tmp_path / "out").exists()


def test_a_complete_folder_is_kept_and_one_of_other_settings_refused(config, tmp_path):
    first = translated(config, *TARGETS)
    contents = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    assert translated(config, *TARGETS) == first
    with pytest.raises(UserError, match=r"out was made from something .* \(select\): remove it"):
        distilled(dataclasses.replace(config, select="nearest"))
    assert {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()} == contents
    assert not list(tmp_path.glob("out.*"))


def test_a_complete_folder_is_known_by_contents_not_by_places(config, tmp_path, monkeypatch):
    first = translated(config, *TARGETS)
    for name in ("raw", "translations"):
        (tmp_path / name).rename(tmp_path / f"moved_{name}")
    (tmp_path / "link").symlink_to(tmp_path)
    monkeypatch.chdir(tmp_path)
    moved = dataclasses.replace(
        config,
        tmp_dir="./moved_raw/",
        translations="link/moved_translations",
        output_problem_dir="link/out/",
    )
    job.run(moved, SEARCH)
    assert translated(config, *TARGETS, tmp_dir="moved_raw") == first


def longer(config, tmp_path):
    write_lines(tmp_path / "raw/inputs.train.txt", ["the cat purrs", *SOURCES[1:]])


def other_dev(config, tmp_path):
    write_lines(tmp_path / "raw/targets.eval.txt", ["Die Katze schläft"])


def other_translations(config, tmp_path):
    path = tmp_path / "translations"
    status = path.stat()
    path.write_bytes(path.read_bytes().replace(b"Hund", b"Hahn"))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def other_sources(config, tmp_path):
    write_lines(tmp_path / "more", ["she writes"])


@pytest.mark.parametrize(
    ("change", "name"),
    [
        (longer, "text"),
        (other_dev, "text"),
        (other_translations, "translations"),
        (other_sources, "text"),
    ],
)
def test_a_complete_folder_of_other_files_is_refused(config, tmp_path, change, name):
    more = write_lines(tmp_path / "more", ["she reads"])
    config = dataclasses.replace(config, sources=str(more))
    first = translated(config, *TARGETS, "sie liest!")
    change(config, tmp_path)
    with pytest.raises(UserError, match=rf"out was made from something .*\({name}\): remove it"):
        distilled(config)
    shutil.rmtree(tmp_path / "out")
    assert distilled(config) != first or change is other_dev


def test_translations_that_change_meanwhile_leave_nothing(config, tmp_path, monkeypatch):
    ratios = job._Distillation._ratios

    def replaced(self):
        other_translations(config, tmp_path)
        return ratios(self)

    with monkeypatch.context() as patch:
        patch.setattr(job._Distillation, "_ratios", replaced)
        with pytest.raises(UserError, match="translations was replaced while this command read"):
            distilled(config)
    assert not (tmp_path / "out").exists()
    assert distilled(config)[1] == (SOURCES[1], TARGETS[1].replace("Hund", "Hahn"))


@pytest.mark.integration
def test_a_teacher_that_is_written_anew_is_another(config, teacher, tmp_path, monkeypatch):
    """Another checkpoint of the same name, such as an average made anew, has other weights."""
    config = dataclasses.replace(config, translations="", teacher=f"{teacher}/7")
    assert distilled(config) == list(zip(SOURCES, SOURCES, strict=True))
    index = pathlib.Path(f"{teacher}/model.ckpt-7.index")
    index.write_bytes(index.read_bytes() + b"x")
    with pytest.raises(UserError, match=r"out was made from something .*\(teacher\): remove it"):
        distilled(config)
    with pytest.raises(UserError, match=r"\(teacher, decode_hparams\): remove it"):
        distilled(config, dataclasses.replace(SEARCH, decode_hparams="extra_length=2,beam_size=3"))


@pytest.mark.integration
def test_a_teachers_search_is_compared_as_it_is_meant(config, teacher):
    config = dataclasses.replace(config, translations="", teacher=teacher)
    first = distilled(config)
    search = dataclasses.replace(SEARCH, decode_hparams=" extra_length=2 , beam_size=2,alpha=0.60")
    renamed = dataclasses.replace(config, teacher=f"{teacher}/model.ckpt-7")
    assert distilled(renamed, search) == first


def test_a_folder_of_other_files_is_refused_before_any_work(config, tmp_path):
    with pytest.raises(UserError, match=r"raw already exists, without origin\.json"):
        distilled(dataclasses.replace(config, output_problem_dir=config.tmp_dir))
    assert not list(tmp_path.glob("raw.*"))


def test_a_teacher_translates_and_a_kill_costs_nothing_decoded(
    config, teacher, tmp_path, monkeypatch
):
    config = dataclasses.replace(config, translations="", teacher=teacher)

    def die(self):
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(job._Distillation, "_ratios", die)
        with pytest.raises(Killed):
            distilled(config)
    assert not (tmp_path / "out").exists()
    with monkeypatch.context() as patch:
        patch.setattr("t2t_lite.decoding.decoder.Decoder.decode_batches", no_batch)
        assert distilled(config) == list(zip(SOURCES, SOURCES, strict=True))
    made = origin(config)
    assert made["settings"]["teacher"] == [f"{teacher}/model.ckpt-7"]
    (found,) = made["origin"]["teacher"]
    assert found["files"] == [files.digest(f"{teacher}/model.ckpt-7.index")]
    assert made["settings"]["decode_hparams"] == (
        "beam_size=2,extra_length=2,return_beams=false,write_beam_scores=false"
    )
    with pytest.raises(UserError, match=r"was made from something .* \(engine\): remove it"):
        distilled(config, dataclasses.replace(SEARCH, engine="ctranslate2"))


def no_batch(self, sources, name, known):
    assert known, "the batches that a killed run finished are known"
    return iter(())


@pytest.mark.parametrize(
    ("changes", "hparams", "message"),
    [
        ({"select": "nearest"}, "beam_size=1", "nearest reads the hypotheses .* raise beam_size"),
        ({"select": "all"}, "beam_size=1", "all reads the hypotheses .* raise beam_size"),
        ({}, "return_beams=true", "leave out return_beams, which --select decides"),
        ({"teacher": "/none"}, "", "/none"),
    ],
)
def test_what_a_teacher_cannot_do(config, teacher, changes, hparams, message):
    config = dataclasses.replace(config, **({"translations": "", "teacher": teacher} | changes))
    with pytest.raises(UserError, match=message):
        job.run(config, dataclasses.replace(SEARCH, decode_hparams=hparams))
    assert not list(pathlib.Path(config.output_problem_dir).parent.glob("out*"))


def test_a_teacher_of_the_other_direction_is_refused(config, tmp_path):
    more = write_lines(tmp_path / "more", TARGETS)
    names = {"problem": "text2text_tmpdir_tokens", "model": "decoder_test_copy"}
    write_lines(tmp_path / "vocab.text2text_tmpdir_tokens.tokens", ["<pad>", "<EOS>", "<UNK>"])
    opened = make_run(tmp_path / "forward", data_dir=tmp_path, **names)
    save_weights(opened.folder, opened.build_model())
    config = dataclasses.replace(
        config,
        problem="text2text_tmpdir_tokens",
        translations="",
        teacher=str(opened.folder),
        sources=str(more),
        back=True,
    )
    with pytest.raises(UsageError, match="--back needs one of the other direction"):
        job.run(config, SEARCH)


@pytest.mark.parametrize("name", ["translations", "sources"])
def test_files_in_the_folder_of_unfinished_work_are_refused(config, tmp_path, name):
    """It is removed at the end."""
    (tmp_path / "out.part").mkdir()
    kept = write_lines(tmp_path / "out.part" / "mine", TARGETS)
    with pytest.raises(UsageError, match=f"--{name}=.*mine is in .*out.part, which .* elsewhere"):
        distilled(dataclasses.replace(config, **{name: str(kept)}))
    assert read_lines(kept) == TARGETS


@pytest.mark.integration
def test_of_a_teachers_hypotheses_the_nearest_is_kept(config, teacher):
    shorter = [source[:-1] for source in SOURCES]  # what the copier likes second best
    write_lines(pathlib.Path(config.tmp_dir) / "targets.train.txt", shorter)
    changes = {"translations": "", "teacher": f"{teacher}/7", "select": "nearest"}
    assert distilled(dataclasses.replace(config, **changes)) == list(
        zip(SOURCES, shorter, strict=True)
    )


def test_all_of_a_teachers_hypotheses_are_kept(config, teacher):
    """The copier's second best is its source without the last character."""
    found = distilled(dataclasses.replace(config, translations="", teacher=teacher, select="all"))
    assert found == [(source, text) for source in SOURCES for text in (source, source[:-1])]


@pytest.mark.integration
@pytest.mark.parametrize("back", [False, True])
def test_the_folders_of_several_workers_joined_are_that_of_one_process(
    config, teacher, tmp_path, back
):
    """File by file; a worker that is started again changes nothing."""
    more = write_lines(tmp_path / "more", [f"line number {number}" for number in range(60)])
    config = dataclasses.replace(
        config, translations="", teacher=teacher, sources=str(more), back=back
    )
    distilled(config)
    for worker in (0, 1, 2, 1):
        job.run(config, dataclasses.replace(SEARCH, decode_shards=3, worker_id=worker))
    whole = {path.name: path.read_text() for path in (tmp_path / "out").glob("*.txt")}
    parts = sorted(tmp_path.glob("out00[0-9]"))
    joined = {
        name: "".join((part / name).read_text() for part in parts if (part / name).exists())
        for name in whole
    }
    assert joined == whole
    assert all((part / "inputs.train.txt").stat().st_size for part in parts)
    assert len(parts) == 3
