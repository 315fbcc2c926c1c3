"""The OpenAI SDK, as its users hold it, against `appproxy-worker demo`.

usage: openai_against_demo.py PATH-OF-APPPROXY-WORKER

Starts the demo on free ports, finds its addresses in what it prints, and ends it. Each check is a function whose name
says what must be so; a failed one shows why and fails the run.
"""

import hashlib
import json
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.request

import openai

SECRET = "demo-secret"
ROUTER = "/v2/routers/demo"
HELLO = [{"role": "user", "content": "Hello there"}]


class Demo:
    """The running demo."""

    def __init__(self, program):
        self.process = subprocess.Popen(
            [program, "demo", "--port", "0"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        self.printed = ""
        ready = threading.Event()
        threading.Thread(target=self._read, args=(ready,), daemon=True).start()
        if not ready.wait(60):
            raise SystemExit(f"the demo did not come up within 60 s; it printed:\n{self.printed}")
        self.worker = self._address("worker")
        self.coordinator = self._address("coordinator")

    def _read(self, ready):
        for line in self.process.stdout:
            self.printed += line
            if "Ctrl-C ends everything" in line:
                ready.set()
        # At its end nobody needs to wait any longer.
        ready.set()

    def _address(self, row):
        found = re.search(rf"^ *{row} +(http://\S+)", self.printed, re.MULTILINE)
        if not found:
            raise SystemExit(f"the demo's table has no row '{row}':\n{self.printed}")
        return found.group(1)

    def client(self, key):
        # No retries: each error is to be seen as it comes.
        return openai.OpenAI(base_url=f"{self.worker}/v1", api_key=key, max_retries=0, timeout=20)

    def tell(self, method, path, body=None):
        """A call of the manager's API."""
        request = urllib.request.Request(
            f"{self.coordinator}{ROUTER}{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"X-BackendAI-Token": SECRET, "Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=20) as answer:
            return json.load(answer)

    def key(self, key_id, key, **fields):
        digest = hashlib.sha256(key.encode()).hexdigest()
        self.tell("PUT", f"/api-keys/{key_id}", {"token_hash": digest, **fields})

    def end(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        try:
            return self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise SystemExit("the demo did not end within 20 s of Ctrl-C") from None


def until(what, holds):
    """Asks until it is so. With a bus a change is in force when its call returns; without, one pull later."""
    end = time.monotonic() + 20
    while not holds():
        if time.monotonic() > end:
            raise AssertionError(f"gave up waiting for {what}")
        time.sleep(0.05)


def raises(kind, code, call):
    """The typed error that `call` ends with."""
    try:
        call()
    except openai.APIStatusError as error:
        assert type(error) is kind, f"{type(error).__name__} instead of {kind.__name__}: {error}"
        assert error.code == code, f"code {error.code!r} instead of {code!r}"
        assert error.request_id, "no x-request-id"
        assert error.message, "no message"
        return error
    raise AssertionError(f"no {kind.__name__} was raised")


def check_a_chat_is_answered(demo):
    answer = demo.client("sk-demo").chat.completions.create(model="demo-chat", messages=HELLO)
    assert answer.choices[0].message.content.startswith("Hello from replica-"), answer
    assert answer.usage.total_tokens > 0, answer


def check_the_alias_is_the_same_model(demo):
    answer = demo.client("sk-demo").chat.completions.create(model="demo", messages=HELLO)
    assert answer.choices[0].finish_reason == "stop", answer


def check_a_chat_streams(demo):
    stream = demo.client("sk-demo").chat.completions.create(
        model="demo-chat", messages=HELLO, stream=True, stream_options={"include_usage": True}
    )
    chunks = list(stream)
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text.startswith("Hello from replica-") and len(chunks) > 3, chunks
    assert chunks[-1].usage.total_tokens > 0, chunks[-1]


def check_a_stream_left_early_hurts_nobody(demo):
    client = demo.client("sk-demo")
    with client.chat.completions.create(model="demo-chat", messages=HELLO, stream=True) as stream:
        next(iter(stream))
    check_a_chat_is_answered(demo)


def check_embeddings(demo):
    answer = demo.client("sk-demo").embeddings.create(model="demo-chat", input=["a", "b"], encoding_format="float")
    assert len(answer.data) == 2, answer


def check_models_are_listed_and_fetched(demo):
    client = demo.client("sk-demo")
    assert sorted(model.id for model in client.models.list()) == ["demo", "demo-chat"]
    assert client.models.retrieve("demo-chat").id == "demo-chat"


def check_a_wrong_key_is_an_authentication_error(demo):
    for call in (
        lambda: demo.client("sk-wrong").chat.completions.create(model="demo-chat", messages=HELLO),
        lambda: demo.client("sk-wrong").models.list(),
    ):
        raises(openai.AuthenticationError, "invalid_api_key", call)


def check_a_model_not_allowed_is_a_permission_error(demo):
    demo.key("narrow", "sk-narrow", allowed_models=["demo"])
    client = demo.client("sk-narrow")
    until("the narrow key", lambda: works(client, "demo"))
    call = lambda: client.chat.completions.create(model="demo-chat", messages=HELLO, stream=True)  # noqa: E731
    error = raises(openai.PermissionDeniedError, "model_not_allowed", call)
    assert error.param == "model", error.param
    raises(openai.PermissionDeniedError, "model_not_allowed", lambda: client.models.retrieve("demo-chat"))


def check_an_unknown_model_is_a_not_found_error(demo):
    client = demo.client("sk-demo")
    call = lambda: client.chat.completions.create(model="nothing", messages=HELLO)  # noqa: E731
    raises(openai.NotFoundError, "model_not_found", call)
    raises(openai.NotFoundError, "model_not_found", lambda: client.models.retrieve("nothing"))


def check_a_used_up_key_is_a_rate_limit_error(demo):
    demo.key("few", "sk-few", rate_limit=1)
    client = demo.client("sk-few")
    until("the limited key", lambda: works(client, "demo"))
    call = lambda: client.chat.completions.create(model="demo", messages=HELLO)  # noqa: E731
    error = raises(openai.RateLimitError, "rate_limit_exceeded", call)
    assert 0 < int(error.response.headers["retry-after"]) <= 61, error.response.headers


def check_broken_parameters_are_a_bad_request(demo):
    client = demo.client("sk-demo")
    raises(openai.BadRequestError, "invalid_model", lambda: client.chat.completions.create(model="", messages=HELLO))


def works(client, model):
    try:
        client.chat.completions.create(model=model, messages=HELLO)
    except openai.AuthenticationError:
        return False
    return True


def main(program):
    demo = Demo(program)
    failed = []
    try:
        for name, check in list(globals().items()):
            if not name.startswith("check_"):
                continue
            try:
                check(demo)
                print(f"ok      {name}")
            except Exception as error:  # noqa: BLE001: the others are still to be run
                failed.append(name)
                print(f"FAILED  {name}: {type(error).__name__}: {error}")
    finally:
        code = demo.end()
    if code != 0:
        failed.append(f"the demo ended with {code}")
    if failed:
        print(f"what the demo printed:\n{demo.printed}")
        raise SystemExit(f"openai {openai.__version__}: {len(failed)} failed: {', '.join(failed)}")
    print(f"openai {openai.__version__}: all passed")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    main(sys.argv[1])
