"""What honest programs find in the sandbox, and what crosses from them to tests in another process."""

import textwrap

import pytest

from orchestai.sandbox import Limits, Program, Sandbox
from orchestai.sandbox.inside.ipc import randomness
from orchestai.sandbox.inside.judge.proxy import _exception

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


@pytest.fixture(scope="module")
def sandbox():
    with Sandbox(workers=1, limits=Limits(wall_s=20, load_s=10, test_s=5, memory_mb=512)) as sandbox:
        yield sandbox


def judge(sandbox, code, *bodies, isolation="split"):
    """What came of a test with each of these bodies."""
    report = sandbox.run(Program(code, _tests(bodies), isolation=isolation))
    assert report.status == "ok", report.reason
    return [test.message or test.outcome for test in report.tests]


def _tests(bodies):
    methods = (f"    def test_{i}(self):\n{textwrap.indent(body, ' ' * 8)}\n" for i, body in enumerate(bodies))
    return "import unittest\nclass TestCases(unittest.TestCase):\n" + "".join(methods)


def test_programs_find_localhost_their_user_and_python(sandbox):
    if sandbox.level != "namespaces":
        pytest.skip("programs see the host's own settings")
    code = """
import getpass, grp, os, pwd, socket, subprocess
def task_func(what):
    if what == "host": return socket.gethostbyname("localhost")
    if what == "user": return [getpass.getuser(), pwd.getpwuid(os.getuid()).pw_name, grp.getgrgid(os.getgid()).gr_name]
    if what == "python": return subprocess.run(["python", "-c", "print(1)"], capture_output=True).stdout
    if what == "tmp":
        with open("/tmp/file", "w") as file: return file.write("12345")
"""
    assert (
        judge(
            sandbox,
            code,
            "self.assertEqual(task_func('host'), '127.0.0.1')",
            "self.assertEqual(task_func('user'), ['sandbox'] * 3)",
            "self.assertEqual(task_func('python').strip(), b'1')",
            "self.assertEqual(task_func('tmp'), 5)",
        )
        == ["passed"] * 4
    )


EXCEPTIONS = {
    "open('nowhere')": ("FileNotFoundError", "str(error) == \"[Errno 2] No such file or directory: 'nowhere'\""),
    "exit(3)": ("SystemExit", "error.code == 3"),
    "eval('1 +')": ("SyntaxError", "'invalid syntax' in str(error)"),
    "json.loads('[')": ("json.JSONDecodeError", "error.pos == 1 and error.doc == '['"),
    "sqlite3.connect(':memory:').execute('no')": ("sqlite3.OperationalError", "'syntax error' in str(error)"),
    "subprocess.run(['false'], check=True)": ("subprocess.CalledProcessError", "error.returncode == 1"),
    "zipfile.ZipFile(__import__('io').BytesIO(b'no'))": ("zipfile.BadZipFile", "'not a zip' in str(error)"),
}


@pytest.mark.parametrize("expression", EXCEPTIONS)
def test_exceptions_arrive_with_what_they_say(sandbox, expression):
    cls, condition = EXCEPTIONS[expression]
    imports = "import json, sqlite3, subprocess, zipfile"
    code = f"{imports}\ndef task_func(): return {expression}"
    test = f"{imports}\nwith self.assertRaises({cls}) as caught: task_func()\nerror = caught.exception"
    assert judge(sandbox, code, f"{test}\nself.assertTrue({condition}, repr(error))") == ["passed"]


def test_arrays_generators_and_what_the_program_imports_cross(sandbox):
    code = """
from array import array
from fractions import Fraction
from pathlib import Path
from textwrap import shorten
def task_func(what):
    if isinstance(what, array):
        what.append(4)
        return what
    if what == "path":
        return Path("a") / "b"
    return (i for i in range(3)) if what == "generator" else Fraction(1, 2)
"""
    assert (
        judge(
            sandbox,
            code,
            "mine = array('i', [1]); self.assertIs(task_func(mine), mine); self.assertEqual(mine, array('i', [1, 4]))",
            "import types; self.assertIsInstance(task_func('generator'), types.GeneratorType)",
            "self.assertEqual(list(task_func('generator')), [0, 1, 2])",
            "self.assertEqual([Path(task_func('path')), task_func('path').name], [Path('a/b'), 'b'])",
            "self.assertIsInstance(task_func(''), Fraction); self.assertEqual(shorten('a b', 9), 'a b')",
        )
        == ["passed"] * 5
    )


def test_a_program_cannot_pass_the_sandbox_or_mocks_off_as_its_imports(sandbox):
    for module in ("unittest.mock", "sandbox_inside.ipc.values", "__test__"):
        code = f"class ANY: __module__ = {module!r}\ndef task_func(): return 1"
        said = judge(sandbox, code, "self.assertEqual(ANY, 2)")
        assert said != ["passed"]


@pytest.mark.parametrize("attributes", [None, 1, {1: 2}, {"__class__": 1, "_x": 1, "with_traceback": 1}])
def test_hostile_facts_of_an_exception_make_no_other(attributes):
    error = _exception(
        {"classes": [["builtins", "ValueError"]], "args": ["no"], "attributes": attributes}, lambda *_: None
    )
    assert type(error).__name__ in ("ValueError", "NotPlainError")
    assert error.__class__ is type(error)


def test_values_of_the_standard_library_arrive_as_what_they_are(sandbox):
    code = """
import datetime, enum, http, ipaddress, time, typing, uuid
from urllib.parse import urlparse
from zoneinfo import ZoneInfo
class Status(str, enum.Enum): OPEN = "open"
class Level(enum.IntEnum): LOW, HIGH = 1, 2
class Point(typing.NamedTuple):
    x: int
    def twice(self): return 2 * self.x
def task_func(expression): return eval(expression)
"""
    expressions = {
        "Status.OPEN": "value == 'open' and value.name == 'OPEN' and value is task_func('Status.OPEN')",
        "Level.HIGH": "value == 2 and value > 1 and value.name == 'HIGH'",
        "http.HTTPStatus(404)": "value == 404 and value.phrase == 'Not Found'",
        "Point(3)": "value == (3,) and value.x == 3 and value.twice() == 6",
        "time.gmtime(0)": "value.tm_year == value[0] == 1970",
        "urlparse('http://a.b/c')": "value.netloc == 'a.b' and value.geturl() == 'http://a.b/c'",
        "uuid.UUID(int=1)": "value.int == 1",
        "ipaddress.ip_network('10.0.0.0/8')": "value.num_addresses == 2 ** 24",
        "datetime.datetime(2024, 1, 1, tzinfo=ZoneInfo('Europe/Berlin'))": "value.utcoffset().seconds == 3600",
        "type(None)": "value is type(None)",
        "ValueError('no')": "type(value) is ValueError and value.args == ('no',)",
    }
    bodies = [f"value = task_func({name!r}); self.assertTrue({check})" for name, check in expressions.items()]
    assert judge(sandbox, code, *bodies) == ["passed"] * len(bodies)


def test_no_value_arrives_with_comparisons_that_the_program_wrote(sandbox):
    code = """
import enum, unittest.mock
class Text(str, enum.Enum):
    A = "a"
    def __eq__(self, other): return True
    __hash__ = str.__hash__
class Forged(str, enum.Enum):
    A = "a"
    _x = "x"
    def __eq__(self, other): return True
    __hash__ = str.__hash__
class Fault(Exception):
    def __eq__(self, other): return True
    __hash__ = None
Fault.__module__ = "builtins"
def task_func(expression):
    value = eval(expression)
    return value
"""
    lies = ("Text.A", "Forged.A", "Fault()", "unittest.mock.ANY", "unittest.mock.call(1)", "unittest.mock.sentinel.a")
    said = judge(sandbox, code, *(f"self.assertEqual(task_func({lie!r}), 5)" for lie in lies))
    assert "passed" not in said
    made = "made = task_func('type(unittest.mock.ANY)'); self.assertEqual(made(), 5)"
    assert judge(sandbox, code, made) != ["passed"]
    assert judge(sandbox, f"{code}    ", "task_func('exec(\"raise unittest.case._ShouldStop\")')") != ["passed"]


def test_exceptions_arrive_of_the_class_that_the_tests_have_and_with_their_cause(sandbox):
    imports = "import csv, ipaddress, queue, tomllib"
    code = f"""{imports}
def task_func(what):
    if what == "queue": queue.Queue().get_nowait()
    if what == "csv": list(csv.reader(['"x"y'], strict=True))
    if what == "ip": ipaddress.IPv4Address("1")
    if what == "toml": tomllib.loads("= 1")
    if what == "group": raise ExceptionGroup("many", [ValueError("a"), TypeError("b")])
    try: int("x")
    except ValueError as error: raise RuntimeError("outer") from error
"""
    classes = {"queue": "queue.Empty", "csv": "csv.Error", "ip": "ipaddress.AddressValueError"}
    bodies = [
        *(f"{imports}\nwith self.assertRaises({cls}): task_func({name!r})" for name, cls in classes.items()),
        f"{imports}\nwith self.assertRaises(tomllib.TOMLDecodeError): task_func('toml')",
        "with self.assertRaises(ExceptionGroup) as c: task_func('group')\n"
        "self.assertEqual([type(e) for e in c.exception.exceptions], [ValueError, TypeError])",
        "with self.assertRaises(RuntimeError) as c: task_func('')\n"
        "self.assertIsInstance(c.exception.__cause__, ValueError)",
    ]
    assert judge(sandbox, code, *bodies) == ["passed"] * len(bodies)


def test_arguments_have_any_names_and_forty_threads_may_sleep(sandbox):
    code = """
import threading, time
def task_func(**named):
    threads = [threading.Thread(target=time.sleep, args=(0.05,)) for _ in range(40)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    return sorted(named)
"""
    names = ["args", "function", "kwargs", "operation", "self"]
    call = f"task_func({', '.join(f'{name}=1' for name in names)})"
    assert judge(sandbox, code, f"self.assertEqual({call}, {names})") == ["passed"]


def test_random_states_that_numpy_would_read_beyond_are_refused():
    numpy = pytest.importorskip("numpy")
    numpy.random.seed(1)
    states = randomness.get_states()
    name, words, _, has_spare, spare = states["numpy.random"]
    hostile = [
        {**states, "numpy.random": (name, words, 100_000, has_spare, spare)},
        {**states, "numpy.random": (name, words, -5, has_spare, spare)},
        {**states, "numpy.random": (name, words[:-4], 3, has_spare, spare)},
        {**states, "numpy.random": ("PCG64", words, 3, has_spare, spare)},
        {**states, "numpy.random": {"bit_generator": name, "state": {"key": [0] * 624, "pos": 100_000}}},
        {**states, "random": (3, b"1234", None)},
        {**states, "random": (3, b"\xff" * 2500, None)},
        {**states, "random": (*states["random"][:2], "1")},
    ]
    for state in hostile:
        with pytest.raises((ValueError, TypeError)):
            randomness.set_states(state)
    drawn = numpy.random.rand()
    randomness.set_states(states)
    assert numpy.random.rand() == drawn


def test_what_a_program_says_cannot_steer_the_terminal_that_shows_its_report(sandbox):
    report = sandbox.run(
        Program(
            "def task_func():\n    print('\\x1b[2Jout')\n    raise ValueError('\\x1b]0;title\\x07\\x9b1m')",
            _tests(["task_func()"]),
        )
    )
    texts = report.reason + "".join(test.message + test.output for test in report.tests)
    assert {word for word in ("out", "title", "\x1b", "\x9b") if word in texts} == {"out", "title"}


ALIASES = """
import types
class AppError(Exception): pass
class NotFound(AppError, KeyError): pass
Custom, Invalid, ERRORS = Exception, AssertionError, {"any": BaseException, "all": [Exception]}
errors = types.SimpleNamespace(Net=Exception)
def error(name): return Exception
def task_func(name):
    if name: raise {"custom": Custom, "value": ValueError, "missing": NotFound, "invalid": Invalid}[name](name)
    return 0
"""


CLASSES = ("Custom", "Invalid", "ERRORS['any']", "*ERRORS['all']", "errors.Net", "error(1)")


def test_no_class_of_exceptions_of_the_programs_catches_what_assertions_raise(sandbox):
    bodies = [
        f"import contextlib\nwith contextlib.suppress({cls}): self.assertEqual(task_func(''), 3)" for cls in CLASSES
    ]
    bodies.append("try: self.assertEqual(task_func(''), 3)\nexcept (Custom, KeyError): pass")
    assert judge(sandbox, ALIASES, *bodies) == ["AssertionError: 0 != 3"] * len(bodies)


def test_classes_of_exceptions_may_have_other_names(sandbox):
    bodies = (
        "with self.assertRaises(Custom): task_func('custom')",
        "try: task_func('custom')\nexcept Custom as raised: self.assertEqual(str(raised), 'custom')",
        "with self.assertRaises(Custom): task_func('value')",
        "with self.assertRaises(Invalid): task_func('invalid')",
        "with self.assertRaises(ERRORS['any']): task_func('missing')",
        "with self.assertRaises(AppError): task_func('missing')",
        "with self.assertRaises(KeyError): task_func('missing')",
        "self.assertEqual(ERRORS['all'], [Exception])\nself.assertTrue(issubclass(AppError, Custom))",
    )
    assert judge(sandbox, ALIASES, *bodies) == ["passed"] * len(bodies)


def test_objects_that_stay_with_the_program_are_copied_there(sandbox):
    code = """
import dataclasses, enum
class Level(enum.Enum): LOW = 1
@dataclasses.dataclass
class Item:
    name: str
    level: Level = Level.LOW
class Box:
    def __init__(self): self.items = [1]
    def size(self): return len(self.items)
    def add(self): self.items.append(2)
def task_func(kind): return Item("a") if kind == "item" else Box()
"""
    bodies = (
        "import dataclasses\nself.assertEqual(dataclasses.asdict(task_func('item'))['name'], 'a')",
        "import copy\nbox = task_func('box')\nother = copy.deepcopy(box)\nother.add()\n"
        "self.assertEqual((box.size(), other.size()), (1, 2))",
    )
    assert judge(sandbox, code, *bodies) == ["passed"] * len(bodies)
