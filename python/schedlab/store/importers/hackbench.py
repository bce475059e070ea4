"""Text of hackbench, and of perf bench."""

from schedlab.store.importers.benchmark import Benchmark, N

read = Benchmark(
    "hackbench",
    start=r"Running in \w+ mode with .*|Running with \d+\*\d+ \(== \d+\) tasks\.?"
    r"|# Running '?sched/messaging'? benchmark.*",
    whole=rf"Time: {N}|\s*Total time: {N} \[sec\]",
    figures={
        rf"Time: {N}": (("elapsed_s", 1),),
        rf"\s*Total time: {N} \[sec\]": (("elapsed_s", 1),),
    },
    options={
        r"Running in (\w+) mode with .*": "mode",
        r"Running in \w+ mode with (\d+) groups .*": "groups",
        r"# (\d+) groups == .*": "groups",
        r".*\(== (\d+)\)? tasks\)?\.?": "tasks",
        r"Each sender will pass (\d+) messages of \d+ bytes": "messages",
        r"Each sender will pass \d+ messages of (\d+) bytes": "bytes",
    },
).read
