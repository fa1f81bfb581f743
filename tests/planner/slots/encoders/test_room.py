"""Training goes through all texts again and again: those that fit must not be read twice."""

from orchestai.planner.slots.encoders.encoder import MINILM, TextEncoder

TEXTS = ["Reverse the words.", "Count the letters.", "Add the counts up."]


def readings(encoder, passes, monkeypatch):
    read = []
    once = encoder._read
    monkeypatch.setattr(encoder, "_read", lambda ids, *places: read.append(ids) or once(ids, *places))
    for _ in range(passes):
        for text in TEXTS:
            encoder.encode(text)
    return len(read)


def test_each_text_is_read_once_where_there_is_room(monkeypatch):
    assert readings(TextEncoder(MINILM, 64, 3), 3, monkeypatch) == len(TEXTS)


def test_without_room_for_all_the_oldest_goes(monkeypatch):
    encoder, other = TextEncoder(MINILM, 64, 3), TextEncoder(MINILM, 64, 3)
    encoder.room = sum(other.encode(text).nbytes for text in TEXTS[:2])
    assert readings(encoder, 2, monkeypatch) == 2 * len(TEXTS)
