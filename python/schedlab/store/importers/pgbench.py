"""Text of pgbench, and its log (-l)."""

from schedlab.store.importers.benchmark import MS, Benchmark, N

read = Benchmark(
    "pgbench",
    start=r"transaction type: .*",
    whole=r"tps = .*",
    version=r"pgbench \((?:PostgreSQL\) )?(\d[\w.]*).*",
    figures={
        rf"tps = {N} \((?:without initial connection time|excluding connections establishing|"
        r"including reconnection times)\)": (("transactions_per_s", 1),),
        rf"latency average\s*[=:]\s*{N} ms": (("latency_ns_mean", MS),),
    },
    options={
        r"scaling factor: (\d+)": "scale",
        r"query mode: (\w+)": "query mode",
        r"number of clients: (\d+)": "clients",
        r"number of threads: (\d+)": "threads",
        r"latency average = \S+ ms \((including failures)\)": "latency",
    },
    workloads={r"transaction type: (?:<builtin: (.*)>|(.*))": "{0}"},
    broken=r"Run was aborted.*|pgbench: (?:fatal|error): .*",
    # With -l: client, number, µs, script, end in s and µs, and what more there is.
    logged=r"\d+ \d+ (\d{1,15}) \d+ (\d{9,11}) (\d{1,6})(?: .*)?",
    noted=r"number of (?:failed transactions|transactions skipped): (\d+)\s.*",
).read
