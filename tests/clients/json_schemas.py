"""The JSON-Schema-Test-Suite: what validators are measured with.

Argument: a folder. Fetches the suite (MIT; from the sdist of jsonschema) into it, once, and prints the cases of draft 2020-12 as JSON:
{file: [{"description": ..., "schema": ..., "tests": [{"description": ..., "data": ..., "valid": ...}]}]}.
"""
import hashlib
import json
import pathlib
import subprocess
import sys
import tarfile

PACKAGE = "jsonschema"
VERSION = "4.26.0"
SHA256 = "0c26707e2efad8aa1bfc5b7ce170f3fccc2e4918ff85989ba9ffa9facb2be326"
INSIDE = "/json/tests/draft2020-12/"


def fetch(folder):
    """The cases, from the package index that pip uses."""
    if (folder / "complete").exists():
        return
    source = folder / "source"
    source.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    subprocess.run([*command, f"--no-binary={PACKAGE}", "-d", source, f"{PACKAGE}=={VERSION}"], check=True, stdout=sys.stderr)
    [archive] = source.iterdir()
    found = hashlib.sha256(archive.read_bytes()).hexdigest()
    assert found == SHA256, f"{archive.name} has sha256 {found}"
    with tarfile.open(archive) as tar:
        for member in tar:
            if INSIDE in member.name and member.name.endswith(".json"):
                target = folder / "cases" / member.name.split(INSIDE)[1]
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(tar.extractfile(member).read())
    archive.unlink()
    (folder / "complete").touch()


def main():
    folder = pathlib.Path(sys.argv[1])
    fetch(folder)
    cases = folder / "cases"
    files = sorted(cases.rglob("*.json"))
    json.dump({str(file.relative_to(cases)): json.loads(file.read_text(encoding="utf-8")) for file in files}, sys.stdout)


main()
