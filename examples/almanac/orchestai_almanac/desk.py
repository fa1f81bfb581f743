"""An answering service: it looks a whole question up and answers from the page that it finds."""

from __future__ import annotations

from orchestai.workers.base import Request, WorkerError
from orchestai_almanac import reading
from orchestai_almanac.search import best_page


async def answer(request: Request) -> str:
    """What the page that fits the words best says of what they ask; raises `WorkerError` where it finds nothing."""
    words = " ".join([request.instruction, *(text for text in request.inputs.values() if "\n" not in text)])
    page = best_page(words, "text")
    asked = Request(instruction=words, inputs={"page": page})
    for read in (reading.synonyms, reading.sentences):
        try:
            return await read(asked)
        except WorkerError:
            continue
    raise WorkerError("the page that was found does not say it")
