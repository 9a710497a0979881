"""Answers held to a schema, judged by somebody else: Python's jsonschema, formats included.

Arguments: how many answers. Every schema of output_schemas.json is asked for in turn, at temperature 1 and with a seed of its own each time.
Environment: BASE, MODEL. Prints a line with the counts; ends with 1 unless every answer is whole and valid.
"""
import concurrent.futures
import json
import os
import pathlib
import sys
import urllib.error
import urllib.request

import jsonschema

SCHEMAS = list(json.loads(pathlib.Path(__file__).with_name("output_schemas.json").read_text(encoding="utf-8")).items())
# More than one, so that constraints meet in a batch.
AT_ONCE = 8
# Enough for the longest text that any of the schemas allows.
MOST_TOKENS = 600


def answer(schema, seed):
    body = {
        "model": os.environ["MODEL"],
        "temperature": 1,
        "seed": seed,
        "max_tokens": MOST_TOKENS,
        "messages": [{"role": "user", "content": f"Give me example number {seed}."}],
        "response_format": {"type": "json_schema", "json_schema": {"name": "wanted", "strict": True, "schema": schema}},
    }
    request = urllib.request.Request(os.environ["BASE"] + "/v1/chat/completions", json.dumps(body).encode(), {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=300) as got:
        return json.load(got)["choices"][0]


def judge(number):
    """Nothing, or what is wrong."""
    name, schema = SCHEMAS[number % len(SCHEMAS)]
    try:
        choice = answer(schema, number)
    except urllib.error.HTTPError as error:
        return f"{name}: {error.code} {error.read().decode()[:300]}"
    text = choice["message"]["content"]
    if choice["finish_reason"] != "stop":
        return f"{name}, seed {number}: ended by {choice['finish_reason']}: {text!r}"
    try:
        checker = jsonschema.Draft202012Validator(schema, format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER)
        checker.validate(json.loads(text))
    except (ValueError, jsonschema.ValidationError) as error:
        return f"{name}, seed {number}: {str(error).splitlines()[0]}: {text!r}"
    return None


def main():
    wanted = int(sys.argv[1])
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        wrong = [said for said in pool.map(judge, range(wanted)) if said]
    print(f"{wanted - len(wrong)} of {wanted} valid, over {min(wanted, len(SCHEMAS))} schemas")
    for said in wrong[:20]:
        print(said)
    sys.exit(bool(wrong))


main()
