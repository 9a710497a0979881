"""The official anthropic client against a running server: messages, streams, functions, counting, models, errors.

BASE, KEY and MODEL come from the environment. Says what it has checked.
"""
import os

import anthropic

MODEL = os.environ["MODEL"]
client = anthropic.Anthropic(base_url=os.environ["BASE"], api_key=os.environ["KEY"], max_retries=0, timeout=120)
QUESTION = [{"role": "user", "content": "What is 2+2?"}]
ANSWER = "The answer to this classic math problem is 4."
SCHEMA = {"type": "object", "properties": {"city": {"enum": ["Oslo", "Rome"]}}, "required": ["city"], "additionalProperties": False}
# This version of the library knows no temperature; the API does.
GREEDY = {"temperature": 0}
TOOLS = [{"name": "weather", "description": "Weather now", "input_schema": SCHEMA}]


def ask(**more):
    return client.messages.create(**{"model": MODEL, "max_tokens": 60, "messages": QUESTION, "extra_body": GREEDY, **more})


def chat():
    answer = ask()
    assert answer.content[0].text == ANSWER and answer.stop_reason == "end_turn", answer
    # What was found computed is counted apart.
    read = answer.usage.input_tokens + answer.usage.cache_read_input_tokens
    assert read == 37 and answer.usage.output_tokens > 0, answer.usage
    cut = ask(stop_sequences=["classic"])
    assert (cut.stop_reason, cut.stop_sequence) == ("stop_sequence", "classic"), cut
    assert ask(max_tokens=2).stop_reason == "max_tokens"


def streams():
    with client.messages.stream(model=MODEL, max_tokens=60, messages=QUESTION, extra_body=GREEDY) as stream:
        assert "".join(stream.text_stream) == ANSWER
        assert stream.get_final_message().usage.output_tokens > 0


def functions():
    answer = ask(tools=TOOLS, tool_choice={"type": "tool", "name": "weather"})
    [call] = [block for block in answer.content if block.type == "tool_use"]
    assert answer.stop_reason == "tool_use" and call.input["city"] in ("Oslo", "Rome"), answer
    result = {"type": "tool_result", "tool_use_id": call.id, "content": [{"type": "text", "text": "sunny"}]}
    history = QUESTION + [{"role": "assistant", "content": answer.content}, {"role": "user", "content": [result]}]
    assert ask(messages=history, tools=TOOLS).content


def counting():
    assert client.messages.count_tokens(model=MODEL, messages=QUESTION).input_tokens == 37


def models():
    assert MODEL in [model.id for model in client.models.list()]
    assert client.models.retrieve(MODEL).id == MODEL


def errors():
    for kind, call in [
        (anthropic.NotFoundError, lambda: ask(model="nobody")),
        (anthropic.BadRequestError, lambda: ask(messages=[])),
        (anthropic.BadRequestError, lambda: ask(messages=[{"role": "user", "content": "word " * 20000}])),
        (anthropic.AuthenticationError, lambda: anthropic.Anthropic(base_url=os.environ["BASE"], api_key="wrong").models.list()),
    ]:
        try:
            call()
        except kind as error:
            assert error.body["type"] == "error" and error.body["error"]["message"], error.body
        else:
            raise AssertionError(f"expected {kind.__name__}")


for check in [chat, streams, functions, counting, models, errors]:
    check()
    print("checked", check.__name__)
