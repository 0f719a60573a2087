"""The files below one directory, and no other: globs, links, races, bounds."""

import errno
import functools
import os
import socket
import stat
import threading
from fnmatch import fnmatchcase
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from peers import PATIENCE, eventually

from mcp_ref.extras import files
from mcp_ref.extras.files import GONE_ERRNOS, MAX_DEPTH, Glob, Tree, is_gone_or_denied

NEVER = threading.Event()


@pytest.fixture
def root(tmp_path):
    """A directory, with something beside it that is nobody's business."""
    inside = tmp_path / "inside"
    inside.mkdir()
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "a.md").write_text("secret")
    return inside


def tree(root, glob="**/*", hidden=False):
    return Tree(root.resolve(), Glob(glob), hidden)


def write(root, *paths, text="x"):
    for path in paths:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)


def listed(root, glob="**/*", most=1000, over=NEVER, **options):
    found, _ = tree(root, glob, **options).files(most, over)
    return ["/".join(file.parts) for file in found]


def read(root, path, most=1000, **options):
    return tree(root, **options).read(tuple(path.split("/")), most)


def refused(root, path, most=1000, **options):
    """The errno with which a read fails."""
    count = len(list(Path("/dev/fd").iterdir()))
    with pytest.raises(OSError) as caught:
        read(root, path, most, **options)
    assert len(list(Path("/dev/fd").iterdir())) == count, "a descriptor was left open"
    return caught.value.errno


def before(monkeypatch, function, name, action):
    """Have something happen just before the system is asked for a name, the first time it is."""
    original, pending = getattr(os, function), [action]

    @functools.wraps(original)
    def wrapped(path, *args, **options):
        if path == name and pending:
            pending.pop()()
        return original(path, *args, **options)

    monkeypatch.setattr(os, function, wrapped)


# ----------------------------------------------------------------------------- globs


@pytest.mark.parametrize(
    ("glob", "good", "bad"),
    [
        ("**/*", ["a", "a/b", "a/b/c"], []),
        ("**", ["a", "a/b"], []),
        ("*", ["a"], ["a/b"]),
        ("*.md", ["a.md", ".md"], ["a/b.md", "a.txt", "a.MD"]),
        ("**/*.md", ["a.md", "a/b.md", "a/b/c.md"], ["a.txt", "a.md/b"]),
        ("docs/**", ["docs/a", "docs/a/b"], ["a", "other/docs/a"]),
        ("docs/**/*.md", ["docs/a.md", "docs/x/y/a.md"], ["a.md", "docs/a.txt"]),
        ("**/src/*.py", ["src/a.py", "x/src/a.py"], ["src/x/a.py", "a.py"]),
        ("[ab]?.txt", ["a1.txt", "b2.txt"], ["c1.txt", "a.txt"]),
        ("**/a/**/b", ["a/b", "x/a/y/b", "a/a/b/b"], ["b", "a", "b/a"]),
    ],
)
def test_a_glob_names_paths(glob, good, bad):
    globs = Glob(glob)
    assert [path for path in (*good, *bad) if globs.match(tuple(path.split("/")))] == good


@pytest.mark.parametrize("glob", ["", "/etc/*", "../*", "a/../b", "a//b", "a/", "./a"])
def test_a_glob_that_leaves_the_directory_or_names_nothing_is_refused(glob):
    with pytest.raises(ValueError, match="glob must be a pattern"):
        Glob(glob)


def fits(names, parts):
    """The same, said slowly."""
    if not names or not parts:
        return not parts and all(name == "**" for name in names)
    if names[0] == "**":
        return fits(names[1:], parts) or fits(names, parts[1:])
    return fnmatchcase(parts[0], names[0]) and fits(names[1:], parts[1:])


@given(
    st.lists(st.sampled_from(["**", "*", "a", "a*", "?"]), min_size=1, max_size=6),
    st.lists(st.sampled_from(["a", "b", "ab", "ba"]), min_size=1, max_size=6),
)
def test_a_glob_matches_what_its_definition_says(names, parts):
    assert Glob("/".join(names)).match(tuple(parts)) == fits(names, parts)


def test_many_stars_take_no_longer():
    glob = Glob("/".join(["**", "a*"] * 100))
    assert not glob.match(("a",) * 99)


# ---------------------------------------------------------------------------- listing


def test_files_are_listed_the_nearest_first_in_order(root):
    write(root, "z", "b/a", "a/z", "a/b/c", "A")
    assert listed(root) == ["A", "z", "a/z", "b/a", "a/b/c"]


def test_an_empty_directory_lists_nothing(root):
    assert tree(root).files(10, NEVER) == ([], True)


def test_a_directory_that_is_gone_lists_nothing(root):
    inside = tree(root)
    root.rmdir()
    assert inside.files(10, NEVER) == ([], True)


def test_a_directory_that_came_back_as_a_link_lists_nothing(root):
    write(root, "a")
    inside = tree(root)
    (root / "a").unlink()
    root.rmdir()
    root.symlink_to(root.parent / "outside")
    assert inside.files(10, NEVER) == ([], True)


def test_directories_in_which_nothing_can_match_are_not_scanned(root, monkeypatch):
    write(root, "docs/a.md", "node_modules/x/y.md")
    seen = []
    original = os.scandir
    monkeypatch.setattr(os, "scandir", lambda fd: seen.append(fd) or original(fd))
    assert listed(root, "docs/*.md") == ["docs/a.md"]
    assert len(seen) == 2


def test_hidden_names_do_not_exist(root):
    write(root, ".env", ".git/config", "a/.b/c", "a/d")
    assert listed(root) == ["a/d"]
    assert not tree(root).may_have((".env",))
    assert not tree(root).may_have((".git", "config"))
    assert listed(root, hidden=True) == [".env", ".git/config", "a/d", "a/.b/c"]
    assert tree(root, hidden=True).may_have((".git", "config"))


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a\\b", "\\", "a\0", "/"])
@pytest.mark.parametrize("hidden", [True, False])
def test_empty_names_dots_and_names_with_separators_are_not_allowed(root, name, hidden):
    assert not tree(root, hidden=hidden).may_have((name,))
    assert not tree(root, hidden=hidden).may_have(("a", name, "b"))


def test_a_file_with_a_backslash_in_its_name_does_not_exist(root):
    write(root, "a\\b", "c")
    assert listed(root) == ["c"]


def test_no_more_than_max_files_are_listed_and_that_is_returned(root):
    write(root, *"abc")
    assert len(tree(root).files(3, NEVER)[0]) == 3
    assert tree(root).files(3, NEVER)[1] is True
    found, complete = tree(root).files(2, NEVER)
    assert [file.parts for file in found] == [("a",), ("b",)]
    assert not complete


def test_a_scan_looks_at_a_bounded_number_of_names(root, monkeypatch):
    monkeypatch.setattr(files, "MAX_NAMES_SEEN", 5)
    write(root, *(f"{i}.txt" for i in range(10)), "sub/a.md")
    found, complete = tree(root, "**/*.md").files(1000, NEVER)
    assert found == []
    assert not complete


def test_files_that_are_too_deep_are_not_there(root):
    deepest = "/".join("d" * (MAX_DEPTH - 1)) + "/f"
    write(root, deepest, "/".join("d" * MAX_DEPTH) + "/f")
    assert listed(root) == [deepest]
    assert tree(root).may_have(("d",) * MAX_DEPTH)
    assert not tree(root).may_have(("d",) * (MAX_DEPTH + 1))


def test_a_scan_ends_when_it_is_stopped(root):
    write(root, "a")
    over = threading.Event()
    over.set()
    assert listed(root, over=over) == []


def test_a_directory_that_may_not_be_opened_is_passed_over(root, monkeypatch):
    write(root, "a/x", "b/x")

    def closed():
        raise PermissionError(errno.EACCES, "Permission denied")

    before(monkeypatch, "open", "a", closed)
    assert listed(root) == ["b/x"]


def test_a_file_that_vanishes_while_it_is_looked_at_is_passed_over(root, monkeypatch):
    write(root, "a", "b")

    class Vanishing:
        def __init__(self, fd):
            self.listing = original(fd)

        def __enter__(self):
            return self

        def __exit__(self, *problem):
            self.listing.close()

        def __iter__(self):
            for entry in self.listing:
                if entry.name == "a":
                    (root / "a").unlink()
                yield entry

    original = os.scandir
    monkeypatch.setattr(os, "scandir", Vanishing)
    assert listed(root) == ["b"]


@pytest.mark.parametrize("name", ["a", "link"])
def test_trouble_of_the_machine_is_not_taken_for_an_empty_directory(root, monkeypatch, name):
    write(root, "a/x", "b/x")
    (root / "link").symlink_to(root / "b" / "x")

    def out_of_descriptors(*args, **options):
        raise OSError(errno.EMFILE, "Too many open files")

    if name == "a":
        before(monkeypatch, "open", "a", out_of_descriptors)
    else:
        monkeypatch.setattr(os.path, "realpath", out_of_descriptors)
    with pytest.raises(OSError, match="Too many open files"):
        listed(root)


# ------------------------------------------------------------------------------ links


@pytest.mark.spec("server/resources/sanitize-file-paths")
@pytest.mark.parametrize(
    "target", ["../secret", "../outside/a.md", "/etc/passwd", "nowhere", "self", "../inside-too"]
)
def test_a_link_that_leads_out_or_nowhere_does_not_exist(root, target):
    (root.parent / "inside-too").write_text("secret")  # whose path begins with the same letters
    (root / "self").symlink_to(target)
    assert listed(root) == []
    assert refused(root, "self") in GONE_ERRNOS
    with pytest.raises(OSError) as caught:
        tree(root).status(("self",))
    assert caught.value.errno in GONE_ERRNOS


@pytest.mark.spec("server/resources/sanitize-file-paths")
def test_a_link_to_a_directory_outside_does_not_exist(root):
    (root / "out").symlink_to(root.parent / "outside")
    assert listed(root) == []
    assert refused(root, "out/a.md") in GONE_ERRNOS


def test_links_within_are_good(root):
    write(root, "a/b.md", text="good")
    (root / "file").symlink_to("a/b.md")
    (root / "directory").symlink_to(root.resolve() / "a")
    (root / "around").symlink_to("../inside/a/b.md")  # leads out and in again
    assert listed(root) == ["around", "file", "a/b.md", "directory/b.md"]
    for path in ("file", "directory/b.md", "around"):
        assert read(root, path) == b"good"
        assert tree(root).status(tuple(path.split("/"))).st_size == 4


def test_a_link_to_what_is_hidden_is_hidden(root):
    write(root, ".env", ".git/config")
    (root / "a").symlink_to(".env")
    (root / "b").symlink_to(".git")
    assert listed(root) == []
    assert refused(root, "a") in GONE_ERRNOS
    assert refused(root, "b/config") in GONE_ERRNOS
    assert listed(root, hidden=True) == [".env", "a", ".git/config", "b/config"]
    assert read(root, "b/config", hidden=True) == b"x"


def test_links_that_go_round_in_a_circle_are_not_followed(root):
    write(root, "a/f", "b/g")
    (root / "a" / "again").symlink_to(".")
    (root / "a" / "up").symlink_to("..")
    (root / "a" / "over").symlink_to("../b")
    (root / "b" / "back").symlink_to("../a")
    assert listed(root) == ["a/f", "b/g", "a/over/g", "b/back/f"]


def test_a_thicket_of_links_is_scanned_within_bounds(root, monkeypatch):
    monkeypatch.setattr(files, "MAX_NAMES_SEEN", 2000)
    names = [f"d{i}" for i in range(12)]
    for name in names:
        (root / name).mkdir()
        for other in names:
            (root / name / f"to-{other}").symlink_to(f"../{other}")
    assert tree(root).files(1000, NEVER) == ([], False)


# ---------------------------------------------------------------------------- reading


def test_a_file_is_read_to_its_last_byte(root, monkeypatch):
    monkeypatch.setattr(files, "READ_BYTES", 7)
    data = bytes(range(256))
    (root / "a").write_bytes(data)
    assert read(root, "a", 256) == data
    assert refused(root, "a", 255) == errno.EFBIG


def test_an_empty_file_is_read(root):
    write(root, "a", text="")
    assert read(root, "a", 1) == b""


def test_a_file_that_grows_while_it_is_read_is_not_read_forever(root, monkeypatch):
    write(root, "a", text="12345")
    original = os.read

    def growing(fd, most):
        data = original(fd, min(most, 5))
        with (root / "a").open("ab") as file:
            file.write(b"12345")
        return data

    monkeypatch.setattr(os, "read", growing)
    assert refused(root, "a", 50) == errno.EFBIG


def test_a_file_of_unknown_size_is_read_within_the_bound(root, monkeypatch):
    write(root, "a", text="x" * 100)
    original = os.fstat

    def unsized(fd):
        status = list(original(fd))
        status[stat.ST_SIZE] = 0
        return os.stat_result(status)

    monkeypatch.setattr(os, "fstat", unsized)
    assert read(root, "a", 100) == b"x" * 100
    assert refused(root, "a", 99) == errno.EFBIG


def pipe(path):
    os.mkfifo(path)


def unix_socket(path):
    here = Path.cwd()
    os.chdir(path.parent)  # the path of a socket is short
    try:
        with socket.socket(socket.AF_UNIX) as bound:
            bound.bind(path.name)
    finally:
        os.chdir(here)


@pytest.mark.parametrize("make", [Path.mkdir, pipe, unix_socket])
def test_anything_but_a_regular_file_does_not_exist(root, make):
    make(root / "odd")
    assert listed(root) == []
    assert refused(root, "odd") in GONE_ERRNOS


@pytest.mark.parametrize("path", ["none", "a/b", "x" * 300, "x/" * 3000 + "x"])
def test_a_path_without_a_file_does_not_exist(root, path):
    write(root, "a")
    assert refused(root, path) in GONE_ERRNOS


def test_what_may_not_be_opened_says_so(root, monkeypatch):
    write(root, "a")

    def closed():
        raise PermissionError(errno.EACCES, "Permission denied")

    before(monkeypatch, "open", "a", closed)
    assert refused(root, "a") == errno.EACCES


def test_a_file_is_gone_or_denied_by_its_errno_and_nothing_else_is():
    assert is_gone_or_denied(FileNotFoundError(errno.ENOENT, ""))
    assert is_gone_or_denied(PermissionError(errno.EACCES, ""))
    assert not is_gone_or_denied(OSError(errno.EIO, ""))


# ------------------------------------------------------------------------------ races


def replace_by(make):
    """Take a file or directory away, and put something in its place."""

    def replaced(path):
        path.rename(path.with_name(".was"))
        make(path)

    return replaced


RACES = {
    "vanishes": replace_by(lambda path: None),
    "becomes a link out": replace_by(lambda path: path.symlink_to("/etc/passwd")),
    "becomes a link within": replace_by(lambda path: path.symlink_to(".was")),
    "becomes a pipe": replace_by(pipe),
    "becomes a directory": replace_by(Path.mkdir),
    "becomes a socket": replace_by(unix_socket),
}


@pytest.mark.spec("server/resources/sanitize-file-paths")
@pytest.mark.parametrize("race", RACES.values(), ids=RACES)
@pytest.mark.parametrize("function", ["stat", "open"])
def test_a_file_that_turns_into_something_else_while_it_is_read_is_not_found(
    root, monkeypatch, race, function
):
    write(root, "a.md")
    before(monkeypatch, function, "a.md", lambda: race(root / "a.md"))
    assert refused(root, "a.md") in GONE_ERRNOS


@pytest.mark.spec("server/resources/sanitize-file-paths")
@pytest.mark.parametrize("function", ["stat", "open"])
def test_a_directory_that_turns_into_a_link_on_the_way_ends_the_way(root, monkeypatch, function):
    write(root, "sub/a.md")

    def swap():
        (root / "sub").rename(root / ".was")
        (root / "sub").symlink_to(root.parent / "outside")

    before(monkeypatch, function, "sub" if function == "open" else "a.md", swap)
    assert refused(root, "sub/a.md") in GONE_ERRNOS


@pytest.mark.spec("server/resources/sanitize-file-paths")
def test_a_directory_that_is_open_stays_the_one_it_was(root, monkeypatch):
    write(root, "sub/a.md", text="good")

    def swap():
        (root / "sub").rename(root / ".was")
        (root / "sub").symlink_to(root.parent / "outside")

    before(monkeypatch, "open", "a.md", swap)
    assert read(root, "sub/a.md") == b"good"


@pytest.mark.spec("server/resources/sanitize-file-paths")
def test_no_swapping_gets_anything_out(root):
    """A directory and a link that leads out change places all the time, while others read and list."""
    write(root, "sub/a.md", text="good")
    (root / "link").symlink_to(root.parent / "outside")
    stop, swaps = threading.Event(), []

    def swap():
        while not stop.is_set():
            (root / "sub").rename(root / ".moving")
            (root / "link").rename(root / "sub")
            (root / "sub").rename(root / "link")
            (root / ".moving").rename(root / "sub")
            swaps.append(1)

    swapper = threading.Thread(target=swap, daemon=True)
    swapper.start()
    try:
        assert eventually(lambda: swaps)
        for _ in range(500):
            try:
                assert read(root, "sub/a.md") == b"good"
            except OSError as problem:
                assert problem.errno in GONE_ERRNOS
            assert {file.status.st_size for file in tree(root).files(10, NEVER)[0]} <= {4}
    finally:
        stop.set()
        swapper.join(PATIENCE)
