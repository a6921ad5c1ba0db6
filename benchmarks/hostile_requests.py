"""What `hostile.py` damages: requests with terms and markup, which `t2t-serve` answers.

All but the model is at work: in its place, an engine copies, repeats and drops what it reads, and
makes attention up.
"""

import json
import pathlib
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from hostile_damage import damage_file
from hostile_readers import Reader
from starlette.exceptions import HTTPException

from t2t_lite.data.text_problems import Text2TextProblem
from t2t_lite.decoding.config import TENSORFLOW
from t2t_lite.decoding.decoder import Decoder
from t2t_lite.decoding.engine import Engine, Target, Worker
from t2t_lite.decoding.hypotheses import Source
from t2t_lite.decoding.long_lines import with_plain_breaks
from t2t_lite.decoding.term_guide import TermGuide
from t2t_lite.hparams.transformer import TransformerHParams
from t2t_lite.search.decode_hparams import DecodeHParams
from t2t_lite.serving.bodies import fields_of_json
from t2t_lite.serving.config import ServerConfig
from t2t_lite.serving.prometheus import ServerMetrics
from t2t_lite.serving.request_translator import RequestTranslator
from t2t_lite.serving.requests import checked
from t2t_lite.serving.worker import Answers
from t2t_lite.text.marks import PLACEHOLDERS
from t2t_lite.text.source_form import has_text
from t2t_lite.text.text_encoder import EOS_ID, ByteTextEncoder, TextEncoder, VocabType

BEAMS = 4
_MOST_SECONDS = 1.0  # of a processor, for what is done around decoding

# Markup, terms and characters that are hard to read, or to put back.
_PIECES = (
    *("<b>", "</b>", "<b>a</b>", "<i><b>", "</i>", "<br>", "<br/>", "<x ", "<a b='c'>", "<!--"),
    *("-->", "<![CDATA[", "]]>", "<?", "?>", "<script>", "</script>", "<code>x</code>", "</>", "<"),
    *("&amp;", "&#0;", "&#1;", "&#x110000;", "&nbsp;", "&", "&#", "&x;", "<p translate=no>a</p>"),
    *("{", "}", "{a}", "{{a}}", "{a, plural, other {#}}", "%", "%s", "%1$s", "%(a)s", "$[a]", "`"),
    *("http://a.b/c", "a@b.c", "/a/b.c", "😀", "\u200d", "\ufe0f", "🇦", "#️⃣", PLACEHOLDERS[0]),
    *(
        "a ",
        "a b ",
        "cat ",
        "dog",
        "é",
        "e\u0301",
        "日本",
        "ไทย",
        "\n",
        "\r\n",
        "\0",
        "\u2028",
        ".",
    ),
    *(
        "\u200b",
        "\u00ad",
        "\ufeff",
        "\x02",
        "\x03",
        ">>de<<",
        "\u3000",
        "ﬁ",
        "-",
        "'",
        '"',
        "İ",
        "ß",
    ),
)
_FIELDS: Mapping[str, Sequence[Any]] = {
    "markup": ("html", "xml", "placeholders", "", "tex"),
    "n_best": (1, 2, BEAMS, BEAMS + 1),
    "attention": (True, False),
    "forbid": ([], ["cat"], ["a", "Dog", "a b"], ["x" * 200] * 21),
    "terms": ({}, {"cat": "Katze"}, {"cat": ["Kater", "Katze"], "dog": "Hund"}, {"a": "x" * 201}),
}


class CopyingEngine(Engine, Worker):
    """What stands in for a model of bytes.

    Args:
        hparams: search settings.
        max_input_size: the ids that it reads; 0: no limit.
    """

    kind = TENSORFLOW  # no other engine searches with terms
    encoders: Mapping[str, TextEncoder] = {
        "inputs": ByteTextEncoder(),
        "targets": ByteTextEncoder(),
    }
    learned_positions = 0
    has_source_attention = True
    model_hparams = TransformerHParams().copy(markup_augmentation=0.5)

    def __init__(self, hparams: DecodeHParams, max_input_size: int = 0) -> None:
        self.hparams = hparams
        self.max_input_size = max_input_size
        self._guide = TermGuide(
            self.encoders, hparams, lambda *_: None, lambda _, sources, *__: self._copies(sources)
        )

    def returning_beams(self, return_beams: bool) -> "CopyingEngine":
        """Returns the same with another setting."""
        return CopyingEngine(self.hparams.copy(return_beams=return_beams), self.max_input_size)

    def map(self, work: Callable[..., Any], batches: Sequence[Any]) -> Iterator[tuple[int, Any]]:
        """Works on all batches in turn."""
        return enumerate(work(self, batch) for batch in batches)

    def search(self, sources: Sequence[Source], limits: Sequence[int]) -> list[list[Target]]:
        """Returns copies, the first of which may lack terms."""
        return self._guide.guided(sources, limits, self._copies(sources))

    def details(self, targets: Sequence[Target]) -> list[tuple[np.ndarray, np.ndarray | None]]:
        """Returns attention that may be to anything."""
        return [self._details(target) for target in targets]

    def _copies(self, sources: Sequence[Source]) -> list[list[Target]]:
        return [
            [Target(s, _changed(s.ids, rank), -float(rank)) for rank in range(BEAMS)]
            for s in sources
        ]

    def _details(self, target: Target) -> tuple[np.ndarray, np.ndarray]:
        shape = len(target.ids), len(target.source.ids)
        attention = np.random.default_rng(shape).random(shape, np.float32)
        if shape[0] % 3:
            attention = attention**8 + np.eye(*shape, dtype=np.float32)
        return np.zeros(shape[0]), attention


def _changed(ids: Sequence[int], rank: int) -> list[int]:
    """Returns a copy of ids, in which others than the best repeat, drop or turn what was there."""
    *body, _ = ids
    half = len(body) // 2
    changed = (body, body[half:] + body[:half], body[:half] * 2, body[::-1])
    return [*changed[rank], EOS_ID]


class _Bytes(Text2TextProblem):
    """Text in bytes."""

    name = "text2text_bytes"
    vocab_type = VocabType.CHARACTER

    def generate_samples(self, data_dir: str, tmp_dir: str, dataset_split: str) -> Any:
        """It has none."""
        raise NotImplementedError


def translator(max_input_size: int = 0) -> RequestTranslator:
    """Returns what answers requests around an engine that copies."""
    engine = CopyingEngine(DecodeHParams(beam_size=BEAMS), max_input_size)
    return RequestTranslator(Decoder(engine, _Bytes()), ServerMetrics(), ServerConfig())


def _collecting(answers: Answers, found: list[bytes | HTTPException]) -> Iterator[None]:
    """Pauses between slices; at its end, the answers are in the list."""
    found += yield from answers


def read(folder: pathlib.Path) -> None:
    """Answers the requests of a folder; each answer has the markup of its text."""
    limits = ServerConfig()
    for size in (0, 40):
        answer = translator(size)
        for path in sorted(folder.iterdir()):
            request = checked(fields_of_json("", path.read_bytes(), limits), limits)
            began = time.thread_time()
            bodies: list[bytes | HTTPException] = []
            for _ in _collecting(answer([request]), bodies):
                pass
            (body,) = bodies
            taken = time.thread_time() - began
            assert taken < _MOST_SECONDS, f"took {taken:.2f} s"
            if isinstance(body, HTTPException):
                assert body.status_code < 500, body.detail
                raise body
            found = json.loads(body)
            lines = [found] if request.is_single else found["translations"]
            texts = [with_plain_breaks(text).strip() for text in request.texts]
            for line, text in zip(lines, texts, strict=True):
                assert line["source"] == text or not has_text(line["source"] + text)


def _text(draw: random.Random) -> str:
    """Returns a text of hard pieces, a few of them or one of them often."""
    if draw.random() < 0.3:
        often = draw.choice(_PIECES) + draw.choice(("", "a", *_PIECES))
        return ("a" + often * draw.choice((10, 300, 5000)))[: draw.choice((100, 1000, 10_000))]
    return "".join(draw.choices(_PIECES, k=draw.choice((1, 3, 10, 60))))


def damage_request(path: pathlib.Path, draw: random.Random) -> None:
    """Gives a request other texts, terms and settings; or damages its JSON."""
    if draw.random() < 0.2:
        damage_file(path, draw)
        return
    fields: dict[str, Any] = json.loads(path.read_text())
    texts = [_text(draw) for _ in range(draw.choice((1, 2, 5, 128)))]
    fields |= {"texts": texts} if "texts" in fields else {"text": texts[0]}
    for name, values in _FIELDS.items():
        if draw.random() < 0.4:
            fields[name] = draw.choice(values)
    if draw.random() < 0.3:
        words = [_text(draw)[: draw.choice((3, 20, 201))] for _ in range(draw.choice((1, 9, 100)))]
        fields["terms"] = {word: draw.choices(words, k=draw.choice((1, 3))) for word in words}
        fields["forbid"] = words[: draw.randrange(20)]
    path.write_text(json.dumps(fields))


def write(folder: pathlib.Path) -> None:
    """Writes a valid request."""
    request = {
        "texts": ["A <b>cat</b> sleeps.", "Two {n} dogs &amp; a <i>cat</i>"],
        "markup": "html",
        "n_best": 2,
        "terms": {"cat": ["Katze", "Kater"], "dogs": "Hunde"},
        "forbid": ["Katzen"],
    }
    folder.joinpath("request.json").write_text(json.dumps(request))


READERS = {"requests: markup and terms": Reader(write, read, share=3.0, damage=damage_request)}
