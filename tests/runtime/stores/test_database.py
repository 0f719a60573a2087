"""runtime/stores/database: a file that processes share: opened, checked, locked, and its errors in words."""

import os
import sqlite3
import threading
import time
from contextlib import closing

import pytest
from peers import PATIENCE, one_sentence
from store_peers import in_python

from mcp_ref.runtime.stores import database as module
from mcp_ref.runtime.stores.database import Database, FileKind
from mcp_ref.runtime.stores.store import StoreError
from mcp_ref.runtime.threads import forks

KIND = FileKind(
    0x1234, 3, ("CREATE TABLE notes (text TEXT UNIQUE)", "CREATE INDEX all_notes ON notes (text)")
)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "file.db"


@pytest.fixture
def database(path):
    made = Database(path, KIND)
    yield made
    made.close()


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr(module, "LOCKED_SECONDS", 0.1)


def note(database, text):
    return database.read(lambda c: c.execute("INSERT INTO notes VALUES (?)", (text,)).rowcount)


def notes(database):
    return [row[0] for row in database.read(lambda c: c.execute("SELECT text FROM notes").fetchall())]


def pragma(database, text):
    return database.read(lambda c: c.execute(f"PRAGMA {text}").fetchone())


def refused(run):
    """What a StoreError says."""
    with pytest.raises(StoreError) as found:
        run()
    return one_sentence(str(found.value))


# -- opening ---------------------------------------------------------------------------------------


def test_a_new_file_has_its_tables_and_is_its_owners_alone(path, database):
    note(database, "one")
    assert notes(database) == ["one"]
    assert path.stat().st_mode & 0o777 == 0o600
    for beside in ("-wal", "-shm"):
        assert path.with_name(path.name + beside).stat().st_mode & 0o777 == 0o600
    assert pragma(database, "application_id") == (0x1234,)
    assert pragma(database, "user_version") == (3,)


def test_what_is_written_is_there_for_the_next_who_opens_it(path, database):
    note(database, "one")
    other = Database(path, KIND)
    assert notes(other) == ["one"]
    database.close()
    assert notes(other) == ["one"]
    other.close()


def test_an_empty_file_is_a_new_one(path):
    path.touch()
    with closing(Database(path, KIND)) as made:
        assert notes(made) == []


@pytest.mark.parametrize(("power_safe", "synchronous"), [(False, 1), (True, 2)])
def test_a_write_waits_for_the_disk_only_where_a_power_cut_must_not_undo_it(path, power_safe, synchronous):
    with closing(Database(path, KIND, power_safe=power_safe)) as made:
        assert pragma(made, "synchronous") == (synchronous,)
        assert pragma(made, "journal_mode") == ("wal",)


def test_processes_that_make_one_file_at_once_make_one(path):
    script = """
    from pathlib import Path
    from mcp_ref.runtime.stores.database import Database, FileKind
    kind = FileKind(1, 1, ("CREATE TABLE notes (text TEXT)", "INSERT INTO notes VALUES ('first')"))
    say("ready")
    wait_for_a_line()
    database = Database(Path(path), kind)
    say(database.read(lambda c: c.execute("SELECT count(*) FROM notes").fetchone())[0])
    wait_for_a_line()
    """
    with in_python(script, path) as one, in_python(script, path) as two, in_python(script, path) as three:
        others = (one, two, three)
        assert [other.hear() for other in others] == ["ready"] * 3
        for other in others:
            other.tell()
        assert [other.hear() for other in others] == ["1"] * 3
        for other in others:
            other.tell()
            other.end()


def test_a_file_that_another_process_makes_meanwhile_is_not_taken_for_another_programs(path, monkeypatch):
    """It may have the tables already, when its numbers were looked at before it had any."""
    number, tried = module._number, []

    def looked_at(connection, pragma):
        found = number(connection, pragma)
        if pragma == "user_version" and not tried:
            with closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as other:
                other.execute("BEGIN IMMEDIATE")
                for statement in (*KIND.tables, "PRAGMA application_id = 4660", "PRAGMA user_version = 3"):
                    other.execute(statement)
                tried.append(path)
                with pytest.raises(sqlite3.OperationalError, match="locked"):
                    other.execute("COMMIT")
        return found

    monkeypatch.setattr(module, "_number", looked_at)
    with closing(Database(path, KIND)) as made:
        assert notes(made) == []
    assert tried == [path]


def test_a_missing_folder_is_named(tmp_path):
    said = refused(lambda: Database(tmp_path / "none" / "file.db", KIND))
    assert said == f"there is no folder {tmp_path / 'none'}: make it, or name a file elsewhere"


def test_a_folder_is_no_file(tmp_path):
    assert refused(lambda: Database(tmp_path, KIND)) == f"{tmp_path} is a folder: name a file"


@pytest.mark.parametrize("name", ["x" * 300, "a\x00b"])
def test_a_name_that_no_file_can_have_is_refused(tmp_path, name):
    assert "cannot be made" in refused(lambda: Database(tmp_path / name, KIND))


def test_a_file_of_another_kind_is_left_alone(path):
    text = b"Dear diary, " * 1000
    path.write_bytes(text)
    said = refused(lambda: Database(path, KIND))
    assert f"{path} is not an SQLite database" in said
    assert path.read_bytes() == text


@pytest.mark.parametrize(
    "statement", ["CREATE TABLE mine (a)", "PRAGMA application_id = 5", "PRAGMA user_version = 3"]
)
def test_a_database_of_another_program_is_left_alone(path, statement):
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(statement)
        connection.commit()
    before = path.read_bytes()
    said = refused(lambda: Database(path, KIND))
    assert said == f"{path} is an SQLite database of another program: use another file"
    assert path.read_bytes() == before


def test_another_version_is_named_with_ours(path, database):
    database.read(lambda c: c.execute("PRAGMA user_version = 4"))
    said = refused(lambda: Database(path, KIND))
    assert said.startswith(f"{path} has version 4 of its tables, and this program reads version 3: ")


@pytest.mark.parametrize("size", [50, 100, 3_000, 5_000])
def test_a_truncated_file_is_not_taken_for_a_good_one(path, database, size):
    """Whether it is seen when it is opened or when what is lost is asked for."""
    for number in range(2_000):
        note(database, f"{number} " + "x" * 20)
    database.close()
    os.truncate(path, size)

    def use():
        with closing(Database(path, KIND)) as again:
            notes(again)

    said = refused(use)
    assert str(path) in said
    assert "damaged" in said or "not an SQLite database" in said


def test_a_file_system_that_cannot_be_shared_is_named(path, monkeypatch):
    connect = sqlite3.connect

    class Connection(sqlite3.Connection):
        def execute(self, statement, *values):
            return super().execute(statement.replace("= WAL", "= DELETE"), *values)

    monkeypatch.setattr(
        module.sqlite3, "connect", lambda *names, **options: connect(*names, **options, factory=Connection)
    )
    assert (
        refused(lambda: Database(path, KIND))
        == f"{path} is on a file system that several processes cannot share"
    )


# -- transactions ----------------------------------------------------------------------------------


def test_what_raises_undoes_its_transaction(database):
    def fail(connection):
        connection.execute("INSERT INTO notes VALUES ('half')")
        raise LookupError("of its own")

    with pytest.raises(LookupError, match="of its own"):
        database.write(fail)
    assert notes(database) == []
    assert database.write(lambda c: c.execute("INSERT INTO notes VALUES ('whole')").rowcount) == 1
    assert notes(database) == ["whole"]


def test_what_must_be_unique_is_said_by_the_error_of_sqlite(database):
    note(database, "one")
    with pytest.raises(sqlite3.IntegrityError):
        note(database, "one")
    with pytest.raises(sqlite3.IntegrityError):
        database.write(lambda c: c.execute("INSERT INTO notes VALUES ('one')"))
    assert note(database, "two") == 1


def test_a_closed_one_says_so(database):
    database.close()
    database.close()
    assert refused(lambda: notes(database)) == "the store is closed"


# -- who is in the way -----------------------------------------------------------------------------


def test_another_process_that_writes_is_waited_for(path, database):
    """Readers do not wait. The lock is let go of by a timer, while this thread waits for it."""
    with closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as other:
        other.execute("BEGIN IMMEDIATE")
        assert notes(database) == []
        timer = threading.Timer(0.1, lambda: other.execute("COMMIT"))
        timer.start()
        assert note(database, "one") == 1
        timer.join()


def test_another_process_that_writes_too_long_is_given_up(path, database, impatient):
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        for write in (lambda: note(database, "one"), lambda: database.write(lambda c: None)):
            start = time.monotonic()
            said = refused(write)
            assert 0.1 <= time.monotonic() - start < PATIENCE / 2
            assert said.startswith(f"other processes have kept {path} locked for 5 s: try again")
        other.execute("COMMIT")
    assert note(database, "one") == 1


def test_a_thread_that_keeps_the_connection_too_long_is_given_up(path, database, impatient):
    begun, go_on = threading.Event(), threading.Event()

    def keep(connection):
        begun.set()
        assert go_on.wait(PATIENCE)

    thread = threading.Thread(target=database.write, args=(keep,))
    thread.start()
    assert begun.wait(PATIENCE)
    assert refused(lambda: notes(database)) == f"other threads have used {path} for 0.1 s: try again"
    go_on.set()
    thread.join(PATIENCE)
    assert notes(database) == []


# -- what goes wrong -------------------------------------------------------------------------------


def test_a_full_file_is_said_and_what_was_there_stays(path, database):
    note(database, "one")
    pragma(database, "max_page_count = 1")

    def fill():
        for number in range(1000):
            note(database, f"{number} " + "x" * 1000)

    assert refused(fill).startswith(f"the disk of {path} is full: make room")
    assert notes(database)[0] == "one"
    pragma(database, "max_page_count = 1000000")
    assert note(database, "two") == 1


def test_a_disk_that_takes_no_more_is_said_and_works_again_when_it_does(path):
    """As the system says it: a limit on the size of files, in a process of its own."""
    script = """
    import resource
    from pathlib import Path
    from mcp_ref.runtime.stores.database import Database, FileKind
    database = Database(Path(path), FileKind(1, 1, ("CREATE TABLE notes (text TEXT)",)))

    def note(text):
        return database.write(lambda c: c.execute("INSERT INTO notes VALUES (?)", (text,)).rowcount)

    limit = os.path.getsize(path + "-wal") + 50_000
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    written = 0
    for attempt in range(2):
        try:
            for number in range(1000):
                written += note(f"{written} " + "x" * 100)
        except StoreError as error:
            say(error)
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    written += note(f"{written} at last")
    found = database.read(lambda c: c.execute("SELECT text FROM notes").fetchall())
    say(written > 5 and [row[0].split()[0] for row in found] == [str(n) for n in range(written)])
    """
    with in_python(script, path) as other:
        for _ in range(2):
            assert other.hear().startswith(f"{path} cannot be read or written: is the disk full, or failing?")
        assert other.hear() == "True"
        other.end()


def test_a_file_that_may_only_be_read_is_said(path, database):
    pragma(database, "query_only = 1")
    assert refused(lambda: note(database, "one")).startswith(
        f"{path} may only be read: give this process the right"
    )
    pragma(database, "query_only = 0")
    assert note(database, "one") == 1


def test_a_file_that_is_gone_is_said_until_it_is_back(path, database):
    note(database, "one")
    away = path.with_name("away.db")
    path.rename(away)
    assert refused(lambda: notes(database)).startswith(f"{path} was deleted or replaced while it was in use")
    for _ in range(2):
        assert refused(lambda: notes(database)).startswith(f"{path} is gone: put it back, or ")
    away.rename(path)
    assert note(database, "two") == 1


def test_a_file_in_the_place_of_another_is_used_after_one_error(path, database):
    note(database, "one")
    for name in (path, *path.parent.glob("file.db-*")):
        name.unlink()
    other = Database(path, KIND)
    note(other, "of the new file")
    assert "replaced" in refused(lambda: notes(database))
    assert notes(database) == ["of the new file"]
    other.close()
    assert notes(database) == ["of the new file"]


@pytest.mark.parametrize("code", [*module._EXPLANATIONS, sqlite3.SQLITE_AUTH])
def test_each_error_is_a_sentence_that_names_the_file(path, code):
    problem = sqlite3.OperationalError("what SQLite says")
    problem.sqlite_errorcode = code | 1 << 8  # an extended code
    said = module._in_words(problem, path)
    assert str(path) in said
    assert said.endswith("(what SQLite says)")


def test_any_other_error_names_the_file_too(path, database):
    assert refused(lambda: database.read(lambda c: c.execute("SELECT nothing"))).startswith(
        f"{path} cannot be used ("
    )
    assert notes(database) == []


# -- forks -----------------------------------------------------------------------------------------

FORKS = """
from pathlib import Path
from mcp_ref.runtime.stores.database import Database, FileKind
database = Database(Path(path), FileKind(1, 1, ("CREATE TABLE notes (text TEXT)",)))

def note(text):
    return database.write(lambda c: c.execute("INSERT INTO notes VALUES (?)", (text,)).rowcount)

def notes():
    read = "SELECT text FROM notes ORDER BY 1"
    return [row[0] for row in database.read(lambda c: c.execute(read).fetchall())]
"""


def test_a_child_has_a_connection_of_its_own_that_outlives_the_parents(path):
    """With the parent's, the child would hold no lock: the parent's end would take away what it writes to."""
    script = (
        FORKS
        + """
note("parent")
down, up = os.pipe(), os.pipe()
pid = os.fork()
if not pid:
    signal.alarm(30)
    note("child")
    os.write(up[1], b"x")
    os.read(down[0], 1)
    note("child, later")
    os._exit(0)
os.read(up[0], 1)
note("parent, later")
database.close()
os.write(down[1], b"x")
say(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""
    )
    with in_python(script, path) as other:
        assert other.hear() == "0"
    with closing(sqlite3.connect(path)) as connection:
        found = [row[0] for row in connection.execute("SELECT text FROM notes ORDER BY 1")]
    assert found == ["child", "child, later", "parent", "parent, later"]


def test_forks_while_other_threads_write_lose_nothing_and_stop_no_one(path):
    script = (
        FORKS
        + """
ending = threading.Event()
written = []

def write():
    while not ending.is_set():
        written.append(note("thread"))

threads = [threading.Thread(target=write) for _ in range(2)]
for thread in threads:
    thread.start()
statuses = []
for number in range(20):
    pid = os.fork()
    if not pid:
        signal.alarm(30)
        note(f"child {number}")
        os._exit(0)
    statuses.append(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
ending.set()
for thread in threads:
    thread.join(20)
found = notes()
say(statuses == [0] * 20, len(set(found)), found.count("thread") == len(written) > 0)
"""
    )
    with in_python(script, path) as other:
        assert other.hear() == "True 21 True"


def test_a_child_of_a_fork_within_a_transaction_says_why_it_cannot_go_on(path):
    script = (
        FORKS
        + """
from mcp_ref.runtime.stores import database as module
module.LOCKED_SECONDS = 0.2
pids = []

def fork(connection):
    connection.execute("INSERT INTO notes VALUES ('parent')")
    pids.append(os.fork())
    if not pids[0]:
        signal.alarm(30)
        try:
            database.read(print)
        except StoreError as error:
            say(error)
        os._exit(0)

database.write(fork)
say(os.waitstatus_to_exitcode(os.waitpid(pids[0], 0)[1]), notes())
"""
    )
    with in_python(script, path) as other:
        assert other.hear() == f"this process was forked while {path} was in use: make a store of its own"
        assert other.hear() == "0 ['parent']"


def test_what_the_hooks_do_in_this_process(path, database):
    note(database, "one")
    module._before_fork()
    assert database._connection is None
    assert database._lock.locked()
    module._after_fork()
    module._after_fork()  # of another thread, which did not fork: nothing to do
    assert notes(database) == ["one"]
    database._lock.acquire()
    database._connection, mine = None, database._connection
    database.forked()
    assert notes(database) == ["one"]
    mine.close()
    database.forked()
    assert "forked while" in refused(lambda: notes(database))
    forks.without_end.pop().close()


def test_a_fork_does_not_wait_for_ever(path, database, impatient):
    with database._lock:
        module._before_fork()
        module._after_fork()
    assert notes(database) == []
