"""The official openai client against a running server: chat, stream, legacy completions, embeddings, models, errors.

BASE, KEY and MODEL come from the environment. Says what it has checked.
"""
import os

import openai

MODEL = os.environ["MODEL"]
BASE = os.environ["BASE"] + "/v1"
client = openai.OpenAI(base_url=BASE, api_key=os.environ["KEY"], max_retries=0, timeout=120)
QUESTION = [{"role": "user", "content": "What is 2+2?"}]
ANSWER = "The answer to this classic math problem is 4."


def chat():
    answer = client.chat.completions.create(model=MODEL, messages=QUESTION, temperature=0, max_tokens=40)
    assert answer.choices[0].message.content == ANSWER, answer
    assert answer.choices[0].finish_reason == "stop", answer
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens, answer.usage
    assert answer.system_fingerprint.startswith("vulkan-ggml-"), answer.system_fingerprint
    return answer.usage


def stream(usage):
    parts, last = [], None
    with client.chat.completions.create(
        model=MODEL, messages=QUESTION, temperature=0, max_tokens=40, stream=True, stream_options={"include_usage": True}
    ) as events:
        for event in events:
            if event.choices:
                parts.append(event.choices[0].delta.content or "")
            last = event
    assert "".join(parts) == ANSWER, parts
    assert last.usage == usage, (last.usage, usage)


def leave_a_stream():
    events = client.chat.completions.create(
        model=MODEL, messages=QUESTION, max_tokens=4000, stream=True, extra_body={"ignore_eos": True}
    )
    next(iter(events))
    events.close()


def completions():
    answer = client.completions.create(model=MODEL, prompt="The capital of France is", temperature=0, max_tokens=6, logprobs=2)
    assert answer.choices[0].text.startswith(" Paris"), answer
    assert len(answer.choices[0].logprobs.tokens) == 6, answer.choices[0].logprobs


def logprobs():
    answer = client.chat.completions.create(
        model=MODEL, messages=QUESTION, temperature=0, max_tokens=4, logprobs=True, top_logprobs=3
    )
    content = answer.choices[0].logprobs.content
    assert len(content) == 4 and all(len(entry.top_logprobs) == 3 for entry in content), content


def embeddings():
    # The client asks for base64 by itself and decodes it.
    answer = client.embeddings.create(model=MODEL, input=["north", "south"])
    floats = client.embeddings.create(model=MODEL, input=["north", "south"], encoding_format="float")
    for a, b in zip(answer.data, floats.data):
        assert len(a.embedding) == 576, len(a.embedding)
        assert max(abs(x - y) for x, y in zip(a.embedding, b.embedding)) < 1e-6


def models():
    assert MODEL in [model.id for model in client.models.list()]
    assert client.models.retrieve(MODEL).id == MODEL


def expect(error, status, call):
    try:
        call()
    except error as found:
        assert found.status_code == status, found
        assert found.body and found.body.get("message"), found.body
    else:
        raise AssertionError(f"expected {error.__name__}")


def errors():
    expect(openai.NotFoundError, 404, lambda: client.chat.completions.create(model="nobody", messages=QUESTION))
    expect(openai.BadRequestError, 400, lambda: client.chat.completions.create(model=MODEL, messages=[]))
    expect(openai.BadRequestError, 400, lambda: client.chat.completions.create(model=MODEL, messages=QUESTION, temperature=9))
    expect(
        openai.BadRequestError,
        400,
        lambda: client.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": "word " * 20000}]),
    )
    stranger = openai.OpenAI(base_url=BASE, api_key="wrong", max_retries=0)
    expect(openai.AuthenticationError, 401, lambda: stranger.chat.completions.create(model=MODEL, messages=QUESTION))


def streams():
    stream(chat())
    leave_a_stream()


for check in [chat, streams, completions, logprobs, embeddings, models, errors]:
    check()
    print("checked", {"logprobs": "log-probabilities"}.get(check.__name__, check.__name__))
