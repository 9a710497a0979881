"""The official ollama client against a running server: chat, streams, generate, formats, embeddings, models, errors; and what changes the
models: pull, create, blobs, copy, delete.

BASE, MODEL and KEY come from the environment; FILE is the model's file, MODELS the server's models folder, and on HUB_PORT this script plays the
hub that the server was told of. Says what it has checked.
"""
import hashlib
import http.server
import json
import os
import pathlib
import threading

import ollama

MODEL = os.environ["MODEL"]
client = ollama.Client(host=os.environ["BASE"], headers={"authorization": f"Bearer {os.environ['KEY']}"})
QUESTION = [{"role": "user", "content": "What is 2+2?"}]
ANSWER = "The answer to this classic math problem is 4."
OPTIONS = {"temperature": 0, "num_predict": 40}


def chat():
    answer = client.chat(MODEL, messages=QUESTION, options=OPTIONS)
    assert answer.message.content == ANSWER, answer
    assert answer.done and answer.done_reason == "stop" and answer.prompt_eval_count == 37, answer
    assert answer.total_duration >= answer.eval_duration > 0, answer
    parts = list(client.chat(MODEL, messages=QUESTION, options=OPTIONS, stream=True))
    assert "".join(part.message.content for part in parts) == ANSWER, parts
    assert [part.done for part in parts].count(True) == 1 and parts[-1].done, parts


def generate():
    answer = client.generate(MODEL, prompt="The capital of France is", raw=True, options={"temperature": 0, "num_predict": 6})
    assert answer.response.startswith(" Paris") and answer.eval_count == 6, answer
    assert client.generate(MODEL, prompt="What is 2+2?", options=OPTIONS).response == ANSWER


def formats():
    schema = {"type": "object", "properties": {"sum": {"type": "integer"}}, "required": ["sum"]}
    answer = client.chat(MODEL, messages=QUESTION, format=schema, options={"temperature": 0, "num_predict": 60})
    assert isinstance(json.loads(answer.message.content)["sum"], int), answer


def results_of_calls():
    def add(a: int, b: int) -> int:
        """Adds two numbers.

        Args:
          a: one
          b: the other
        """
        return a + b

    history = QUESTION + [
        {"role": "assistant", "tool_calls": [{"function": {"name": "add", "arguments": {"a": 2, "b": 2}}}]},
        {"role": "tool", "tool_name": "add", "content": "4"},
    ]
    answer = client.chat(MODEL, messages=history, tools=[add], options=OPTIONS)
    assert answer.message.content or answer.message.tool_calls, answer


def embeddings():
    answer = client.embed(MODEL, input=["north", "south"])
    assert [len(vector) for vector in answer.embeddings] == [576, 576], answer
    assert list(client.embeddings(MODEL, prompt="north").embedding) == list(answer.embeddings[0])


def models():
    [model] = client.list().models
    assert model.model == MODEL and model.size > 90_000_000 and model.details.family == "llama", model
    shown = client.show(MODEL)
    assert "tools" in shown.capabilities and shown.modelinfo["general.architecture"] == "llama", shown
    client.generate(MODEL, keep_alive=-1)
    [running] = client.ps().models
    assert running.model == MODEL and running.size > 0, running


def errors():
    for status, call in [
        (404, lambda: client.chat("nobody", messages=QUESTION)),
        (400, lambda: client.chat(MODEL, messages=QUESTION, format={"not": {}})),
        (400, lambda: client.chat(MODEL, messages=[{"role": "user", "content": "word " * 20000}])),
    ]:
        try:
            call()
        except ollama.ResponseError as error:
            assert error.status_code == status and error.error, error
        else:
            raise AssertionError(f"expected {status}")


FILE = pathlib.Path(os.environ["FILE"])
MODELS = pathlib.Path(os.environ["MODELS"])
DIGEST = hashlib.sha256(FILE.read_bytes()).hexdigest()
REPOSITORY = "ada/tiny-GGUF"
PULLED = f"hf.co/{REPOSITORY}:Q4_1"
FOLDER = MODELS / REPOSITORY


class Hub(http.server.BaseHTTPRequestHandler):
    """One repository. The first download stops in the middle until its client is gone."""

    stalling = True
    ranges = []

    def do_HEAD(self):
        self.answer(False)

    def do_GET(self):
        self.answer(True)

    def answer(self, body):
        if self.path == f"/api/models/{REPOSITORY}":
            names = ["README.md", "tiny-Q4_1.gguf", "tiny-Q8_0.gguf"]
            return self.send(json.dumps({"siblings": [{"rfilename": name} for name in names]}).encode(), body)
        if self.path != f"/{REPOSITORY}/resolve/main/tiny-Q4_1.gguf":
            return self.send_error(404)
        whole, asked = FILE.read_bytes(), self.headers["range"]
        start = int(asked.removeprefix("bytes=").removesuffix("-")) if asked else 0
        if asked:
            Hub.ranges.append(start)
        self.send_response(206 if asked else 200)
        self.send_header("etag", '"v1"')
        self.send_header("x-linked-etag", f'"{DIGEST}"')
        self.send_header("x-linked-size", str(len(whole)))
        if asked:
            self.send_header("content-range", f"bytes {start}-{len(whole) - 1}/{len(whole)}")
        self.send_header("content-length", str(len(whole) - start))
        self.end_headers()
        if not body:
            return
        stalling, Hub.stalling = Hub.stalling, False
        try:
            self.wfile.write(whole[start : len(whole) // 2 if stalling else None])
            if stalling:
                # Nothing more comes, and the other side says no word until it leaves.
                self.rfile.read(1)
        except ConnectionError:
            pass

    def send(self, text, body):
        self.send_response(200)
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        if body:
            self.wfile.write(text)

    def log_message(self, *_):
        pass


def refused(status, word, call):
    try:
        call()
    except ollama.ResponseError as error:
        assert error.status_code == status and word in error.error, (error.status_code, error.error)
    else:
        raise AssertionError(f"expected {status}")


def pull():
    hub = http.server.ThreadingHTTPServer(("127.0.0.1", int(os.environ["HUB_PORT"])), Hub)
    threading.Thread(target=hub.serve_forever, daemon=True).start()
    size = FILE.stat().st_size
    # Leaving in the middle ends the download, and what has arrived stays.
    steps = client.pull(PULLED, stream=True)
    assert next(steps).status == "pulling manifest"
    for step in steps:
        if step.completed and step.completed > size // 4:
            break
    steps.close()
    assert (FOLDER / "tiny-Q4_1.gguf.part").exists() and not (FOLDER / "tiny-Q4_1.gguf").exists()
    steps = list(client.pull(PULLED, stream=True))
    assert Hub.ranges and Hub.ranges[-1] > size // 4, Hub.ranges
    assert [steps[0].status, steps[-1].status] == ["pulling manifest", "success"], steps
    files = [step for step in steps if step.digest]
    assert all(step.digest == f"sha256:{DIGEST}" and step.total == size for step in files), files
    assert files[-1].completed == size and files[-1].status == f"pulling {DIGEST[:12]}", files
    # It is there at once, under the name that it was pulled by.
    assert client.chat(PULLED, messages=QUESTION, options=OPTIONS).message.content == ANSWER
    assert client.pull(PULLED).status == "success"
    assert [model.digest for model in client.list().models if model.model == PULLED] == [DIGEST]
    client.delete(PULLED)
    assert not FOLDER.exists() and PULLED not in [model.model for model in client.list().models]
    refused(404, "Q5_0", lambda: client.pull(f"hf.co/{REPOSITORY}:Q5_0"))
    for name in ["nobody", "hf.co/ada/nothing", str(FILE), f"http://127.0.0.1:{os.environ['HUB_PORT']}/x.gguf"]:
        refused(404, "", lambda: client.pull(name))
        refused(404, "", lambda: list(client.pull(name, stream=True)))


def create():
    steps = list(client.create("parrot", from_=MODEL, system="You are a parrot.", parameters={"temperature": 0, "stop": ["classic"]}, stream=True))
    assert [step.status for step in steps][-2:] == ["writing manifest", "success"], steps
    answer = client.chat("parrot", messages=[{"role": "system", "content": "You are a helpful AI assistant named SmolLM, trained by Hugging Face"}] + QUESTION)
    assert answer.message.content.strip() == "The answer to this", answer
    shown = client.show("parrot")
    assert "temperature" in shown.parameters and 'stop                           "classic"' in shown.parameters, shown.parameters
    assert 'SYSTEM """You are a parrot."""' in shown.modelfile, shown.modelfile
    # Its system message reaches the model: the same question costs another number of tokens.
    assert client.chat("parrot", messages=QUESTION).prompt_eval_count != client.chat(MODEL, messages=QUESTION, options=OPTIONS).prompt_eval_count
    refused(403, "parrot", lambda: client.delete(MODEL))
    client.create("parrot", from_="parrot", template="{% for message in messages %}{{ message.content }}{% endfor %}")
    assert client.show("parrot").template.startswith("{% for")
    client.delete("parrot")
    refused(404, "parrot", lambda: client.show("parrot"))
    for field, more in [("quantize", {"quantize": "q8_0"}), ("template", {"template": "{{ .Prompt }}"}), ("num_gpu", {"parameters": {"num_gpu": 1}})]:
        refused(400, field, lambda: client.create("no", from_=MODEL, **more))
    refused(404, "nobody", lambda: client.create("no", from_="nobody"))


def blobs():
    digest = client.create_blob(FILE)
    assert digest == f"sha256:{DIGEST}" and client.create_blob(FILE) == digest
    assert client.create("own", files={"model.gguf": digest}).status == "success"
    assert client.chat("own", messages=QUESTION, options=OPTIONS).message.content == ANSWER
    assert client.copy("own", "twin").status == "success" and client.delete("own").status == "success"
    refused(404, "own", lambda: client.chat("own", messages=QUESTION))
    assert client.chat("twin:latest", messages=QUESTION, options=OPTIONS).message.content == ANSWER
    assert client.delete("twin").status == "success"
    assert [model.model for model in client.list().models] == [MODEL]
    assert [path.name for path in MODELS.rglob("*") if path.is_file() and path != MODELS / FILE.name] == []
    refused(404, "nobody", lambda: client.copy("nobody", "x"))
    refused(404, "nobody", lambda: client.delete("nobody"))
    text = MODELS / "no-model"
    text.write_text("no model")
    refused(400, "GGUF", lambda: client.create("no", files={"model.gguf": client.create_blob(text)}))


for check in [chat, generate, formats, results_of_calls, embeddings, models, errors, pull, create, blobs]:
    check()
    print("checked", {"results_of_calls": "functions"}.get(check.__name__, check.__name__))
