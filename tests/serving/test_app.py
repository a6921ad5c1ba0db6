"""The server over real HTTP, around an echo: limits, errors, metrics, and nothing lost."""

import json
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from html.parser import HTMLParser

import pytest

from support.servers import serve, without_pause
from t2t_lite.text.languages import Choice

HOSTILE = ["", " ", "\x00", "a\nb\r\tc", "日本語 😀", "\ufffe\U0010ffff", "<script>", "x" * 10_000]


def test_answers_are_json_of_the_request():
    with serve() as server:
        for text in HOSTILE:
            assert server.translate(text=text) == (200, {"texts": [text]})
        assert server.translate(texts=HOSTILE) == (200, {"texts": HOSTILE})
        assert server.translate(texts=[]) == (200, {"texts": []})


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        (b"", 400, "the body is not JSON: "),
        (b"{'text': 'a'}", 400, "the body is not JSON: "),
        (b"\xff\xfe\x00", 400, "the body is not JSON: "),
        (b"[" * 100_000, 400, "the body is not JSON: "),
        (b'"text"', 422, 'expected an object such as {"text": "..."}'),
        (b"{}", 422, 'expected either "text" or "texts"'),
        (b'{"text": "a", "texts": ["a"]}', 422, 'expected either "text" or "texts"'),
        (b'{"txt": "a"}', 422, "unknown field 'txt'; did you mean 'text'?"),
        (b'{"text": 1}', 422, "text is not a string"),
        (b'{"text": null}', 422, "text is not a string"),
        (b'{"texts": "a"}', 422, '"texts" must be a list of strings'),
        (b'{"texts": ["a", ["b"]]}', 422, "text 2 is not a string"),
        (
            b'{"text": "\\ud800"}',
            422,
            "text holds the lone surrogate U+D800, which is not a character",
        ),
        (b'{"text": "a", "n_best": 0}', 422, '"n_best" must be a whole number of at least 1'),
        (b'{"text": "a", "n_best": true}', 422, '"n_best" must be a whole number of at least 1'),
        (b'{"text": "a", "n_best": 1.0}', 422, '"n_best" must be a whole number of at least 1'),
        (b'{"text": "a", "attention": 1}', 422, '"attention" must be true or false'),
        (b'{"text": "xxxxxx"}', 413, "text has 6 characters: at most 5 are allowed"),
        (b'{"texts": ["", "xxxxxx"]}', 413, "text 2 has 6 characters: at most 5 are allowed"),
        (b'{"texts": ["", "", "", ""]}', 413, "4 texts: at most 3 are allowed"),
        (b" " * 200_001, 413, "the body is too long: at most 200000 bytes are allowed"),
        (b" " * 5_000_000, 413, "the body is too long: at most 200000 bytes are allowed"),
    ],
)
def test_errors_are_one_line(limited, body, status, message):
    answer = limited.ask("POST", "/translate", body)
    (error,) = json.loads(answer.content).values()
    assert (answer.status, error[: len(message)]) == (status, message)
    assert "\n" not in error
    assert limited.translate(text="a") == (200, {"texts": ["a"]}), "and it goes on"


@pytest.fixture(scope="module")
def limited():
    with serve(max_texts=3, max_text_length=5, max_body_size=200_000) as server:
        yield server


def test_other_paths_and_methods_are_errors_in_json():
    with serve() as server:
        for method, path, status in (("GET", "/translate", 405), ("GET", "/passwd", 404)):
            answer = server.ask(method, path)
            assert answer.status == status
            assert list(json.loads(answer.content)) == ["error"]


def test_a_large_body_that_nobody_reads_is_no_obstacle_to_the_answer():
    with serve() as server:
        for method, path, status in (("GET", "/health", 200), ("POST", "/nothing", 404)):
            assert server.ask(method, path, b" " * 5_000_000).status == status


def test_what_waits_is_answered_together_and_a_full_queue_is_429(gate):
    with serve(gate, queue_size=3) as server, ThreadPoolExecutor(4) as clients:
        first = clients.submit(server.translate, text="0")
        gate.wait_for_batch()
        others = [clients.submit(server.translate, text=str(i)) for i in (1, 2, 3)]
        server.wait_for("t2t_queue_length", 3)
        answer = server.ask("POST", "/translate", b'{"text": "late"}')
        assert answer.status == 429
        assert int(answer.headers["Retry-After"]) >= 1
        assert "3 requests are waiting" in json.loads(answer.content)["error"]
        wrong = server.ask("POST", "/translate", b"no JSON, and too long" * 100_000)
        assert wrong.status == 429, "nothing is done for those who must come again"
        gate.opened.set()
        for i, future in enumerate([first, *others]):
            assert future.result() == (200, {"texts": [str(i)]})
        assert [sorted(batch) for batch in gate.batches] == [["0"], ["1", "2", "3"]]
        assert server.metric('t2t_requests_total{code="200"}') == 4
        assert server.metric('t2t_requests_total{code="429"}') == 2
        assert server.metric("t2t_request_seconds_count") == 6
        assert server.metric("t2t_queue_length") == 0


def test_batches_have_a_budget(gate):
    with serve(gate) as server, ThreadPoolExecutor(6) as clients:
        first = clients.submit(server.translate, text="0")
        gate.wait_for_batch()
        long = [clients.submit(server.translate, text=str(i) * 8000) for i in range(1, 6)]
        server.wait_for("t2t_queue_length", 5)
        gate.opened.set()
        assert all(future.result()[0] == 200 for future in [first, *long])
    assert [len(batch) for batch in gate.batches] == [1, 2, 2, 1]


@pytest.mark.integration
def test_a_request_that_takes_too_long_is_504_and_its_turn_is_passed_over(gate):
    with serve(gate, timeout=1.5) as server, ThreadPoolExecutor(2) as clients:
        first = clients.submit(server.translate, text="first")
        gate.wait_for_batch()
        second = clients.submit(server.translate, text="second")
        for future in (first, second):
            assert future.result() == (504, {"error": "no answer within 1.5 seconds"})
        gate.opened.set()
        assert server.translate(text="third") == (200, {"texts": ["third"]})
        assert gate.batches == [["first"], ["third"]]


def test_a_defect_is_500_and_the_server_continues():
    @without_pause
    def fail_once(requests):
        if requests[0].texts == ["bad"]:
            raise ValueError("a defect")
        return [b"{}"] * len(requests)

    with serve(fail_once) as server:
        status, answer = server.translate(text="bad")
        assert (status, answer) == (500, {"error": "the translation failed: see the server's log"})
        assert server.translate(text="good") == (200, {})


@pytest.mark.parametrize("host", ["[", "a]b", "a#b", "a?text=x&"])
def test_fields_in_the_address_are_read_as_they_came(host):
    """The address that Starlette builds ends at a #, and begins with what the client calls us."""
    with serve(host="0.0.0.0") as server:
        headers = {"Host": host, "Content-Type": "application/x-www-form-urlencoded"}
        sent = server.ask("POST", "/translate?text=C#%20is%20a%23language", **headers)
        assert json.loads(sent.content) == {"texts": ["C# is a#language"]}


def test_a_request_to_change_the_protocol_is_answered_without_a_warning(caplog):
    with serve() as server:
        upgrade = {"Connection": "Upgrade, HTTP2-Settings", "Upgrade": "h2c"}
        assert server.ask("GET", "/health", **upgrade).status == 200
    assert "WebSocket" not in caplog.text
    assert "upgrade" not in caplog.text


@without_pause
def slow_echo(requests):
    time.sleep(0.05)
    return [json.dumps({"texts": request.texts}).encode() for request in requests]


def crowd(server, seconds: float) -> Counter[int]:
    """Runs 50 clients, every tenth request of which is too large; counts answers by status."""

    def client(number: int) -> Counter[int]:
        end, statuses = time.monotonic() + seconds, Counter()
        while time.monotonic() < end:
            is_too_long = (number + statuses.total()) % 10 == 0
            text = f"{number}: {statuses.total()}" + is_too_long * 10_000 * "x"
            status, answer = server.translate(text=text)
            assert status in (413 if is_too_long else 200, 429)
            assert status != 200 or answer == {"texts": [text]}
            statuses[status] += 1
        return statuses

    with ThreadPoolExecutor(50) as clients:
        return sum(clients.map(client, range(50)), Counter())


@pytest.mark.integration
@pytest.mark.parametrize("seconds", [2.0, pytest.param(120.0, marks=pytest.mark.slow)])
def test_fifty_clients_lose_nothing(seconds):
    with serve(slow_echo, queue_size=10) as server:
        answers = crowd(server, seconds)
        assert {200, 429} <= set(answers)
        for status, count in answers.items():
            assert server.metric(f't2t_requests_total{{code="{status}"}}') == count


def test_what_was_accepted_is_answered_after_the_end_began(gate):
    with ThreadPoolExecutor(3) as clients:
        with serve(gate) as server:
            futures = [clients.submit(server.translate, text="0")]
            gate.wait_for_batch()
            futures += [clients.submit(server.translate, text=str(i)) for i in (1, 2)]
            server.wait_for("t2t_queue_length", 2)
            threading.Timer(0.5, gate.opened.set).start()  # after the block ends
        assert [future.result() for future in futures] == [
            (200, {"texts": [str(i)]}) for i in range(3)
        ]


class _Lists(HTMLParser):
    """The select boxes of a page, by name: the values and labels, and the value selected."""

    def __init__(self, page):
        super().__init__()
        self.options, self.selected = {}, {}
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        if tag == "select":
            self._name = given["name"]
            self.options[self._name] = []
        elif tag == "option":
            self._value = given["value"]
            if "selected" in given:
                self.selected[self._name] = self._value

    def handle_data(self, data):
        if self.lasttag == "option" and data.strip():
            self.options[self._name].append((self._value, data))


@pytest.mark.integration
def test_the_page_has_a_list_of_languages_for_each_side_that_has_some():
    sides = {"source": Choice(["deu", "eng", "<x>"], "eng"), "target": Choice(["de", "zz"], "")}
    tagged = {"target": Choice(["cs", "de"], "de+bt")}
    with serve(languages=sides) as server:
        lists = _Lists(server.ask("GET", "/").content.decode())
    assert lists.options == {
        "source_language": [("<x>", "<x>"), ("eng", "English (eng)"), ("deu", "German (deu)")],
        "target_language": [("", "choose a language"), ("de", "German (de)"), ("zz", "zz")],
    }
    assert lists.selected == {"source_language": "eng"}
    with serve(languages={"target": sides["target"]}) as server:
        assert set(_Lists(server.ask("GET", "/").content.decode()).options) == {"target_language"}
    with serve(languages=tagged) as server:
        assert _Lists(server.ask("GET", "/").content.decode()).selected == {
            "target_language": "de+bt"
        }
    with serve() as server:
        assert not _Lists(server.ask("GET", "/").content.decode()).options
