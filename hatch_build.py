"""Build hook of the package: its page in an index, where relative links of README.md lead nowhere.

`PARALLAX_REPOSITORY=https://HOST/OWNER/NAME python -m build` writes this address into the links
and into the project's URLs. Without it both stay as they are.
"""

import os
import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface


class PackagePageHook(MetadataHookInterface):
    """Sets the README and the URLs in the package's metadata."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set `readme` and, if the repository is known, `urls`."""
        text = (Path(self.root) / "README.md").read_text("utf-8")
        if repository := os.environ.get("PARALLAX_REPOSITORY", "").rstrip("/"):
            text = link_repository(text, repository)
            metadata["urls"] = {
                "Repository": repository,
                "Documentation": f"{repository}/blob/HEAD/docs/index.md",
                "Changelog": f"{repository}/blob/HEAD/CHANGELOG.md",
                "Issues": f"{repository}/issues",
            }
        metadata["readme"] = {"content-type": "text/markdown", "text": text}


def link_repository(text: str, repository: str) -> str:
    """Return Markdown with relative links and the word REPOSITORY replaced by addresses."""
    relative = r"\]\((?![a-z]+:|#)"
    text = re.sub(rf"(!\[[^\]]*){relative}", rf"\1]({repository}/raw/HEAD/", text)
    text = re.sub(relative, f"]({repository}/blob/HEAD/", text)
    return text.replace("git clone REPOSITORY ", f"git clone {repository} ")
