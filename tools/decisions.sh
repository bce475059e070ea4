# Inside the guest, for one scheduler: what the block layer and the scheduler did in each cell.
set -e
d=$SCHEDLAB_DEVICE; t=/sys/kernel/tracing; q=/sys/block/${d##*/}/queue
s=$(sed 's/.*\[\(.*\)\].*/\1/' $q/scheduler)
# The rehearsal, which must move something and take about as long.
if [ $s = none ]; then dd if=$d of=/dev/null bs=1M count=60 iflag=direct; sleep 14; exit; fi
# In a group of its own a queue of bfq preempts no other, as nothing is between groups here.
echo $$ > /sys/fs/cgroup/cgroup.procs
f=${s}_dispatch_request; [ $s != mq-deadline ] || f=dd_dispatch_request
echo "@@ $(cat /sys/block/${d##*/}/dev) $s $(cat $q/nr_requests) $(cat $q/rotational)"
echo 0 > $t/tracing_on; echo 8192 > $t/buffer_size_kb
p=dispatch_$f
echo "r:schedlab/$p $f request=\$retval" >> $t/kprobe_events
echo 1 > $t/events/schedlab/$p/enable
for e in insert issue complete merge; do echo 1 > $t/events/block/block_rq_$e/enable; done
for e in backmerge frontmerge; do echo 1 > $t/events/block/block_bio_$e/enable; done
show() {
  echo "@@ $*"
  sed -n 's/^.*-\([0-9]*\) *\[000\] [^ ]* *\([0-9.]*\): \([a-z_]*\): /\1 \2 \3 /p' $t/trace
}
# Where the ticks are: a timer runs out just after one.
echo 1 > $t/events/timer/timer_expire_entry/enable
echo > $t/trace; echo 1 > $t/tracing_on; sleep .2; echo 0 > $t/tracing_on
show ticks
echo 0 > $t/events/timer/timer_expire_entry/enable
# A new scheduler for each cell, which knows nothing.
cell() {
  n=$1; shift; sync; echo none > $q/scheduler
  echo > $t/trace; echo 1 > $t/tracing_on; echo $s > $q/scheduler
  "$@" >/dev/null 2>&1; echo 0 > $t/tracing_on; show cell $n
}
F="fio --direct=1 --filename=$d --time_based --runtime=1200ms --size=900M --randrepeat=1"
F="$F --norandommap --thread"
r="--rw=randread --bs=4k --ioengine=psync"
w="--rw=randwrite --bs=64k --iodepth=8 --ioengine=libaio"
s128="--rw=read --bs=128k --ioengine=psync --size=290M"
a="--ioengine=libaio --rw=randread"
cell readers8 $F --name=r $r --numjobs=8
cell deep32 $F --name=r $a --bs=4k --iodepth=32
cell reader-writers $F --name=r $r --name=w $w --numjobs=2
cell sequential3 $F --name=a $s128 --numjobs=3 --offset_increment=300M
cell classes $F $a --iodepth=8 --bs=4k --name=rt --prioclass=1 --prio=4 \
  --name=be --prioclass=2 --prio=4 --name=idle --prioclass=3
cell levels $F $a --iodepth=4 --bs=16k --prioclass=2 --name=a --prio=0 --name=b --prio=4 \
  --name=c --prio=7
cell sequential-random $F --name=a $s128 --name=b $r
cell newcomer $F --name=w $w --numjobs=2 --name=r $r --startdelay=400ms --runtime=800ms
cell sizes $F --name=m --rw=randrw --bsrange=4k-256k --iodepth=6 --ioengine=libaio --numjobs=2
cell thinking $F --name=a $r --thinktime=6ms --name=b $r --thinktime=15ms --name=c $s128 --bs=64k
cell writeback sh -c "$F --name=r $r &
  dd if=/dev/zero of=$d bs=1M count=8 seek=400 conv=fsync; wait"
echo 0 > $t/events/schedlab/$p/enable
echo "-:schedlab/$p" >> $t/kprobe_events
