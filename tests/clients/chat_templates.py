"""Chat templates as transformers renders them: the reference for our own renderer.

Arguments: a folder of templates, and the file of conversations. Prints JSON:
{template: {"text": ..., "results": {conversation: {"text": ...} or {"refused": ...}}}}.
"""
import json
import os
import pathlib
import sys

os.environ["TRANSFORMERS_VERBOSITY"] = "error"
from transformers.utils.chat_template_utils import render_jinja_template  # noqa: E402


def render(template, conversation, tools):
    """One rendering, as `apply_chat_template` makes it."""
    try:
        texts, _ = render_jinja_template(
            [conversation["messages"]],
            tools=tools if conversation["tools"] else None,
            chat_template=template,
            add_generation_prompt=not conversation["continue"],
            continue_final_message=conversation["continue"],
            bos_token="<s>",
            eos_token="</s>",
            **conversation["variables"],
        )
        return {"text": texts[0]}
    except Exception as error:  # Whatever a template does, it is what transformers would show.
        return {"refused": f"{type(error).__name__}: {error}"}


def main():
    folder, cases = pathlib.Path(sys.argv[1]), json.loads(pathlib.Path(sys.argv[2]).read_text(encoding="utf-8"))
    answer = {}
    for file in sorted(folder.glob("*.jinja")):
        text = file.read_text(encoding="utf-8")
        results = {each["name"]: render(text, each, cases["tools"]) for each in cases["conversations"]}
        answer[file.name] = {"text": text, "results": results}
    json.dump(answer, sys.stdout)


main()
