"""Chat templates as transformers renders them: the reference for our own renderer.

Arguments: a folder, and the file of conversations. Fetches the templates that llama.cpp tests with (from the sdist of llama-cpp-python)
into the folder, once, and prints JSON: {template: {"text": ..., "results": {conversation: {"text": ...} or {"refused": ...}}}}.
"""
import hashlib
import json
import pathlib
import subprocess
import sys
import tarfile

import os

os.environ["TRANSFORMERS_VERBOSITY"] = "error"
from transformers.utils.chat_template_utils import render_jinja_template  # noqa: E402

PACKAGE = "llama-cpp-python"
VERSION = "0.3.36"
SHA256 = "832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e"
INSIDE = "/vendor/llama.cpp/models/templates/"


def fetch(folder):
    """The templates, from the package index that pip uses."""
    if (folder / "complete").exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    source = folder / "source"
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    subprocess.run([*command, f"--no-binary={PACKAGE}", "-d", source, f"{PACKAGE}=={VERSION}"], check=True, stdout=sys.stderr)
    [archive] = source.iterdir()
    found = hashlib.sha256(archive.read_bytes()).hexdigest()
    assert found == SHA256, f"{archive.name} has sha256 {found}"
    with tarfile.open(archive) as tar:
        for member in tar:
            if INSIDE in member.name and member.name.endswith(".jinja"):
                (folder / pathlib.Path(member.name).name).write_bytes(tar.extractfile(member).read())
    archive.unlink()
    (folder / "complete").touch()


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
    fetch(folder)
    answer = {}
    for file in sorted(folder.glob("*.jinja")):
        text = file.read_text(encoding="utf-8")
        results = {each["name"]: render(text, each, cases["tools"]) for each in cases["conversations"]}
        answer[file.name] = {"text": text, "results": results}
    json.dump(answer, sys.stdout)


main()
