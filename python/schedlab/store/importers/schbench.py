"""Text of schbench."""

from schedlab.store.importers.benchmark import US, Benchmark, N

read = Benchmark(
    "schbench",
    start=r"(?:Wakeup Latencies|Latency) percentiles \(usec\).*",
    titles={"Request Latencies percentiles (usec)": "schbench"},
    whole=rf"average rps: {N}",
    interim=r"current rps: .*",
    sections={
        r"(?:Wakeup Latencies|Latency) percentiles .*": "wakeup",
        r"Request Latencies percentiles .*": "response",
        r"RPS percentiles .*": "_rps",
    },
    figures={
        rf"\s*\*?\s*{N}th: {N}(?:\s.*)?": (("{section}_ns_p{0}", US),),
        rf"\s*min=\d+, max={N}": (("{section}_ns_max", US),),
        rf"average rps: {N}": (("requests_per_s", 1),),
    },
    options={r"(?:setting worker threads to|worker threads:?) (\d+)": "workers"},
    has_end=False,
).read
