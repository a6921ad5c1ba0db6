"""t2t-query-server against a small server that answers as TensorFlow Serving's REST interface."""

import contextlib
import http.server
import io
import json
import threading
import time
import types

import pytest
import tensorflow as tf

from support.commands import exit_code
from support.rounding import relative_bound
from support.terms import log_prob_terms
from t2t_lite.bin.t2t_query_server import main
from t2t_lite.data.text_problems import Text2SelfProblem, VocabType
from t2t_lite.interop.export.query_client import Answer, Client

LINES = ["plain words", "", " \u2003", "日本 \x00 e\u0301", "tab\tand\rreturn"]


def plain(value):
    """Converts a tensor's value to JSON."""
    if isinstance(value, list):
        return [plain(entry) for entry in value]
    return value.decode() if isinstance(value, bytes) else value


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers `:predict` in the columnar format; a model may also be a function of the request."""

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        name = self.path.removeprefix("/v1/models/").removesuffix(":predict")
        model = self.server.models.get(name)
        if model is None:
            return self.answer(404, {"error": f"Servable not found for request: Latest({name})"})
        if isinstance(model, types.FunctionType):
            return self.answer(200, model(body))
        outputs = model(inputs=tf.constant(body["inputs"]["inputs"]))
        found = {name: plain(value.numpy().tolist()) for name, value in outputs.items()}
        return self.answer(200, {"outputs": found})

    def answer(self, status, content):
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        with contextlib.suppress(BrokenPipeError):  # the client has given up
            self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture
def server():
    """A server without models, on a separate port."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.models = {}
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def ask(server, monkeypatch, capsys):
    """Runs the command with lines on standard input; returns exit code, output and errors."""

    def run(*flags, lines=()):
        stdin = io.TextIOWrapper(io.BytesIO("".join(f"{line}\n" for line in lines).encode()))
        monkeypatch.setattr("sys.stdin", stdin)
        code = exit_code(main, f"--server=127.0.0.1:{server.server_port}", *flags)
        return code, *capsys.readouterr()

    return run


@pytest.mark.integration
def test_answers_are_the_decoders(greedy_export, server, ask):
    decoder, folder = greedy_export
    for kind in ("translate", "ids"):
        loaded = tf.saved_model.load(str(folder / kind / "1"))
        server.models[kind] = loaded.signatures["serving_default"]
    found = decoder.decode(decoder.text.encode(LINES))
    code, output, _ = ask("--servable_name=translate", lines=LINES)
    shown = output.split("\n")
    for line, beams in zip(shown, [*found, []], strict=True):
        assert line.split("\t")[:-1] == [beam.output.text for beam in beams]
        steps = 2 * (len(line.encode()) + 4)  # of the encoder and the decoder
        for beam, score in zip(beams, line.split("\t")[1:], strict=True):
            error = abs(beam.score) * relative_bound(
                2 * steps * log_prob_terms(decoder.engine.models[0], steps)
            )
            assert float(score) == pytest.approx(beam.score, abs=0.0005 + error)
    assert code == 0
    vocabulary = f"--problem={decoder.problem.name}", "--data_dir=unused"  # bytes have no file
    assert ask("--servable_name=ids", *vocabulary, lines=LINES)[:2] == (0, output)
    once = ask("--servable_name=translate", f"--inputs_once={LINES[0]}", lines=LINES)
    assert once[:2] == (0, f"{shown[0]}\n")


def test_an_empty_line_is_the_only_one_that_is_sent(server, ask):
    """In a loop of a shell over lines, all others would be read from its standard input."""
    server.models["m"] = lambda body: {"outputs": {"outputs": ["one"], "scores": [-0.5]}}
    found = ask("--servable_name=m", "--inputs_once=", lines=["two", "three"])
    assert found[:2] == (0, ask("--servable_name=m", lines=[""])[1])


def test_all_beams_are_shown(server, ask):
    outputs = {"outputs": [["one", "two"]], "scores": [[-0.5, -1.0]]}
    server.models["m"] = lambda body: {"outputs": outputs}
    assert ask("--servable_name=m", lines=["a"])[1] == "one\t-0.500\ttwo\t-1.000\n"


class Prompts(Text2SelfProblem):
    vocab_type = VocabType.CHARACTER

    def generate_samples(self, data_dir, tmp_dir, dataset_split):
        return []


@pytest.mark.parametrize(("prompt", "ids"), [("a", [99]), (" ", [0]), ("", [0])])
def test_an_empty_prompt_has_an_answer_too(server, prompt, ids):
    """A source of no ids would not be a row."""
    sent = []

    def model(body):
        sent.append(body["inputs"]["inputs"])
        return {"outputs": {"outputs": [[100]], "scores": [-1.0]}}

    server.models["m"] = model
    client = Client(f"127.0.0.1:{server.server_port}", "m", 5, Prompts())
    assert client.ask(prompt) == [Answer("b", -1.0)]
    assert sent == [[ids]]


@pytest.mark.integration
@pytest.mark.parametrize(
    ("model", "message"),
    [
        (lambda body: "nonsense", "answered b'\"nonsense\"', which no model of t2t-exporter would"),
        (lambda body: {"outputs": {"outputs": []}}, "which no model of t2t-exporter would"),
        (lambda body: time.sleep(1.5), "did not answer within 1 s: raise --timeout_secs"),
        (None, 'refused: 404 Not Found: b\'{"error": "Servable not found'),
    ],
)
def test_what_can_go_wrong_is_one_line(server, ask, model, message):
    server.models["m"] = model
    code, output, error = ask("--servable_name=m", "--timeout_secs=1", "--inputs_once=a")
    assert (code, output) == (1, "")
    assert message in error
    assert error.count("\n") == 1


ODD_ANSWERS = [
    {"outputs": ["a"], "scores": [None]},
    {"outputs": ["a"], "scores": ["a"]},
    {"outputs": ["a"], "scores": [True]},
    {"outputs": ["a"], "scores": [10**400]},
    {"outputs": [["a", "b"]], "scores": [[-1.0]]},
    {"outputs": ["ab"], "scores": [[-1.0, -2.0]]},
    {"outputs": [["a"]], "scores": [[None]]},
    {"outputs": [1], "scores": [-1.0]},
    {"outputs": ["\ud800"], "scores": [-1.0]},
]


@pytest.mark.integration
@pytest.mark.parametrize("outputs", ODD_ANSWERS, ids=json.dumps)
def test_odd_answers_are_one_line(server, ask, outputs):
    server.models["m"] = lambda body: {"outputs": outputs}
    code, output, error = ask("--servable_name=m", "--inputs_once=a")
    assert (code, output) == (1, "")
    assert "which no model of t2t-exporter would" in error
    assert error.count("\n") == 1


@pytest.mark.integration
@pytest.mark.parametrize("ids", [1, "a", ["a"], [None], [1.5]])
def test_odd_ids_are_one_line(server, ask, ids):
    server.models["m"] = lambda body: {"outputs": {"outputs": [ids], "scores": [-1.0]}}
    vocabulary = "--problem=algorithmic_reverse_binary40", "--data_dir=unused"
    code, _, error = ask("--servable_name=m", *vocabulary, "--inputs_once=1")
    assert code == 1
    assert "which no model of t2t-exporter would" in error


def test_an_answer_without_end_is_not_read(server, ask, monkeypatch):
    monkeypatch.setattr("t2t_lite.interop.export.query_client._MAX_ANSWER", 1 << 20)
    server.models["m"] = lambda body: "x" * (1 << 20)
    code, _, error = ask("--servable_name=m", "--inputs_once=a")
    assert code == 1
    assert "answered with more than 1 MiB" in error
    assert error.count("\n") == 1


@pytest.mark.parametrize("address", ["127.0.0.1:1", "http://[::1", "localhost:port"])
def test_no_server(ask, address):
    code, _, error = ask(f"--server={address}", "--servable_name=m", "--inputs_once=a")
    assert code == 1
    assert f"{address}/v1/models/m:predict cannot be reached" in error
    assert error.count("\n") == 1


def test_missing_flags(ask):
    assert "--servable_name is missing" in ask()[2]
    code, _, error = ask("--servable_name=m", "--problem=wsj_parsing")
    assert code == 2
    assert "--data_dir is missing" in error
