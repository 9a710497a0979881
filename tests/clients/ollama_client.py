"""The official ollama client against a running server: chat, streams, generate, formats, embeddings, models, errors.

BASE, MODEL and KEY come from the environment. Says what it has checked.
"""
import json
import os

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


for check in [chat, generate, formats, results_of_calls, embeddings, models, errors]:
    check()
    print("checked", {"results_of_calls": "functions"}.get(check.__name__, check.__name__))
