"""Makes cases quick and lets them reach what they are about: most name a model that exists, or a response that was kept; answers are short."""

import collections
import json
import os

import schemathesis

MODEL = os.environ["MODEL"]
TOKENS = 8
ANSWERS = 2
# Ids of the last responses, which may be deleted meanwhile.
KEPT = collections.deque(maxlen=4)
MADE = "made"


def shorten(fields, name, most):
    """At most so many, also where nothing is said; what is no number stays as it is."""
    value = fields.get(name)
    if value is None or (isinstance(value, int) and not isinstance(value, bool) and (value > most or value in (-1, -2))):
        fields[name] = most


def kept(name):
    """A response in place of this name. Names of one character stay what they are: nothing that is there."""
    return KEPT[len(name) % len(KEPT)] if KEPT and isinstance(name, str) and len(name) > 1 else name


@schemathesis.hook
def after_call(context, case, response):
    made = case.operation.path == "/v1/responses" and case.method == "POST" and response.status_code == 200
    if made and "json" in response.headers["content-type"][0]:
        KEPT.append(response.json()["id"])


@schemathesis.hook
def before_call(context, case, kwargs):
    if case.operation.path.startswith("/v1/responses/{id}"):
        case.path_parameters["id"] = kept(case.path_parameters["id"])
    # What is made here is never loaded, and 503 is the right answer for it.
    if case.operation.path == "/readyz" and (case.query or {}).get("model") == MADE:
        case.query["model"] = MODEL
    body = case.body
    if not isinstance(body, dict):
        return
    if isinstance(body.get("model"), str) and len(body["model"]) != 1:
        body["model"] = MODEL
    path = case.operation.path
    # What is changed is never the model that the others ask for, and nothing else comes and goes.
    changed = {"/api/create": ["model", "name"], "/api/copy": ["destination"], "/api/delete": ["model", "name"]}
    for name in changed.get(path, []):
        if isinstance(body.get(name), str):
            body[name] = MADE
    for name in {"/api/create": ["from"], "/api/copy": ["source"]}.get(path, []):
        if isinstance(body.get(name), str) and len(body[name]) != 1:
            body[name] = MODEL
    if path.startswith("/v1/responses"):
        shorten(body, "max_output_tokens", TOKENS)
        if "previous_response_id" in body:
            body["previous_response_id"] = kept(body["previous_response_id"])
    elif path.startswith("/v1/messages"):
        # Where it is missing, that is what the case is about.
        if "max_tokens" in body:
            shorten(body, "max_tokens", TOKENS)
    elif path.startswith("/v1/"):
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
    elif path in ("/api/chat", "/api/generate"):
        if body.get("options") is None:
            body["options"] = {}
        if isinstance(body["options"], dict):
            shorten(body["options"], "num_predict", TOKENS)


@schemathesis.deserializer("application/x-ndjson")
def last_line(context, response):
    """The shape is that of a line; the last has the most members."""
    return json.loads(response.content.splitlines()[-1])
