"""Text of sysbench: cpu, fileio, oltp, memory."""

from schedlab.store.importers.benchmark import MIB, MS, Benchmark, N

read = Benchmark(
    "sysbench",
    start=r"Running the test with following options:",
    whole=r"Threads fairness:|\s*execution time \(avg/stddev\):.*",
    version=r"sysbench (\d[\w.]*).*",
    titles={
        "CPU speed:": "cpu",
        "SQL statistics:": "oltp",
        "OLTP test statistics:": "oltp",
        "File operations:": "fileio",
        "Total operations:": "memory",
        "Operations performed:": "sysbench",
        "General statistics:": "sysbench",
        "Test execution summary:": "sysbench",
    },
    figures={
        rf"\s*events per second:\s+{N}": (("events_per_s", 1),),
        rf"\s*reads/s:\s+{N}": (("+iops", 1),),
        rf"\s*writes/s:\s+{N}": (("+iops", 1),),
        rf"\s*read, MiB/s:\s+{N}": (("+throughput_bytes_per_s", MIB), ("read_bytes_per_s", MIB)),
        rf"\s*written, MiB/s:\s+{N}": (
            ("+throughput_bytes_per_s", MIB),
            ("write_bytes_per_s", MIB),
        ),
        # 0.4: MiB, called Mb.
        rf".*Total transferred \S+\s+\({N}Mb/sec\)": (("throughput_bytes_per_s", MIB),),
        rf"\s*{N} Requests/sec executed": (("iops", 1),),
        rf".* MiB transferred \({N} MiB/sec\)": (("throughput_bytes_per_s", MIB),),
        rf"\s*transactions:\s+\d+\s+\({N} per sec\.\)": (("transactions_per_s", 1),),
        rf"\s*(?:queries|read/write requests):\s+\d+\s+\({N} per sec\.\)": (("queries_per_s", 1),),
        rf"\s*avg:\s+{N}(?:ms)?": (("latency_ns_mean", MS),),
        rf"\s*max:\s+{N}(?:ms)?": (("latency_ns_max", MS),),
        rf"\s*(?:approx\.\s+)?{N}(?:th)? percentile:\s+{N}(?:ms)?": (("latency_ns_p{0}", MS),),
        rf"\s*sum:\s+{N}": (("_sum_ns", MS),),
        rf"\s*total number of events:\s+{N}": (("_events", 1),),
        rf"\s*total time:\s+{N}s": (("elapsed_s", 1),),
    },
    options={
        r"Number of threads: (\d+)": "threads",
        r"(?:Prime numbers limit|Maximum prime number checked in CPU test): (\d+)": "prime limit",
        r"(\S+) total file size": "file size",
        r"\s*[Bb]lock size:? (\S+)": "block size",
        r"Read/Write ratio for combined random IO test: (\S+)": "read/write ratio",
        r"Periodic FSYNC enabled, calling fsync\(\) each (\d+) requests\.": "requests per fsync",
        r"Using (\w+) I/O mode": "I/O mode",
        r"Extra file open flags: (.*)": "open flags",
        r"\s*operation: (\w+)": "operation",
    },
    workloads={
        r"Prime numbers limit:.*|Maximum prime.*": "cpu",
        r"Doing (.+) test": "fileio {0}",
        r"Running (?:the following )?(memory) .*test.*": "{0}",
        r"SQL statistics:|OLTP test statistics:": "oltp",
    },
    broken=r"FATAL: .*",
    noted=r"\s*ignored errors:\s+(\d+)\s.*",
).read
