"""Print the files of an OCI image's layers, the lowest first (OCI image-spec: index, manifest)."""

import json
import sys
from pathlib import Path

layout = Path(sys.argv[1])


def blob(descriptor: dict[str, str]) -> Path:
    """The file that a descriptor names by its digest."""
    return layout / "blobs" / descriptor["digest"].replace(":", "/")


(manifest,) = json.loads((layout / "index.json").read_text())["manifests"]
config = json.loads(blob(json.loads(blob(manifest).read_text())["config"]).read_text())
if config["config"]["Entrypoint"] != ["schedlab"]:
    sys.exit("error: the image does not start schedlab")
for layer in json.loads(blob(manifest).read_text())["layers"]:
    print(blob(layer))
