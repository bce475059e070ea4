# Inside the guest, for one policy: which tasks became ready, and which ran, in each cell.
set -e
t=/sys/kernel/tracing; s=/sys/kernel/debug/sched; k=/proc/sys/kernel
# The rehearsal, which must take about as long.
[ -e /tmp/rehearsed ] || { : > /tmp/rehearsed; sleep 14; exit; }
# Tasks of nice and of other policies make the run one that is repeated: once is enough.
d=/tmp/done$(chrt -p $$ | tr -dc A-Z)$(cat $k/sched_rr_timeslice_ms); [ ! -e $d ] || exit 0; : > $d
[ -e $s ] || mount -t debugfs d /sys/kernel/debug
# One queue for all: no groups of control groups or of sessions, and none that stops real time.
echo $$ > /sys/fs/cgroup/cgroup.procs
echo 0 > $k/sched_autogroup_enabled; echo -1 > $k/sched_rt_runtime_us
echo "@@ $(uname -r) $(chrt -p $$ | tr '\n' ' ')"
echo "rr_ms $(cat $k/sched_rr_timeslice_ms)"
for f in $s/*_ns; do echo "${f##*/} $(cat $f)"; done
echo 0 > $t/tracing_on; echo 16384 > $t/buffer_size_kb
for e in switch wakeup wakeup_new stat_runtime; do echo 1 > $t/events/sched/sched_$e/enable; done
echo 1 > $t/events/timer/hrtimer_expire_entry/enable
echo 1 > $t/events/syscalls/sys_enter_setpriority/enable
w=$(mktemp -d)
# None but the tasks of a cell: what keeps the CPU from idling stops.
cat > $w/others.py <<'P'
import glob, os, sys
for stat in glob.glob("/proc/[0-9]*/task/[0-9]*"):
    process, thread = stat.split("/")[2::2]
    try:
        policy = os.sched_getscheduler(int(thread))
        if policy == os.SCHED_IDLE and open(f"/proc/{process}/cmdline").read():
            os.kill(int(process), int(sys.argv[1]))
    except OSError:
        pass
P
# It has to run for that.
python3 -S -E $w/others.py 19; sleep .2; trap "python3 -S -E $w/others.py 18" EXIT
cat > $w/sleeper.py <<'P'
import sys, time
loops, sleep_s = int(sys.argv[1]), float(sys.argv[2])
while True:
    for _ in range(loops): pass
    time.sleep(sleep_s)
P
cat > $w/pair.py <<'P'
import os
a, b = os.pipe(), os.pipe()
if os.fork():
    while True:
        os.write(a[1], b"x"); os.read(b[0], 1)
        for _ in range(2000): pass
while True:
    os.read(a[0], 1)
    for _ in range(500): pass
    os.write(b[1], b"x")
P
# Each task as a group of its own, so that what it has started ends with it.
go() { setsid "$@" & p="$p $!"; }
hog() { go "$@" sh -c 'while :; do :; done'; }
sleeps() { a="$1 $2"; shift 2; go "$@" python3 -S -E $w/sleeper.py $a; }
cell() {
  p=; echo > $t/trace; echo 1 > $t/tracing_on
  $1
  sleep .9; echo 0 > $t/tracing_on
  python3 -S -E -c 'import os, sys; [os.killpg(int(p), 9) for p in sys.argv[1:]]' $p; wait || true
  echo "@@ cell $1"
  sed -n 's/^.*-\([0-9]*\) *\[000\] [^ ]* *\([0-9.]*\): \(sys\|hrtimer\|sched\)/\1 \2 \3/p' $t/trace
}
hogs2() { hog; hog; }
hogs3() { hog; hog; hog; }
nice_hogs() { hog; hog nice -n 5; hog nice -n 10; }
sleeper() { hog; sleeps 20000 .008; }
sleepers() { hogs3; sleeps 10000 .03; sleeps 10000 .07; sleeps 10000 .013; }
nice_sleepers() { hog; sleeps 30000 .005 nice -n -5; sleeps 30000 .005 nice -n 5; }
messages() { hog; go python3 -S -E $w/pair.py; }
forks() { hog; go sh -c 'while :; do /bin/true; done'; }
# None that computes for ever, as the shell has the same priority.
only_sleepers() { sleeps 20000 .004; sleeps 10000 .007; sleeps 5000 .003; }
rr_sleeper() { hogs2; sleeps 20000 .013; }
case $(chrt -p $$) in
  *SCHED_OTHER*) cells="hogs2 nice_hogs sleeper sleepers nice_sleepers messages forks" ;;
  *SCHED_RR*) cells="hogs2 hogs3 rr_sleeper only_sleepers" ;;
  *SCHED_FIFO*) cells=only_sleepers ;;
esac
for c in $cells; do cell $c; done
