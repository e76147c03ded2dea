"""Images that were pasted into a text: small ones are shown, others are named.

A notebook keeps such an image in its cell (`attachments`) and the text points to it by
`attachment:x.png`. A pointer to nothing would cost the whole page, in the feedback and
in the formgrader: so none is left, however it is written.
"""

import base64
import html
import re
from typing import Any
from urllib.parse import unquote

Images = dict[str, dict[str, str]]
"""By name, the type and the base64 text of each image, as a notebook has it."""

LARGEST = 2 * 10**6
"""Bytes of an image: a screenshot has fewer."""
BEGINS = {
    "image/png": b"\x89PNG\r\n",
    "image/jpeg": b"\xff\xd8\xff",
    "image/gif": b"GIF8",
}
POINTER = "attachment:"
PASTED = re.compile(
    r"!\[([^\[\]\n]*)\]\(attachment:((?:[^()\s]|\([^()\s]*\))*)\)", re.ASCII
)


def attached(cell: dict[str, Any]) -> Images:
    """Return the images of a submitted cell that can be shown.

    Whatever else there is, not.
    """
    attachments = cell.get("attachments")
    if not isinstance(attachments, dict):
        return {}
    by_name = {name: _image(kinds) for name, kinds in attachments.items()}
    return {name: image for name, image in by_name.items() if image}


def _image(kinds: Any) -> dict[str, str]:
    """Return the first image of an attachment that is what its type says, in clean
    base64.
    """
    for kind, begin in BEGINS.items():
        text = kinds.get(kind) if isinstance(kinds, dict) else None
        if not isinstance(text, str) or len(text) > 2 * LARGEST:
            continue
        try:
            data = base64.b64decode("".join(text.split()), validate=True)
        except ValueError:
            continue
        if data.startswith(begin) and len(data) <= LARGEST:
            return {kind: base64.b64encode(data).decode()}
    return {}


def placed(text: str, images: Images) -> tuple[str, Images]:
    """Return a text and the images that it shows.

    It says where one had to be left out.
    """
    parts, shown, end = [], Images(), 0
    for matched in PASTED.finditer(text):
        parts.append(_without_pointers(text[end : matched.start()]))
        words, name = _without_pointers(matched[1]), unquote(matched[2])
        end = matched.end()
        if image := images.get(name) or images.get(matched[2]):
            own_name = f"image-{len(shown) + 1}"
            shown[own_name] = image
            parts.append(f"![{words}]({POINTER}{own_name})")
        else:
            parts.append(_without_pointers(f"(image {matched[2]} left out)"))
    made = "".join([*parts, _without_pointers(text[end:])])
    if _pointers(html.unescape(made).replace("\\", "")) > _pointers(made):
        return made.replace("[", "&#91;"), {}  # hidden in escapes: no link at all
    return made, shown


def _without_pointers(text: str) -> str:
    # Whoever opens the notebook itself would ask another machine for such an image.
    return text.replace("![", "(image left out) [").replace(POINTER, "(left out) ")


def _pointers(text: str) -> int:
    return text.count(POINTER)
