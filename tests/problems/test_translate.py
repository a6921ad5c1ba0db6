"""T2T's translation problems match their names; the archives built here have upstream's layout."""

import gzip
import pathlib
from collections.abc import Mapping, Sequence

import pytest

from support import small_runs
from support.archives import write_archive
from support.commands import printed_by
from support.texts import decoded_pairs, pairs_of
from t2t_lite import registry
from t2t_lite.bin import t2t_bleu
from t2t_lite.data.generation.config import DatagenOptions
from t2t_lite.data.generation.generator import generate_data
from t2t_lite.data.problem import Problem
from t2t_lite.decoding import jobs
from t2t_lite.decoding.config import DecoderConfig
from t2t_lite.errors import UserError
from t2t_lite.training import trainer

Member = str
CZENG = "data.plaintext-format"
NEWS_ZH = "training-parallel-nc-v13/news-commentary-v13.zh-en"
CWMT = [
    ("cwmt/casia2015/casia2015_en.txt", "cwmt/casia2015/casia2015_ch.txt"),
    ("cwmt/casict2015/casict2015_en.txt", "cwmt/casict2015/casict2015_ch.txt"),
    ("cwmt/neu2017/NEU_en.txt", "cwmt/neu2017/NEU_cn.txt"),
    ("cwmt/datum2015/datum_en.txt", "cwmt/datum2015/datum_ch.txt"),
    *((f"cwmt/datum2017/Book{i}_en.txt", f"cwmt/datum2017/Book{i}_cn.txt") for i in range(1, 21)),
]
UN = ("en-zh/UNv1.0.en-zh.en", "en-zh/UNv1.0.en-zh.zh")
ENZH = {
    "train": {"training-parallel-nc-v13.tgz": [(f"{NEWS_ZH}.en", f"{NEWS_ZH}.zh")]},
    "eval": {"dev.tgz": [("dev/newsdev2017-enzh-src.en.sgm", "dev/newsdev2017-enzh-ref.zh.sgm")]},
    "test": {
        "wmt17-test.tgz": [
            ("test/newstest2017-enzh-src.en.sgm", "test/newstest2017-enzh-ref.zh.sgm")
        ]
    },
}
PARACRAWL = "paracrawl-release1.en-{}.zipporah0-dedup-clean"
PANL = ("ECO", "150Kw"), ("INT", "150Kw"), ("SCI", "100Kw"), ("SPO", "100Kw")


def both(stem: str, language: str) -> list[tuple[Member, Member]]:
    return [(f"{stem}.en", f"{stem}.{language}")]


# Archives and pairs of members of each split, by the languages: T2T's, and our test splits.
UPSTREAM: Mapping[str, Mapping[str, Mapping[str, Sequence[tuple[Member, Member]]]]] = {
    "enzh": ENZH,
    "encs": {
        "train": {
            "data-plaintext-format.tar": [(f"{CZENG}/00train.gz", f"{CZENG}/01train.gz")],
            "training-parallel-nc-v13.tgz": both(
                "training-parallel-nc-v13/news-commentary-v13.cs-en", "cs"
            ),
            "training-parallel-commoncrawl.tgz": both("commoncrawl.cs-en", "cs"),
            "training-parallel-europarl-v7.tgz": both("training/europarl-v7.cs-en", "cs"),
        },
        "eval": {"dev.tgz": both("dev/newstest2013", "cs")},
        "test": {
            "test-full.tgz": [
                ("test-full/newstest2014-csen-src.en.sgm", "test-full/newstest2014-csen-ref.cs.sgm")
            ]
        },
    },
    "enro": {
        "train": {
            "ro-en.tgz": both("europarl-v7.ro-en", "ro"),
            "en-ro.txt.zip": both("SETIMES.en-ro", "ro"),
        },
        "eval": {
            "dev-romanian-updated.tgz": [
                ("dev/newsdev2016-roen-ref.en.sgm", "dev/newsdev2016-roen-src.ro.sgm")
            ]
        },
        "test": {
            "wmt16-test.tgz": [
                ("test/newstest2016-enro-src.en.sgm", "test/newstest2016-enro-ref.ro.sgm")
            ]
        },
    },
    "enes": {
        "train": {
            "training-parallel-commoncrawl.tgz": both("commoncrawl.es-en", "es"),
            "training-parallel-europarl-v7.tgz": both("training/europarl-v7.es-en", "es"),
            "training-parallel-un.tgz": both("un/undoc.2000.es-en", "es"),
            f"{PARACRAWL.format('es')}.tgz": both(PARACRAWL.format("es"), "es"),
        },
        "eval": {"dev.tgz": both("dev/newstest2013", "es")},
        "test": {
            "wmt12-test.tgz": [("test/newstest2012-src.en.sgm", "test/newstest2012-src.es.sgm")]
        },
    },
    "enet": {
        "train": {
            "training-parallel-ep-v8.tgz": both("training/europarl-v8.et-en", "et"),
            f"{PARACRAWL.format('et')}.tgz": both(PARACRAWL.format("et"), "et"),
            "rapid2016.tgz": both("rapid2016.en-et", "et"),
        },
        "eval": {
            "newsdev2018-enet.tar.gz": [("newsdev2018-enet-src.en", "newsdev2018-enet-ref.et")]
        },
        "test": {
            "wmt18-test.tgz": [
                ("test/newstest2018-enet-src.en.sgm", "test/newstest2018-enet-ref.et.sgm")
            ]
        },
    },
    "enid": {
        "train": {
            "IWSLT17.train.en-id.tgz": both("IWSLT17.train.en-id", "id"),
            **{
                f"PANL-BPPT-{topic}-EN-ID-{words}.tgz": [
                    (f"PANL-BPPT-{topic}-EN-{words}.txt", f"PANL-BPPT-{topic}-ID-{words}.txt")
                ]
                for topic, words in PANL
            },
        },
        "eval": {"IWSLT17.TED.tst2017plus.en-id.tgz": both("IWSLT17.TED.tst2017plus.en-id", "id")},
        "test": {"IWSLT17.TED.tst2015-16.en-id.tgz": both("IWSLT17.TED.tst2015-16.en-id", "id")},
    },
    "envi": {
        "train": {"train-en-vi.tgz": both("train", "vi")},
        "eval": {"dev-2012-en-vi.tgz": both("tst2012", "vi")},
        "test": {"test-2013-en-vi.tgz": both("tst2013", "vi")},
    },
    "enmk": {
        "train": {"setimes.en-mk.txt.tgz": [("setimes.en-mk.en.txt", "setimes.en-mk.mk.txt")]},
        "eval": {"MTE-1984-dev.enmk.tgz": both("MTE1984-dev", "mk")},
        "test": {"MTE-1984-test.enmk.tgz": both("MTE1984-test", "mk")},
    },
    "entn": {
        "train": {"eng_tswane.train.tar.gz": both("entn_parallel.train", "tn")},
        "eval": {"eng_tswane.dev.tar.gz": both("entn_parallel.dev", "tn")},
    },
}
# T2T's name: the number of training files and the vocabularies.
MEANINGS = {
    "translate_enzh_wmt32k": (100, ["32768.subwords.en", "32768.subwords.zh"]),
    "translate_enzh_wmt8k": (10, ["8192.subwords.en", "8192.subwords.zh"]),
    "translate_encs_wmt32k": (100, ["32768.subwords"]),
    "translate_encs_wmt_characters": (100, []),
    "translate_enro_wmt8k": (100, ["8192.subwords"]),
    "translate_enro_wmt32k": (100, ["32768.subwords"]),
    "translate_enro_wmt_characters": (100, []),
    "translate_enes_wmt32k": (100, ["32768.subwords"]),
    "translate_enes_wmt8k": (100, ["8192.subwords"]),
    "translate_enes_wmt_characters": (100, []),
    "translate_enet_wmt32k": (100, ["32768.subwords"]),
    "translate_enet_wmt_characters": (100, []),
    "translate_enid_iwslt32k": (100, ["32768.subwords"]),
    "translate_envi_iwslt32k": (100, ["32768.subwords"]),
    "translate_enmk_setimes32k": (100, ["32768.subwords"]),
    "translate_enmk_setimes_characters": (100, []),
    "translate_entn_rma": (100, ["vocab.entn.32768"]),
}
ENGLISH = [
    "The weather is fine today.",
    "We are reading a book.",
    "Two dogs run & play in the park.",
]
FOREIGN = ["今天天气很好。", "我们在看一本书。", "两只狗在公园里跑来跑去。"]


def contents_of(member: Member, lines: Sequence[str]) -> bytes:
    if member.endswith(".sgm"):
        lines = [f'<seg id="1">{line.replace("&", "&amp;")}</seg>' for line in lines]
    return "".join(f"{line}\n" for line in lines).encode()


def contents(pairs: Sequence[tuple[Member, Member]], named: bool) -> dict[str, bytes]:
    """Members whose lines say where they come from, if `named`."""
    found = {}
    for pair in pairs:
        end = f" {pair[0]}" if named else ""
        sources, targets = ([line + end for line in side] for side in (ENGLISH, FOREIGN))
        if CZENG in pair[0]:  # tables, the first half of the pairs in one, the rest in the other
            rows = [f"id\t0.9\t{line}\t{sources[i]}\tx" for i, line in enumerate(targets)]
            halves = (rows[:1], rows[1:])
            found |= {
                m: gzip.compress(contents_of("", h)) for m, h in zip(pair, halves, strict=True)
            }
        else:
            found |= {m: contents_of(m, x) for m, x in zip(pair, (sources, targets), strict=True)}
    return found


def pack(
    folder: pathlib.Path,
    archives: Mapping[str, Sequence[tuple[Member, Member]]],
    named: bool = True,
) -> None:
    """Writes archives with upstream's names and members."""
    for name, pairs in archives.items():
        write_archive(folder / name, {"README": b"\xff", **contents(pairs, named)})


def expected_pairs(members: Sequence[tuple[Member, Member]]) -> list[tuple[str, str]]:
    return [
        (f"{source} {pair[0]}", f"{target} {pair[0]}")
        for pair in members
        for source, target in zip(ENGLISH, FOREIGN, strict=True)
    ]


@pytest.mark.parametrize("name", MEANINGS)
def test_a_name_keeps_its_meaning(name):
    shards, vocabularies = MEANINGS[name]
    problem = registry.problem(name)
    upstream = UPSTREAM[name.split("_")[1]]
    assert {entry["split"]: entry["shards"] for entry in problem.dataset_splits} == {
        split: shards if split == "train" else 1 for split in upstream
    }
    assert problem.vocab_files() == [
        end if end.startswith("vocab.") else f"vocab.{name}.{end}" for end in vocabularies
    ]
    assert registry.problem(f"{name}_rev").vocab_files() == problem.vocab_files()


def test_every_problem_is_pinned():
    languages = tuple(f"translate_{pair}_" for pair in UPSTREAM)
    names = {n for n in registry.list_problems() if n.startswith(languages)}
    assert {name for name in names if "_libreoffice" not in name} == MEANINGS.keys()


@pytest.mark.parametrize("name", MEANINGS)
def test_pairs_come_from_upstreams_members_in_order(name, tmp_path):
    problem = registry.problem(name)
    for split, archives in UPSTREAM[name.split("_")[1]].items():
        pack(tmp_path, archives)
        found = pairs_of(problem.generate_samples("", str(tmp_path), split))
        assert found == expected_pairs([pair for pairs in archives.values() for pair in pairs])
        named = problem.source_files(str(tmp_path), split)
        assert [path.name for path in named] == list(archives)


def test_corpora_that_need_registration_are_used_if_they_are_there(tmp_path):
    pack(tmp_path, ENZH["train"])

    def training(problem: Problem) -> list[tuple[str, str]]:
        return pairs_of(problem.generate_samples("", str(tmp_path), "train"))

    large, small = (registry.problem(f"translate_enzh_wmt{size}") for size in ("32k", "8k"))
    assert len(training(large)) == 3
    pack(tmp_path, {"UNv1.0.en-zh.tar.gz": [UN]})
    news = ENZH["train"]["training-parallel-nc-v13.tgz"]
    assert training(large) == expected_pairs([*news, UN])
    pack(tmp_path, {"cwmt.tgz": CWMT})
    assert training(large) == expected_pairs([*news, *CWMT, UN])
    assert training(small) == expected_pairs(news)
    assert len(large.fetch_sources(str(tmp_path), "train")) == 3


def test_data_is_refused_once_a_corpus_is_added(tmp_path, monkeypatch):
    problem = registry.problem("translate_enzh_wmt32k")
    monkeypatch.setattr(type(problem), "train_shards", 1)
    raw, data = tmp_path / "raw", tmp_path / "data"
    raw.mkdir()
    pack(raw, {name: pairs for split in ENZH.values() for name, pairs in split.items()})
    generate_data(problem, str(data), str(raw), DatagenOptions(num_workers=1))
    pack(raw, {"UNv1.0.en-zh.tar.gz": [UN]})
    with pytest.raises(UserError, match=r"UNv1\.0\.en-zh\.tar\.gz"):
        generate_data(problem, str(data), str(raw), DatagenOptions(num_workers=1))


def test_chinese_is_scored_by_its_characters():
    expected = {"": "bleu_zh", "_rev": "bleu", "_copy": "bleu", "_rev_copy": "bleu_zh"}
    for suffix, metric in expected.items():
        assert registry.problem(f"translate_enzh_wmt8k{suffix}").metrics == (metric,)


@pytest.fixture(scope="module")
def chinese_data(tmp_path_factory) -> pathlib.Path:
    """Generated data of `translate_enzh_wmt8k`, whose vocabularies are of a few sentences."""
    raw, data = tmp_path_factory.mktemp("raw"), tmp_path_factory.mktemp("data")
    pack(
        raw, {name: pairs for split in ENZH.values() for name, pairs in split.items()}, named=False
    )
    problem = registry.problem("translate_enzh_wmt8k")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(problem), "train_shards", 1)
        generate_data(problem, str(data), str(raw), DatagenOptions(num_workers=1))
        yield data


def test_each_side_has_its_own_vocabulary(chinese_data):
    problem = registry.problem("translate_enzh_wmt8k")
    sources, targets = ((chinese_data / name).read_text("utf-8") for name in problem.vocab_files())
    assert ("天" in targets, "天" in sources) == (True, False)
    found = decoded_pairs(problem, chinese_data, "eval")
    assert found == list(zip(ENGLISH, FOREIGN, strict=True))
    encoders = problem.get_feature_encoders(str(chinese_data))
    other = registry.problem("translate_enzh_wmt8k_rev").get_feature_encoders(str(chinese_data))
    assert other["targets"].decode(other["targets"].encode(ENGLISH[0])) == ENGLISH[0]
    assert other["inputs"].vocab_size == encoders["targets"].vocab_size


@pytest.mark.integration
def test_english_to_chinese_from_archives_to_scored_output(chinese_data, eagerly, tmp_path, capsys):
    run = tmp_path / "run"
    config = small_runs.make_config(
        chinese_data, run, problem="translate_enzh_wmt8k", train_steps=2
    )
    trainer.run(config)
    signature = "nrefs:1|case:mixed|eff:no|tok:zh|smooth:exp|version:"
    assert signature in (run / "metrics.jsonl").read_text("utf-8")
    source, output = tmp_path / "in.en", tmp_path / "out.zh"
    source.write_text("We are reading a book.\n", "utf-8")
    reference = tmp_path / "ref.zh"
    reference.write_text("我们在看一本书。\n", "utf-8")
    capsys.readouterr()
    jobs.run(
        DecoderConfig(
            output_dir=str(run),
            decode_from_file=str(source),
            decode_to_file=str(output),
            decode_reference=str(reference),
            decode_hparams="beam_size=1,extra_length=2",
            worker_gpu=0,
        )
    )
    assert len(output.read_text("utf-8").splitlines()) == 1
    assert signature in capsys.readouterr().out
    flags = f"--translation={reference}", f"--reference={reference}", "--metrics=bleu_zh"
    printed = printed_by(t2t_bleu.main, *flags)
    assert "BLEU_zh_cased = 100.00" in printed
    assert signature in printed
