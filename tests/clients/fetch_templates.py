"""Fetches the chat templates that llama.cpp tests with, from the sdist of llama-cpp-python, into the folder that is the argument."""
import hashlib
import pathlib
import subprocess
import sys
import tarfile

PACKAGE = "llama-cpp-python"
VERSION = "0.3.36"
SHA256 = "832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e"
INSIDE = "/vendor/llama.cpp/models/templates/"


def fetch(folder):
    """The templates, from the package index that pip uses."""
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


fetch(pathlib.Path(sys.argv[1]))
