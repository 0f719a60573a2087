"""runtime/threads/workers: as many threads as are needed, up to a limit; every job once; a queue with an
end.
"""

import gc
import logging
import threading
import weakref

import pytest
from peers import PATIENCE, eventually, nothing_left

from mcp_ref.runtime.threads import workers as module
from mcp_ref.runtime.threads.workers import QueueFull, Workers


@pytest.fixture(autouse=True)
def no_thread_stays():
    with nothing_left():
        yield


@pytest.fixture
def own_threads():
    """A function that returns the threads of pools of this test; those of others may end later."""
    before = set(threading.enumerate())
    names = "mcp_ref worker", "mcp_ref foreman"
    return lambda: [t for t in set(threading.enumerate()) - before if t.name.startswith(names)]


@pytest.fixture
def pool():
    """Make pools; they are closed after the test."""
    made = []

    def make(*args, **options):
        made.append(Workers(*args, **options))
        return made[-1]

    yield make
    for workers in made:
        workers.close(PATIENCE)


class Gate:
    """Jobs that start, say so, and stay until they are let go."""

    def __init__(self):
        self.started = threading.Semaphore(0)
        self.open = threading.Event()

    def job(self, nothing):
        self.started.release()
        assert self.open.wait(PATIENCE)

    def wait_for(self, count):
        for _ in range(count):
            assert self.started.acquire(timeout=PATIENCE)


# -- running ----------------------------------------------------------------------------------


def test_a_job_runs_with_its_argument_on_a_worker(pool):
    seen = []
    done = threading.Event()
    pool().submit(lambda what: (seen.append((what, threading.current_thread())), done.set()), "it")
    assert done.wait(PATIENCE)
    [(what, thread)] = seen
    assert what == "it"
    assert thread.name.startswith("mcp_ref worker ")
    assert thread.daemon  # a tool that never returns must not keep the process alive


def test_no_thread_before_there_is_a_job():
    before = set(threading.enumerate())
    Workers()
    assert set(threading.enumerate()) <= before  # those of other tests may end


@pytest.mark.parametrize("limit", [1, 2, 8])
def test_it_grows_on_demand_to_the_limit_and_not_beyond(pool, limit):
    workers = pool(limit)
    gate = Gate()
    for _ in range(limit + 3):
        workers.submit(gate.job, None)
    gate.wait_for(limit)
    assert not gate.started.acquire(timeout=0.02)  # what exceeds the limit waits
    assert workers.waiting == 3
    gate.open.set()
    gate.wait_for(3)


def test_what_waits_is_weighed(pool):
    workers, gate = pool(1, 100, queue_bytes=1000), Gate()
    workers.submit(gate.job, None, size=5000)  # it runs, and does not wait
    gate.wait_for(1)
    workers.submit(gate.job, None, size=600)
    workers.submit(gate.job, None, size=400)
    assert (workers.waiting, workers.waiting_bytes) == (2, 1000)
    with pytest.raises(QueueFull):
        workers.submit(gate.job, None, size=1)
    workers.submit(gate.job, None)
    workers.submit(gate.job, None, size=1, always=True)
    gate.open.set()
    gate.wait_for(4)
    assert eventually(lambda: workers.waiting_bytes == 0)


def test_one_job_may_be_of_any_size(pool):
    """Else what is larger than the bound could never be done."""
    workers, gate = pool(2, 100, queue_bytes=1000), Gate()
    for _ in range(2):
        workers.submit(gate.job, None, size=5000)
    gate.wait_for(2)
    workers.submit(gate.job, None, size=5000)
    with pytest.raises(QueueFull):
        workers.submit(gate.job, None, size=5000)
    gate.open.set()
    gate.wait_for(1)


def test_a_long_job_holds_up_no_other(pool):
    """Jobs that come right behind one that blocks get a thread of their own."""
    workers = pool(20)
    gate = Gate()
    quick = threading.Semaphore(0)
    for _ in range(10):
        workers.submit(gate.job, None)
        workers.submit(lambda nothing: quick.release(), None)
    for _ in range(10):
        assert quick.acquire(timeout=PATIENCE)
    gate.wait_for(10)
    gate.open.set()


def test_jobs_may_wait_for_each_other_as_long_as_the_limit_holds_them_all(pool):
    workers = pool(16)
    together = threading.Barrier(16)
    passed = threading.Semaphore(0)

    def meet(nothing):
        together.wait(PATIENCE)
        passed.release()

    for _ in range(3):
        for _ in range(16):
            workers.submit(meet, None)
        for _ in range(16):
            assert passed.acquire(timeout=PATIENCE)


def test_a_worker_that_is_free_is_used_again(pool):
    workers = pool(50)
    names = set()
    for _ in range(30):
        done = threading.Event()
        workers.submit(lambda done: (names.add(threading.current_thread().name), done.set()), done)
        assert done.wait(PATIENCE)
    assert len(names) < 30


@pytest.mark.parametrize(("limit", "idle"), [(8, 10.0), (1, 10.0), (8, 0.0001)])
def test_ten_thousand_jobs_each_run_exactly_once(pool, limit, idle):
    """From four threads at once; also while workers keep leaving because they are idle so soon."""
    workers = pool(limit, 10_000, idle)
    ran = []  # appends are atomic
    begin = threading.Barrier(4)

    def submit_all(start):
        begin.wait(PATIENCE)
        for number in range(start, 10_000, 4):
            workers.submit(ran.append, number)

    threads = [threading.Thread(target=submit_all, args=(start,)) for start in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert eventually(lambda: len(ran) >= 10_000)
    assert workers.waiting == 0
    assert sorted(ran) == list(range(10_000))


def test_with_one_worker_jobs_run_in_the_order_in_which_they_came(pool):
    workers = pool(1)
    ran = []
    done = threading.Event()
    for number in range(500):
        workers.submit(ran.append, number)
    workers.submit(lambda nothing: done.set(), None)
    assert done.wait(PATIENCE)
    assert ran == list(range(500))


def test_jobs_with_pauses_between_them_are_all_taken(pool):
    """Each is submitted when its worker is just about to leave, or has just left."""
    workers = pool(4, idle=0.001)
    for turn in range(200):
        done = threading.Event()
        workers.submit(lambda done: done.set(), done)
        assert done.wait(PATIENCE)
        threading.Event().wait(0.001 * (turn % 3) / 2)


# -- the end of the queue ---------------------------------------------------------------------


def test_a_full_queue_refuses_at_once_and_loses_nothing(pool):
    workers = pool(2, 5)
    gate = Gate()
    for _ in range(2):
        workers.submit(gate.job, None)
    gate.wait_for(2)
    for _ in range(5):
        workers.submit(gate.job, None)
    assert workers.waiting == 5
    with pytest.raises(QueueFull):
        workers.submit(gate.job, None)
    gate.open.set()
    gate.wait_for(5)
    assert not gate.started.acquire(timeout=0.02)  # the refused one does not run


def test_after_a_refusal_there_is_room_again(pool):
    workers = pool(1, 1)
    gate = Gate()
    workers.submit(gate.job, None)
    gate.wait_for(1)
    workers.submit(gate.job, None)
    with pytest.raises(QueueFull):
        workers.submit(gate.job, None)
    gate.open.set()
    gate.wait_for(1)
    done = threading.Event()
    workers.submit(lambda nothing: done.set(), None)
    assert done.wait(PATIENCE)


@pytest.mark.parametrize(("limit", "queue"), [(2, 0), (3, 1), (10, 5)])
def test_as_many_as_may_run_and_as_many_as_may_wait_are_taken_in_one_go(pool, limit, queue):
    """A job for which a worker is on its way does not count as waiting."""
    workers = pool(limit, queue)
    gate = Gate()
    for _ in range(limit + queue):
        workers.submit(gate.job, None)
    gate.wait_for(limit)
    with pytest.raises(QueueFull):
        workers.submit(gate.job, None)
    gate.open.set()
    gate.wait_for(queue)


# -- idleness ---------------------------------------------------------------------------------


def test_workers_without_a_job_end(own_threads):
    """Nobody closes this pool: its threads go by themselves, which the fixture checks."""
    workers = Workers(4, idle=0.01)
    gate = Gate()
    for _ in range(4):
        workers.submit(gate.job, None)
    gate.wait_for(4)
    gate.open.set()
    assert eventually(lambda: not own_threads())
    done = threading.Event()
    workers.submit(lambda nothing: done.set(), None)  # and it starts again when there is one
    assert done.wait(PATIENCE)


def test_a_job_that_is_over_is_not_kept_alive(pool):
    """What an idle worker did last may be large."""

    class Large:
        pass

    workers = pool()
    large = Large()
    gone = weakref.ref(large)
    done = threading.Event()
    workers.submit(lambda what: done.set(), large)
    del large
    assert done.wait(PATIENCE)

    def is_gone():
        gc.collect()
        return gone() is None

    assert eventually(is_gone)


# -- jobs that fail ---------------------------------------------------------------------------


@pytest.mark.parametrize("problem", [ValueError("no"), SystemExit(3), KeyboardInterrupt(), RecursionError()])
def test_a_job_that_raises_is_logged_and_its_worker_goes_on(pool, caplog, problem):
    workers = pool(1)
    done = threading.Event()

    def fail(nothing):
        raise problem

    with caplog.at_level(logging.ERROR, "mcp_ref.workers"):
        workers.submit(fail, None)
        workers.submit(lambda nothing: done.set(), None)
        assert done.wait(PATIENCE)
    [record] = caplog.records
    assert record.message == "a job failed"
    assert record.exc_info[1] is problem


# -- closing ----------------------------------------------------------------------------------


def test_close_waits_for_what_runs_and_drops_what_waits(own_threads):
    workers = Workers(1)
    gate = Gate()
    dropped = []
    workers.submit(gate.job, None)
    gate.wait_for(1)
    for number in range(5):
        workers.submit(dropped.append, number)
    closed = []
    closer = threading.Thread(target=lambda: closed.append(workers.close(PATIENCE)))
    closer.start()
    assert eventually(lambda: workers.waiting == 0)
    assert not closed
    gate.open.set()
    closer.join(PATIENCE)
    assert closed == [True]
    assert not own_threads()
    assert not dropped


def test_close_says_when_a_job_does_not_end():
    workers = Workers()
    gate = Gate()
    workers.submit(gate.job, None)
    gate.wait_for(1)
    assert workers.close(0.01) is False
    gate.open.set()
    assert workers.close(PATIENCE) is True


def test_close_ends_workers_that_sleep(own_threads):
    workers = Workers(4, idle=3600)
    gate = Gate()
    for _ in range(4):
        workers.submit(gate.job, None)
    gate.wait_for(4)
    gate.open.set()
    assert workers.close(PATIENCE)
    assert not own_threads()


def test_close_of_a_pool_without_threads_returns_at_once():
    assert Workers().close(0)


def test_a_job_after_close_is_dropped(own_threads):
    workers = Workers(1)
    workers.close(PATIENCE)
    ran = []
    workers.submit(ran.append, 1)
    assert workers.waiting == 0
    assert not own_threads()
    assert not ran


def test_close_twice_and_from_two_threads_at_once():
    for _ in range(50):
        workers = Workers(2, idle=3600)
        gate = Gate()
        workers.submit(gate.job, None)
        workers.submit(gate.job, None)
        gate.wait_for(2)
        gate.open.set()
        problems = []

        def close(workers=workers, problems=problems):
            try:
                workers.close(PATIENCE)
            except Exception as problem:
                problems.append(problem)

        workers.close(0)
        closers = [threading.Thread(target=close) for _ in range(2)]
        for closer in closers:
            closer.start()
        for closer in closers:
            closer.join(PATIENCE)
        assert not problems


def test_a_job_may_close_its_own_pool():
    """It does not wait for itself."""
    workers = Workers()
    closed = []
    done = threading.Event()
    workers.submit(lambda nothing: (closed.append(workers.close(PATIENCE)), done.set()), None)
    assert done.wait(PATIENCE)
    assert closed == [True]


def test_no_job_runs_after_close(own_threads):
    """Submitting and closing race; what runs, runs before `close` returns."""
    for _ in range(20):
        workers = Workers(4)
        ran = []
        begin = threading.Barrier(2)

        def submit(workers=workers, ran=ran, begin=begin):
            begin.wait(PATIENCE)
            for number in range(200):
                workers.submit(ran.append, number)

        submitter = threading.Thread(target=submit)
        submitter.start()
        begin.wait(PATIENCE)
        assert workers.close(PATIENCE)
        count = len(ran)
        submitter.join(PATIENCE)
        assert len(ran) == count
        assert not own_threads()


# -- a system without threads to give ---------------------------------------------------------


@pytest.fixture
def supply(monkeypatch):
    """How many more threads can be started; None is any number."""
    left = {"all": None}
    start = threading.Thread.start

    def refuse(thread):
        if left["all"] is not None:
            if left["all"] <= 0:
                raise RuntimeError("can't start new thread")
            left["all"] -= 1
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", refuse)
    return left


def test_without_a_thread_for_the_first_job_it_is_refused_and_the_next_may_have_one(pool, supply, caplog):
    workers, done = pool(), threading.Event()
    supply["all"] = 0
    with caplog.at_level(logging.ERROR, "mcp_ref.workers"):
        for _ in range(3):
            with pytest.raises(QueueFull):
                workers.submit(lambda nothing: None, None)
    assert "no more threads" in caplog.text
    assert workers.waiting == 0
    supply["all"] = None
    workers.submit(lambda nothing: done.set(), None)
    assert done.wait(PATIENCE)


def test_with_fewer_threads_than_wanted_all_jobs_are_done_by_those_there_are(pool, supply, caplog):
    """And when there are threads again, the pool grows again."""
    workers, gate, done = pool(), Gate(), threading.Semaphore(0)
    supply["all"] = 1
    with caplog.at_level(logging.ERROR, "mcp_ref.workers"):
        workers.submit(gate.job, None)
        gate.wait_for(1)
        for _ in range(20):
            workers.submit(lambda nothing: done.release(), None)
            assert not done.acquire(blocking=False)
    supply["all"] = None
    workers.submit(lambda nothing: done.release(), None)
    for _ in range(21):
        assert done.acquire(timeout=PATIENCE)  # though the first job is still there
    gate.open.set()


def test_a_pool_that_could_not_grow_can_be_closed(supply, caplog):
    workers, gate = Workers(), Gate()
    supply["all"] = 1
    workers.submit(gate.job, None)
    gate.wait_for(1)
    workers.submit(lambda nothing: None, None)
    gate.open.set()
    assert workers.close(PATIENCE)


def test_a_job_that_must_be_taken_is_taken_though_the_queue_is_full(pool):
    workers, gate, done = pool(1, queue=1), Gate(), threading.Event()
    workers.submit(gate.job, None)
    gate.wait_for(1)
    workers.submit(gate.job, None)
    with pytest.raises(QueueFull):
        workers.submit(gate.job, None)
    assert workers.submit(lambda nothing: done.set(), None, always=True) is True
    gate.open.set()
    assert done.wait(PATIENCE)


def test_close_may_have_what_waits_done_first():
    workers, gate, done = Workers(1), Gate(), []
    workers.submit(gate.job, None)
    gate.wait_for(1)
    for number in range(5):
        workers.submit(done.append, number)
    gate.open.set()
    assert workers.close(PATIENCE, drop=False)
    assert done == [0, 1, 2, 3, 4]
    assert workers.submit(done.append, 5) is False


def test_close_also_waits_for_the_threads_that_the_foreman_starts_after_it_began(monkeypatch, own_threads):
    """Three long jobs wait; close has one more worker started, and the foreman the next one, a tick later."""
    monkeypatch.setattr(module, "TICK_SECONDS", 0.2)
    workers, first, last = Workers(3), Gate(), Gate()
    workers.submit(first.job, None)
    first.wait_for(1)
    workers.submit(first.job, None)
    workers.submit(last.job, None)
    closed = []
    closing = threading.Thread(target=lambda: closed.append(workers.close(PATIENCE, drop=False)))
    closing.start()
    last.wait_for(1)
    first.open.set()
    assert eventually(lambda: len(own_threads()) == 1)
    closing.join(0.1)  # a close that waits for the first two alone ends now
    assert closed == []
    last.open.set()
    closing.join(PATIENCE)
    assert closed == [True]
