"""Makes cases quick and lets them reach the model: most name one that exists, and answers are short."""

import json
import os

import schemathesis

MODEL = os.environ["MODEL"]
TOKENS = 8
ANSWERS = 2


def shorten(fields, name, most):
    """At most so many, also where nothing is said; what is no number stays as it is."""
    value = fields.get(name)
    if value is None or (isinstance(value, int) and not isinstance(value, bool) and (value > most or value in (-1, -2))):
        fields[name] = most


@schemathesis.hook
def before_call(context, case, kwargs):
    body = case.body
    if not isinstance(body, dict):
        return
    # Names of one character stay what they are: no such model.
    if isinstance(body.get("model"), str) and len(body["model"]) != 1:
        body["model"] = MODEL
    path = case.operation.path
    if path.startswith("/v1/"):
        # The two names mean the same, and different numbers under them are refused: not always, or nothing else would be tried.
        if "max_completion_tokens" not in body:
            shorten(body, "max_tokens", TOKENS)
        else:
            shorten(body, "max_completion_tokens", TOKENS)
            if isinstance(body.get("max_tokens"), int):
                shorten(body, "max_tokens", TOKENS)
        for name in ("n", "best_of"):
            if name in body:
                shorten(body, name, ANSWERS)
    elif path == "/infill":
        shorten(body, "n_predict", TOKENS)
    elif path.startswith("/api/"):
        if body.get("options") is None:
            body["options"] = {}
        if isinstance(body["options"], dict):
            shorten(body["options"], "num_predict", TOKENS)


@schemathesis.deserializer("application/x-ndjson")
def last_line(context, response):
    """The shape is that of a line; the last has the most members."""
    return json.loads(response.content.splitlines()[-1])
