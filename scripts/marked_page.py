# SPDX-License-Identifier: Apache-2.0
"""Pages of which a script writes a part: what stands between two marks, lines of their own."""


def between(text, begin, end, body):
    """The page with `body` between the marks, or as it is without a body. Raises ValueError if a
    mark is missing."""
    before, found, rest = text.partition(begin)
    _, closed, after = rest.partition(end)
    if not found or not closed:
        raise ValueError(f"the page lacks the lines {begin} and {end}")
    return text if body is None else f"{before}{begin}\n\n{body}\n\n{end}{after}"


def fill(page, begin, end, body):
    """The same for a file (a pathlib.Path)."""
    try:
        page.write_text(between(page.read_text(encoding="utf-8"), begin, end, body),
                        encoding="utf-8")
    except ValueError as error:
        raise ValueError(f"{page}: {error}") from None
