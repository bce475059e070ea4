"""What every command of schedlab takes, as it is typed; test_cli_options.py tries each word.

--name            a flag
--name=KIND       has a value: a kind of KINDS, a range LOW..HIGH, or words with | between them
…                 may be repeated, or: any number of words
!                 must be typed
[x]  (x)          its value where it is not typed, shown by --help or not
--yes|--no        a pair of flags
NAME  [NAME]      a word that must be there, and one that need not
"""

TARGET = """
--scratch=SIZE --scratch-directory=PATH[/var/tmp] --fs=ext4|xfs|btrfs|none --model=TEXT
--queue-depth=1..128 --dilate=1.0..(1.0) --rotational=0|1|as-is --device=PATH --read-only
--destroy-data=PATH --allow-unknown-data --directory=PATH --size=SIZE --switch=TEXT """
LOAD = """
--workloads=WORDS --tests=WORDS --records=SIZES --depth=1..4096[1] --workers=1..1024[1] --buffered
--engine=own|fio[own] --seconds=TIME --archive=FILE --archive-size=SIZE[64M]
--decompressor=none|gzip|xz|zstd[none] --program=TEXT """
DESIGN = """
--blocks=1..10000 --budget=TIME --quick --until-decided --precision=SHARE --may-extend=2..
--sessions=1..100[1] --margin=SHARE[2%] --aa|--no-aa(--aa)
--goal=throughput|latency|fairness|responsiveness """
STARTED = """
--metric=TEXT… --setup=TEXT --cleanup=TEXT --prepare=TEXT --conclude=TEXT --user=TEXT
--timeout=TIME --env=TEXT… --clear-env --stdin=PATH --ok-exit=0..255… --ignore-exit --shell
--keep-daemons --output-limit=SIZE --warm-up=0..100 --rehearse """
FILES = """
--fio=PATH --cache=cold|drop|warm|as-is --sync=inside|outside --settle=TIME --copy-in=PATH
--fresh=never|block|run --anyway """
MEASURED = "--seed=0..4294967295 --out=PATH --dry-run --json "
IMPORT = "--out=PATH! --title=TEXT --baseline=TEXT --control=TEXT… --json "
IMPORT += "--blocked|--unblocked[--unblocked] "
TRACE = """
--trace=TEXT --volumes=TEXT(refuse) --fit=refuse|wrap|compact|scale(refuse) --time-scale=FLOAT
--closed=1.. --skip-bad-lines """
SCHEDULED = """
--scheduler=TEXT --schedulers=TEXT --processes=TEXT --tags=1.. --nr-requests=1.. --window=1..
--size=TEXT --seconds=FLOAT --gantt=PATH """
READING = "--skip-bad-lines --reorder=0..16777216 --event=queue|dispatch|complete[queue] --json "
STATE = "--state-directory=DIRECTORY "

COMMANDS = {
    "analyse": "DIRECTORY --goal=throughput|latency|fairness|responsiveness --json",
    "apply": "WHAT [DEVICE…] --set=TEXT… --persist --tuned --anyway --dry-run --root=PATH(/)"
    " --json",
    "compare": "[COMMAND…] --schedulers=TEXT --labels=TEXT --explain --resume=PATH"
    + TARGET + LOAD + DESIGN + STARTED + FILES + MEASURED,
    "completion": "SHELL",
    "cpu compare": "[COMMAND…] --policies=TEXT[other,batch,fifo] --apply-to=work|load|all[work]"
    " --workloads=WORDS --load=0..1000 --cpus=CPUS --seconds=TIME --explain --directory=PATH"
    " --resume=PATH" + STARTED + DESIGN + MEASURED,
    "cpu cost": "[RESULT] --cpu=CPUS --slices=QUANTA[1,4,10,12,100] --batches=3..1000[15]"
    " --switches=10..10000000[4000] --json",
    "cpu run": "N TIME --policy=other|batch|idle|fifo|rr|deadline|ext[other] --priority=INT[10]"
    " --slice=FLOAT --cpu=CPUS --cpuset --compat=spec|sample[spec]"
    " --kernel=elementwise|matmul[elementwise] --json",
    "cpu sweep": "--slices=QUANTA[1,10,100] --processes=1..1000[2] --time=TIME[30s]"
    " --repeat=1..10000[5] --policy=rr|other|batch[rr] --priority=INT[10] --cpu=CPUS"
    " --kernel=elementwise|matmul[elementwise] --precision --budget=TIME[60s] --aa|--no-aa"
    " --resume=PATH " + MEASURED,
    "device down": "[NAME] --all " + STATE,
    "device list": "--json " + STATE,
    "device models": "",
    "device up": "MODEL --size=SIZE --queue-depth=1..128 --policy=TEXT --service=serial|parallel"
    " --dilate=1.0..[1.0] --data=TEXT[memory] --set=TEXT… --name=TEXT --json " + STATE,
    "diff": "FIRST SECOND --despite --html=PATH --json",
    "docs": "[PAGE]",
    "doctor": "--directory=PATH(.) --path=PATH --quanta=TEXT --json",
    "export": "FOLDER --format=fio|iozone! --out=PATH! --json",
    "import csv": "FILE --candidate=TEXT! --value=TEXT! --workload=TEXT --block=TEXT --unit=TEXT"
    " --metric=TEXT --unit-column=TEXT --metric-column=TEXT --higher-is-better|--lower-is-better"
    " --binary-units --sum=TEXT --set=TEXT… --cpu-share=TEXT… --published-means=PATH " + IMPORT,
    "import dmesg": "FILE… " + IMPORT,
    "import fio": "FILE… " + IMPORT,
    "import hdparm": "FILE… " + IMPORT,
    "import iozone": "FILE… " + IMPORT,
    "import time": "FILE… --workload=TEXT[command] " + IMPORT,
    "init": "[FILE] --lab=TEXT --scale=small|full[small]",
    "io extract": "ARCHIVE --directory=DIRECTORY[.] --make-archive --size=SIZE[256M]"
    " --decompressor=none|gzip|xz|zstd[none] --repeat=1..1000[1] --json",
    "io get": "[DEVICE…] --json",
    "io list": "[DEVICE…] --json",
    "io run": "--test=TEXT! --file=PATH! --size=SIZE --record=SIZE[4k] --depth=1..32767[1]"
    " --workers=1..1024[1] --engine=psync|io_uring|mmap --batch=1..32767(1)"
    " --direct|--buffered(--buffered) --sync=none|dsync|sync(none) --fsync --seconds=TIME"
    " --ramp=TIME --rate=FLOAT --arrivals=poisson|constant[poisson] --read-percent=0..100(50)"
    " --with-replacement --verify --iopoll --sqpoll --allow-fallback --overwrite"
    " --destroy-data=PATH --seed=0..9223372036854775807[1] --json",
    "io set": "SCHEDULER DEVICE… --json",
    "io sweep": "--block-sizes=SIZES[512,1k,2k,4k,8k,16k,32k,64k,128k,256k,512k,1M]"
    " --modes=WORDS[sync,direct,mmap] --bytes=SIZE --calls=1.. --direction=read|write(write)"
    " --blocks=1..1000[6]" + TARGET + MEASURED,
    "io timings": "DEVICE… --direct --json",
    "lab list": "--json",
    "lab run": "NAME --scale=small|full[small] --schedulers=TEXT --blocks=1..10000"
    + TARGET + MEASURED,
    "merge": "FOLDER… --out=PATH --json",
    "recover": "--dry-run --json " + STATE,
    "report": "DIRECTORY --html=FILE --xlsx=FILE --markdown --csv --lang=en|ko|ru[en]"
    " --goal=throughput|latency|fairness|responsiveness --json",
    "reproduce": "DIRECTORY --trust --destroy-data=PATH --out=PATH --json",
    "run": "[FILE] --trust --destroy-data=PATH --resume=PATH --blocks=1..10000 --budget=TIME"
    " --sessions=1..100 --out=PATH --dry-run --json",
    "sim compare": "--device=TEXT[ncq2014] --set=TEXT… --workloads=TEXT[A,B,C,D]"
    " --policies=TEXT[fcfs,s,ts,tsb] --buffer=TEXT --service=serial|parallel(serial)"
    " --requests=1..[20000] --seeds=2..1000[8] --seed=0..[1] --warm-up=TEXT(none)"
    " --metric=TEXT[mean_read_ms] --out=PATH --dry-run --json" + TRACE + SCHEDULED,
    "sim cpu": "--policy=TEXT[rr] --tasks=TEXT --processes=INT --time=NS --calculation=NS"
    " --quantum=NS[4ms] --cpus=INT[1] --switch-cost=NS[0] --hz=INT --aging=NS --levels=INT[3]"
    " --boost=NS --latency=NS[24ms] --wakeup-granularity=NS --kernel=6.6|6.12|6.15 --set=TEXT…"
    " --seed=INT --gantt=text|svg|none(text) --from=NS(0) --to=NS --width=INT --measured=PATH"
    " --validate=PATH --quiz --json",
    "sim disk": "--device=TEXT[disk7200] --set=TEXT… --import=TEXT --policy=TEXT[fcfs]"
    " --workload=TEXT[random4k] --record=TEXT --span=TEXT(0) --depth=INT --rate=FLOAT"
    " --requests=INT --seeds=1..1000[8] --seed=0..(1) --log=PATH --out=PATH --dry-run --json"
    + TRACE + SCHEDULED,
    "sim kernel-check": "--cells=TEXT[1-11] --seconds=FLOAT[10.0] --blocks=1..20[2]"
    " --tag-retaken=0.0..1.0[0.9] --json",
    "sim ncq-study": "--requests=100..[20000] --seeds=1..[8] --out=PATH --json",
    "sim run": "--device=TEXT[ncq2014] --set=TEXT… --workload=TEXT(A) --rate=FLOAT"
    " --policy=TEXT(fcfs) --buffer=TEXT --alpha=FLOAT[0.9]"
    " --aging=dispatch-overtake|shorter-arrival|every-arrival[dispatch-overtake]"
    " --service=serial|parallel(serial) --requests=1.. --seeds=1..[8] --seed=0..(1)"
    " --warm-up=TEXT(none) --log=PATH --json" + TRACE + SCHEDULED,
    "sim sweep": "FILE --out=PATH --dask=TEXT --json",
    "sim validate": "DEVICE TRACE --policy=TEXT[fcfs] --set=TEXT… --arrivals=trace|measured(trace)"
    " --closed --requests=1.. --event=queue|dispatch|complete(complete) --skip-bad-lines"
    " --fail-above=SHARE --out=PATH --json",
    "status": "--root=PATH(/) --json",
    "trace convert": "FILE OUT --to=TEXT! " + READING,
    "trace cpu": "COMMAND… --method=bpf|perf|schedstat --out=PATH --ring-bytes=INT[8388608] --json",
    "trace io": "DEVICE [COMMAND…] --seconds=TIME --json",
    "trace stats": "FILE " + READING,
    "tune": "[COMMAND…] --scheduler=TEXT[all] --goal=throughput|latency|fairness|responsiveness"
    "[throughput] --maximise=TEXT --minimise=TEXT --subject-to=TEXT… --budget=TIME[30m]"
    " --space=TEXT… --tunables=WORDS --margin=SHARE[2%] --resume=PATH"
    + TARGET + LOAD + STARTED + FILES + MEASURED,
    "undo": "[DEVICE…] --all --json",
    "watch": "DEVICE",
}  # fmt: skip
