"""Where simulations run: threads of this process, or the workers of a Dask cluster.

Both offer the interface of `concurrent.futures`; the simulator runs without the GIL.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import (
    FIRST_COMPLETED,
    Executor,
    Future,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
    wait,
)
from multiprocessing import get_context
from typing import TYPE_CHECKING, Any, TypeVar

from schedlab.errors import SpecError, to_install
from schedlab.nouns.names import is_policy_file
from schedlab_sim.results import SimResult

if TYPE_CHECKING:
    from distributed import Client

    from schedlab_sim._simulators import SimStop
    from schedlab_sim.simulation import Simulation

T = TypeVar("T")
R = TypeVar("R")

# How long Ctrl-C may go unnoticed.
SIGNAL_POLL_S = 0.05
# How often Dask gives a point whose worker died to another worker.
RETRIES = 10
FETCHED_AT_ONCE = 4


def run_threads(simulations: Sequence[Simulation]) -> list[SimResult]:
    """Results in the order of `simulations`; on an error or Ctrl-C all that run are stopped.

    Policies in Python hold the interpreter: they run in processes, unless there is only one.
    """
    if len(simulations) > 1 and any(is_policy_file(each.policy) for each in simulations):
        with processes() as pool:
            return list(pool.map(_run, simulations))
    return map_threads(lambda simulation, stop: simulation.run(stop), simulations)


def _run(simulation: Simulation) -> SimResult:
    return simulation.run()


def map_threads(work: Callable[[T, SimStop], R], items: Sequence[T]) -> list[R]:
    """`work` on every item in threads, in their order; on an error or Ctrl-C all are stopped."""
    with threads() as (pool, stop):
        futures = [pool.submit(work, item, stop) for item in items]
        for future in completed(futures):
            future.result()
        return [future.result() for future in futures]


@contextlib.contextmanager
def threads() -> Iterator[tuple[Executor, SimStop]]:
    """A thread for each core, and what ends their simulations; leaving it ends all of them."""
    from schedlab_sim import _simulators

    stop = _simulators.SimStop()
    pool = ThreadPoolExecutor(os.cpu_count())
    try:
        yield pool, stop
    finally:
        stop.set()
        pool.shutdown(cancel_futures=True)


@contextlib.contextmanager
def processes() -> Iterator[Executor]:
    """A process for each core: policies in Python hold the interpreter."""
    pool = ProcessPoolExecutor(os.cpu_count(), get_context("spawn"))
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)


def completed(futures: Iterable[Future[R]]) -> Iterator[Future[R]]:
    """Each future as it is done. Waits are short, because one without a limit does not end when
    another thread gets SIGINT, or when it comes just before the wait: Ctrl-C would be heard when
    a simulation is over.
    """
    left = set(futures)
    while left:
        done, left = wait(left, SIGNAL_POLL_S, FIRST_COMPLETED)
        yield from done


@contextlib.contextmanager
def dask_executor(where: str) -> Iterator[Executor]:
    """The executor of a cluster at `tcp://host:port`, or of `local:N` worker processes here."""
    try:
        from distributed import Client, LocalCluster
    except ImportError:
        hint = to_install("distributed")
        raise SpecError("--dask needs the package distributed", hint) from None
    kind, _, count = where.partition(":")
    with contextlib.ExitStack() as stack:
        address: object = where
        if kind == "local":
            if not count.isdigit() or not int(count):
                raise SpecError(f"--dask {where}: expected local:N", "for example --dask local:2")
            workers = LocalCluster(  # type: ignore[no-untyped-call]
                n_workers=int(count), threads_per_worker=1, dashboard_address=None
            )
            address = stack.enter_context(workers)
        try:
            client = stack.enter_context(
                Client(address, timeout="10s")  # type: ignore[no-untyped-call]
            )
        except (OSError, ValueError) as error:
            raise SpecError(f"--dask {where}: {error}", "is the scheduler running?") from None
        pool = _ClusterExecutor(client)
        try:
            yield pool
        finally:
            pool.shutdown(wait=False, cancel_futures=True)  # its threads end with the client


class _ClusterExecutor(ThreadPoolExecutor):
    """Threads that fetch the answers of a cluster in the order of the questions.

    Dask's own executor looks at the state of an answer after it has fetched it, and fails when its
    worker has died in between (distributed/cfexecutor.py).
    """

    def __init__(self, client: Client) -> None:
        super().__init__(FETCHED_AT_ONCE)
        self._client = client

    def submit(self, work: Callable[..., R], /, *args: Any, **options: Any) -> Future[R]:
        """Give it to the cluster at once."""
        answer = self._client.submit(work, *args, **options, retries=RETRIES, pure=False)
        return super().submit(answer.result)
