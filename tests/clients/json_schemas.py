"""The JSON-Schema-Test-Suite: what validators are measured with.

Argument: a folder. Fetches the suite (MIT; from the sdist of jsonschema) into it, once, and prints the cases of draft 2020-12 as JSON:
{file: [{"description": ..., "schema": ..., "tests": [{"description": ..., "data": ..., "valid": ...}]}]}.
"""
import json
import pathlib
import sys

import sdist

SHA256 = "0c26707e2efad8aa1bfc5b7ce170f3fccc2e4918ff85989ba9ffa9facb2be326"


def main():
    folder = pathlib.Path(sys.argv[1])
    cases = folder / "cases"
    if not (folder / "complete").exists():
        sdist.unpack(cases, "jsonschema", "4.26.0", SHA256, "/json/tests/draft2020-12/", ".json")
        (folder / "complete").touch()
    files = sorted(cases.rglob("*.json"))
    json.dump({str(file.relative_to(cases)): json.loads(file.read_text(encoding="utf-8")) for file in files}, sys.stdout)


main()
