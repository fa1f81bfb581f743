"""BigCodeBench: 1,140 functions over many libraries with `unittest` tests (Apache-2.0)."""

from __future__ import annotations

from typing import Any

from orchestai.tasks.records import Record, read_records, to_tasks
from orchestai.tasks.suite import Suite
from orchestai.tasks.task import Task
from orchestai.text.syntax import functions, parameters, parse_literal

HUB_NAME = "bigcode/bigcodebench"
_HUB_SPLIT = "v0.1.4"
LIBRARIES = (
    *("Crypto", "Levenshtein", "PIL", "blake3", "bs4", "chardet", "cryptography", "cv2", "dateutil", "django", "docx"),
    *("faker", "flask", "flask_login", "flask_mail", "flask_restful", "flask_wtf", "folium", "gensim", "geopandas"),
    *("geopy", "holidays", "keras", "librosa", "lxml", "matplotlib", "mechanize", "mpl_toolkits", "natsort", "nltk"),
    *("numpy", "openpyxl", "pandas", "prettytable", "psutil", "pyquery", "pytesseract", "python_http_client", "pytz"),
    *("regex", "requests", "rsa", "scipy", "seaborn", "sendgrid", "shapely", "skimage", "sklearn", "soundfile"),
    *("statsmodels", "sympy", "tensorflow", "textblob", "texttable", "werkzeug", "wikipedia", "wordcloud", "wordninja"),
    *("wtforms", "xlwt", "xmltodict", "yaml"),
)
"""What its tasks import beside the standard library; the suite is frozen, and so is this list."""


def load(path: str | None = None) -> Suite:
    """The suite from the hub, or from a file in the hub's schema or in that of the annotation repository."""
    return Suite("bigcodebench", {"test": lambda: to_tasks(read_records(path or HUB_NAME, _HUB_SPLIT), _task)})


def _task(record: Record) -> Task:
    names = _HUB_FIELDS if "complete_prompt" in record else _ANNOTATION_FIELDS
    entry_point = record["entry_point"]
    prompt = record[names["complete_prompt"]]
    return Task(
        task_id=record["task_id"],
        suite="bigcodebench",
        instruct_prompt=record[names["instruct_prompt"]],
        complete_prompt=prompt,
        code_prompt=record[names["code_prompt"]],
        canonical_solution=record["canonical_solution"],
        test=record["test"],
        entry_point=entry_point,
        libs=_libs(record),
        doc_struct=_literal(record[names["doc_struct"]]),
        parameters=parameters(functions(prompt)[entry_point]),
        source="github.com/bigcode-project/bigcodebench, Apache-2.0",
    )


_HUB_FIELDS = {name: name for name in ("complete_prompt", "instruct_prompt", "code_prompt", "doc_struct")}
_ANNOTATION_FIELDS = {
    "complete_prompt": "prompt",
    "instruct_prompt": "instruction",
    "code_prompt": "prompt_wo_doc",
    "doc_struct": "doc",
}


def _libs(record: Record) -> tuple[str, ...]:
    """Those that the task names, and openpyxl where it has pandas write Excel files, which names nobody."""
    named = tuple(_literal(record["libs"]))
    writes_excel = ".to_excel(" in record["canonical_solution"] + record["test"]
    return (*named, "openpyxl") if writes_excel and "openpyxl" not in named else named


def _literal(value: Any) -> Any:
    """The hub stores lists and dictionaries as text."""
    return parse_literal(value) if isinstance(value, str) else value
