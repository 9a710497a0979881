"""Fetches the chat templates that llama.cpp tests with, from the sdist of llama-cpp-python, into the folder that is the argument."""
import pathlib
import sys

import sdist

SHA256 = "832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e"

sdist.unpack(pathlib.Path(sys.argv[1]), "llama-cpp-python", "0.3.36", SHA256, "/vendor/llama.cpp/models/templates/", ".jinja")
