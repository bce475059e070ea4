"""Files of foreign tools that are written from known figures, to compare what is imported.

Each function takes a `random.Random` and returns the file's bytes and the metrics of its runs, in
the order of the file. The factors are written out here a second time on purpose.
"""

import json
import struct

KIB, MIB = 1024, 1024 * 1024


def hdparm(rng):
    """Lines of `hdparm -tT` among others; its MB are 2^20 bytes."""
    text, runs = "/dev/sdb:\n", []
    for _ in range(rng.randint(1, 6)):
        what = rng.choice(["cached reads", "buffered disk reads", "O_DIRECT disk reads"])
        unit, factor = rng.choice([("MB", MIB), ("kB", KIB)])
        rate, seconds = round(rng.uniform(0.01, 9999), 2), round(rng.uniform(0.1, 9), 2)
        offset = rng.choice(["", f" (offset {rng.randint(1, 99)} GB)"])
        size = round(rate * seconds)
        text += f" Timing {what}{offset}: {size:5} {unit} in  {seconds:.2f} seconds"
        text += f" = {rate:.2f} {unit}/sec\n"
        runs.append({"throughput_bytes_per_s": rate * factor})
    return text.encode(), runs


def shell_time(rng):
    """Outputs of `time` of bash, POSIX, zsh and GNU."""
    text, runs = "", []
    for _ in range(rng.randint(1, 6)):
        hours, minutes = rng.choice([0, 0, 2]), rng.randrange(60)
        seconds = rng.randint(1, 5999) / 100
        user, system = rng.randrange(6000) / 100, rng.randrange(6000) / 100
        form = rng.randrange(4)
        if form == 0:
            hours, minutes = 0, minutes + 60 * hours
            text += f"real\t{minutes}m{seconds:.2f}s\nuser\t0m{user:.2f}s\nsys\t0m{system:.2f}s\n"
        elif form == 1:
            hours = minutes = 0
            text += f"real {seconds:.2f}\nuser {user:.2f}\nsys {system:.2f}\n"
        elif form == 2:
            wall = (
                f"{hours}:{minutes:02}:{seconds:05.2f}" if hours else f"{minutes}:{seconds:05.2f}"
            )
            text += f"tar xf a.tar  {user:.2f}s user {system:.2f}s system 93% cpu {wall} total\n"
        else:
            wall = (
                f"{hours}:{minutes:02}:{seconds:05.2f}" if hours else f"{minutes}:{seconds:05.2f}"
            )
            text += f"\tUser time (seconds): {user:.2f}\n\tSystem time (seconds): {system:.2f}\n"
            text += f"\tElapsed (wall clock) time (h:mm:ss or m:ss): {wall}\n"
        elapsed = hours * 3600 + minutes * 60 + seconds
        runs.append({"elapsed_s": elapsed, "cpu_s": user + system})
    return text.encode(), runs


def csv_rows(rng):
    """Rows with the columns who, speed (KiB/s) and n, in a shuffled order of the columns."""
    names = ["who", "speed", "n", "note"]
    rng.shuffle(names)
    lines, runs = [",".join(names)], []
    for n in range(rng.randint(1, 8)):
        for who in "ab":
            speed = round(rng.uniform(0.001, 1e6), 3)
            row = {"who": who, "speed": f"{speed}", "n": f"{n}", "note": rng.choice(['"x, y"', ""])}
            lines.append(",".join(row[name] for name in names))
            runs.append({"throughput_bytes_per_s": speed * KIB})
    return "\n".join(lines).encode(), runs


def kernel_log(rng):
    """A log with CPU bursts among other lines."""
    text, bursts, at_s = "", [], 71725.0
    for _ in range(rng.randint(1, 12)):
        at_s += rng.random()
        burst = rng.randint(1, 2_000_000_000)
        name = rng.choice(["CPUBurst", "CPUburst"])
        text += f"[{at_s:.6f}] usb 1-1: a device\n"
        text += f"[{at_s:.6f}] [Pid: {rng.randint(1, 5)}], {name}: {burst}, rt_priority:10\n"
        bursts.append(burst)
    mean_ms = sum(bursts) / len(bursts) / 1e6
    return text.encode(), [{"burst_ms_mean": mean_ms, "cpu_s": sum(bursts) / 1e9}]


def fio(rng):
    """JSON of fio with one or both directions, new (ns) and old (µs) latencies."""
    jobs, runs = [], []
    for number in range(rng.randint(1, 4)):
        job = {"jobname": f"j{number}", "usr_cpu": rng.uniform(0, 50), "sys_cpu": 1.5}
        metrics = {"throughput_bytes_per_s": 0.0, "iops": 0.0}
        active = rng.choice([["read"], ["write"], ["read", "write"]])
        elapsed_ms = 0
        for direction in ("read", "write"):
            job[direction] = part = {"iops": 0, "bw_bytes": 0, "runtime": 0}
            if direction not in active:
                continue
            part["iops"], part["runtime"] = rng.uniform(1, 1e6), rng.randint(1, 90_000)
            rate = rng.randint(1, 10**7) * KIB
            if rng.random() < 0.5:
                part["bw_bytes"] = rate
            else:
                del part["bw_bytes"]
                part["bw"] = rate // KIB
            metrics["throughput_bytes_per_s"] += rate
            metrics["iops"] += part["iops"]
            metrics[f"{direction}_bytes_per_s"] = rate
            elapsed_ms = max(elapsed_ms, part["runtime"])
            key, factor = rng.choice([("lat_ns", 1), ("clat_ns", 1), ("clat", 1000)])
            mean, worst, p50, p99 = (rng.randint(1, 10**6) for _ in range(4))
            percentiles = {"50.000000": p50, "99.000000": p99, "99.950000": 1}
            part[key] = {"mean": mean, "max": worst, "N": 5, "percentile": percentiles}
            prefix = f"{direction}_" if len(active) > 1 else ""
            values = {"mean": mean, "max": worst, "p50": p50, "p99": p99}
            metrics |= {f"{prefix}latency_ns_{what}": v * factor for what, v in values.items()}
        metrics["elapsed_s"] = elapsed_ms / 1e3
        jobs.append(job)
        runs.append(metrics)
    before = rng.choice([b"", b"fio: a warning\n"])
    return before + json.dumps({"jobs": jobs}, indent=rng.choice([None, 2])).encode(), runs


def iozone(rng):
    """Output of IOzone in one of its four layouts; its kB are 1024 bytes."""
    return rng.choice([_throughput_mode, _table, _reports, _cells])(rng)


_TESTS = ("Writer", "Re-writer", "Reader", "Re-reader", "Random read", "Random write")


def _throughput_mode(rng):
    names = ("initial writers", "rewriters", "readers", "re-readers", "random readers")
    units = {"kB/sec": ("throughput_bytes_per_s", KIB), "ops/sec": ("iops", 1)}
    text, runs = f"Record Size {rng.choice([8, 128, 16384])} kB\n", []
    for name in rng.sample(names, rng.randint(1, 5)):
        unit, value = rng.choice([*units]), round(rng.uniform(1, 1e6), 2)
        text += f"\tChildren see throughput for  4 {name} \t=  {value:.2f} {unit}\n"
        text += f"\tParent sees throughput for  4 {name} \t=  {value / 2:.2f} {unit}\n"
        metric, factor = units[unit]
        runs.append({metric: value * factor})
    return (text + "iozone test complete.\n").encode(), runs


def _figures(rng):
    """Whole figures by file size and record size, and the metrics they are."""
    sizes, records = [65536, 131072][: rng.randint(1, 2)], [4, 64, 1024][: rng.randint(1, 3)]
    return sizes, records, lambda: rng.randint(1, 10**7)


# Headers of IOzone 3.4, and where a column of them ends.
_HEADER = (
    "              kB  reclen    write  rewrite    read    reread    read     write     read   "
    "rewrite      read   fwrite frewrite    fread  freread\n"
)
_WIDTHS = (9, 9, 9, 9, 9, 9, 9, 10, 10, 9, 9, 9, 9)


def _table(rng):
    sizes, records, draw = _figures(rng)
    text, runs = _HEADER, []
    tests = [rng.random() < 0.7 for _ in _WIDTHS]
    tests[rng.randrange(len(tests))] = True
    for size in sizes:
        for record in records:
            text += f"{size:16}{record:8}"
            for width, is_run in zip(_WIDTHS, tests, strict=True):
                value = draw() if is_run else ""
                text += f"{value:>{width}}"
                runs += [{"throughput_bytes_per_s": value * KIB}] if is_run else []
            text += "\n"
    return (text + "\niozone test complete.\n").encode(), runs


def _reports(rng):
    sizes, records, draw = _figures(rng)
    text, runs = "Excel output is below:\n\n", []
    for name in rng.sample(_TESTS, rng.randint(1, 3)):
        text += f'"{name} report"\n        ' + " ".join(f'"{record}"' for record in records) + "\n"
        for size in sizes:
            row = [draw() for _ in records]
            text += f'"{size}"  ' + "  ".join(map(str, row)) + "\n"
            runs += [{"throughput_bytes_per_s": value * KIB} for value in row]
        text += "\n"
    return (text + "iozone test complete.\n").encode(), runs


def _cells(rng):
    sizes, records, draw = _figures(rng)
    cells, runs, row = [(0, 0, "iozone -a -b x.xls")], [], 2
    for name in rng.sample(_TESTS, rng.randint(1, 3)):
        cells.append((row, 0, f"{name} report"))
        cells += [(row + 1, 1 + i, float(record)) for i, record in enumerate(records)]
        for number, size in enumerate(sizes):
            values = [draw() for _ in records]
            at = row + 2 + number
            cells.append((at, 0, float(size)))
            cells += [(at, 1 + i, float(value)) for i, value in enumerate(values)]
            runs += [{"throughput_bytes_per_s": value * KIB} for value in values]
        row += 4 + len(sizes)
    return biff(cells), runs


def biff(cells):
    """A BIFF2 file of numbers and labels, given as (row, column, value)."""
    parts = [struct.pack("<HHHH", 9, 4, 2, 16)]
    for row, column, value in cells:
        place = struct.pack("<HH3s", row, column, b"\0\0\0")
        if isinstance(value, str):
            kind, body = 4, place + bytes([len(value)]) + value.encode()
        else:
            kind, body = 3, place + struct.pack("<d", value)
        parts.append(struct.pack("<HH", kind, len(body)) + body)
    return b"".join([*parts, struct.pack("<HH", 10, 0)])


def _several(rng, one):
    """One to four runs, one after the other."""
    parts = [one(rng) for _ in range(rng.randint(1, 4))]
    return "".join(text for text, _ in parts).encode(), [metrics for _, metrics in parts]


def sysbench(rng):
    """Runs of `sysbench cpu`."""

    def one(rng):
        rate, mean, top = (round(rng.uniform(0.01, 9999), 2) for _ in range(3))
        elapsed = round(rng.uniform(0.1, 99), 4)
        text = (
            "sysbench 1.0.20 (using LuaJIT)\n\nRunning the test with following options:\n"
            "Number of threads: 1\n\nPrime numbers limit: 10000\n\nThreads started!\n\nCPU speed:\n"
            f"    events per second: {rate:.2f}\n\nGeneral statistics:\n"
            f"    total time:   {elapsed:.4f}s\n    total number of events:   5006\n\n"
            f"Latency (ms):\n   min:   0.00\n   avg:   {mean:.2f}\n   max:   {top:.2f}\n"
            f"   99th percentile:  {top:.2f}\n   sum:   1983.77\n\nThreads fairness:\n"
        )
        latencies = {"latency_ns_mean": mean * 1e6, "latency_ns_max": top * 1e6}
        latencies |= {"latency_ns_p99": top * 1e6}
        return text, {"events_per_s": rate, "elapsed_s": elapsed, **latencies}

    return _several(rng, one)


def pgbench(rng):
    """Runs of pgbench 15."""

    def one(rng):
        rate, mean = round(rng.uniform(0.01, 9999), 6), round(rng.uniform(0.01, 999), 3)
        text = (
            "pgbench (15.18)\nprogress: 1.0 s, 118.0 tps, lat 15.968 ms stddev 25.707, 0 failed\n"
            "transaction type: <builtin: select only>\nscaling factor: 1\n"
            f"latency average = {mean:.3f} ms\ntps = {rate:.6f} (without initial connection time)\n"
        )
        return text, {"transactions_per_s": rate, "latency_ns_mean": mean * 1e6}

    return _several(rng, one)


def schbench(rng):
    """Runs of schbench, with an interim report."""

    def one(rng):
        p50, p99, top = sorted(rng.randint(1, 99999) for _ in range(3))
        rate = round(rng.uniform(1, 9999), 2)
        figures = f"\t  50.0th: {p50}  (9 samples)\n\t* 99.0th: {p99}  (1 samples)\n\t  min=0, max="
        text = "".join(
            f"Wakeup Latencies percentiles (usec) runtime {at} (s) (9 total samples)\n"
            f"{figures}{top if at == 20 else 7}\n"
            for at in (10, 20)
        )
        named = {"wakeup_ns_p50": p50 * 1e3, "wakeup_ns_p99": p99 * 1e3, "wakeup_ns_max": top * 1e3}
        return f"{text}average rps: {rate:.2f}\n", {"requests_per_s": rate, **named}

    return _several(rng, one)


def hackbench(rng):
    """Runs of hackbench."""

    def one(rng):
        elapsed = rng.randint(1, 99999) / 1000
        mode = "Running in process mode with 2 groups using 40 file descriptors each (== 80 tasks)"
        return f"{mode}\nTime: {elapsed:.3f}\n", {"elapsed_s": elapsed}

    return _several(rng, one)


def iostat(rng):
    """Reports of one device: the first is since the boot."""
    rows = [
        {"disk_device": "sda", "r/s": rng.randint(1, 999), "w/s": rng.randint(1, 999),
         "rkB/s": rng.randint(1, 9999), "wkB/s": rng.randint(1, 9999),
         "r_await": rng.randint(1, 99), "w_await": rng.randint(1, 99)}
        for _ in range(2)
    ]  # fmt: skip
    text = json.dumps({"sysstat": {"hosts": [{"statistics": [{"disk": [row]} for row in rows]}]}})
    last = rows[1]
    reads_ms, writes_ms = last["r/s"] * last["r_await"], last["w/s"] * last["w_await"]
    requests = last["r/s"] + last["w/s"]
    return text.encode(), [{
        "throughput_bytes_per_s": (last["rkB/s"] + last["wkB/s"]) * KIB, "iops": requests,
        "read_bytes_per_s": last["rkB/s"] * KIB, "write_bytes_per_s": last["wkB/s"] * KIB,
        "latency_ns_mean": (reads_ms + writes_ms) / requests * 1e6,
        "read_latency_ns_mean": last["r_await"] * 1e6,
        "write_latency_ns_mean": last["w_await"] * 1e6,
    }]  # fmt: skip


def switches(rng):
    """Two tasks in turn on one CPU, as ftrace and trace-cmd print them."""
    now_us, step_us, total_us, bursts, lines = rng.randint(1, 10**9), 0, 0, 0, []
    for number in range(rng.randint(2, 20)):
        one, other = 7 + number % 2, 8 - number % 2
        if rng.random() < 0.5:
            rest = (f"prev_comm=a b prev_pid={one} prev_prio=120 prev_state=S ==> "
                    f"next_comm=c next_pid={other} next_prio=120")  # fmt: skip
        else:
            rest = f"a b:{one} [120] S ==> c:{other} [120]"
        lines.append(f"  a b-{one}  [000] d..2. {now_us / 1e6:.6f}: sched_switch: {rest}\n")
        if number:
            total_us, bursts = total_us + step_us, bursts + 1
        step_us = rng.randint(1, 10**6)
        now_us += step_us
    metrics = {"burst_ms_mean": total_us / bursts / 1e3, "cpu_s": total_us / 1e6}
    return "".join(lines).encode(), [metrics]
