// SPDX-License-Identifier: MIT OR GPL-2.0
// Time on the CPU of chosen tasks and of the tasks they fork, at every context switch.
//
// Totals are kept per task and cannot be lost. Bursts are also gathered per CPU and put into a ring
// many at a time, without waking the reader; what does not fit is counted.
//
// A task's number leads to its totals through a table of 65,536 entries and, for numbers that share
// one, a short chain: two array accesses, where a hash map would cost more than all the rest.
//
// Some kernels do not trace every switch. A burst whose beginning was not traced gets the CPU time
// that the kernel charged, and is counted.
//
// A burst has with it what a scheduler knows of the task: since when it could run, and its class.
#include "switch.h"

enum { NO_WAKEUP = 1 };
// In the place of a time: it was preempted. A wake-up then finds a task that was about to sleep.
enum { RUNNABLE = 1 };
enum { LOST_RECORDS = 0, LOST_TASKS = 1, TASKS_USED = 2, COUNTERS = 3 };

#define TABLE 65536
#define CHAIN 8
#define BATCH 32

struct task {
	__u32 pid;
	__u32 chained; // the next task of this table entry, 0: none
	__u64 started_ns; // 0 while off the CPU
	__u64 charged_ns; // CPU time that the kernel had charged when the last burst ended
	__u64 woken_ns; // when it was woken or forked since its last burst, or RUNNABLE
	__u64 untraced_starts;
	__u64 total_ns;
	__u64 bursts;
	__u64 preempted;
	__u64 histogram[BUCKETS];
};

struct burst {
	__u64 end_ns;
	__u64 duration_ns;
	__u64 woken_ns; // 0: it was preempted before
	__u32 task;
	__u32 slice_ns; // EEVDF's, 0: unknown
	__u16 cpu;
	__u8 policy; // SCHED_*
	__u8 nice; // plus 20
	__u32 preempted;
};

struct batch {
	__u64 filled;
	struct burst bursts[BATCH];
};

// Task 0 is not used: 0 is the end of a chain.
struct {
	__uint(type, MAP_TYPE_ARRAY);
	__uint(max_entries, 1024);
	__type(key, __u32);
	__type(value, struct task);
} tasks SEC(".maps");

struct {
	__uint(type, MAP_TYPE_ARRAY);
	__uint(max_entries, TABLE);
	__type(key, __u32);
	__type(value, __u32);
} first_task SEC(".maps");

struct {
	__uint(type, MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct batch);
} batches SEC(".maps");

struct {
	__uint(type, MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} ring SEC(".maps");

struct {
	__uint(type, MAP_TYPE_ARRAY);
	__uint(max_entries, COUNTERS);
	__type(key, __u32);
	__type(value, __u64);
} counters SEC(".maps");

static void count(__u32 which, __u64 how_many)
{
	__u64 *counter = bpf_map_lookup_elem(&counters, &which);
	if (counter)
		__sync_fetch_and_add(counter, how_many);
}

static __always_inline struct task *find(__u32 pid)
{
	__u32 entry = pid % TABLE;
	__u32 *at = bpf_map_lookup_elem(&first_task, &entry);
	for (int i = 0; at && *at && i < CHAIN; i++) {
		struct task *task = bpf_map_lookup_elem(&tasks, at);
		if (!task || task->pid == pid)
			return task;
		at = &task->chained;
	}
	return 0;
}

// Switches do not nest, so nobody else writes to this CPU's batch.
static __always_inline void
keep(struct task_struct *who, __u64 woken, __u64 now, __u64 duration, __u32 preempted)
{
	__u32 zero = 0;
	struct batch *batch = bpf_map_lookup_elem(&batches, &zero);
	if (!batch)
		return;
	struct burst *burst = &batch->bursts[batch->filled % BATCH];
	burst->end_ns = now;
	burst->duration_ns = duration;
	burst->woken_ns = woken;
	burst->task = who->pid;
	burst->slice_ns = bpf_core_field_exists(who->se.slice) ? who->se.slice : 0;
	burst->cpu = bpf_get_smp_processor_id();
	burst->policy = who->policy;
	burst->nice = who->static_prio - 100;
	burst->preempted = preempted;
	if (++batch->filled < BATCH)
		return;
	batch->filled = 0;
	if (bpf_ringbuf_output(&ring, batch->bursts, sizeof(batch->bursts), NO_WAKEUP))
		count(LOST_RECORDS, BATCH);
}

static __always_inline void
end_burst(struct task *task, struct task_struct *prev, __u64 now, __u32 preempted)
{
	__u64 charged = prev->se.sum_exec_runtime;
	__u64 duration = now - task->started_ns, woken = task->woken_ns;
	if (!task->started_ns) {
		duration = charged - task->charged_ns;
		task->untraced_starts += 1;
		// Its wake-up may not have been traced, or be that of a sleep in between.
		if (!woken || woken > now - duration)
			woken = now - duration;
	}
	task->charged_ns = charged;
	task->started_ns = 0;
	task->total_ns += duration;
	task->bursts += 1;
	task->preempted += preempted;
	__u32 bucket = bucket_of(duration);
	if (bucket < BUCKETS)
		task->histogram[bucket] += 1;
	keep(prev, woken == RUNNABLE ? 0 : woken, now, duration, preempted);
	task->woken_ns = preempted ? RUNNABLE : 0;
}

// sched_switch(bool preempt, struct task_struct *prev, struct task_struct *next, …)
SEC("tp_btf/sched_switch")
int on_switch(__u64 *arguments)
{
	struct task_struct *prev = leaves(arguments), *next = comes(arguments);
	__u64 now = bpf_ktime_get_ns();
	struct task *task = find(prev->pid);
	if (task)
		end_burst(task, prev, now, was_preempted(arguments));
	task = find(next->pid);
	if (task)
		task->started_ns = now;
	return 0;
}

// A task that is woken before it left the CPU goes on as if it had not slept.
static __always_inline int woken(struct task_struct *who)
{
	struct task *task = find(who->pid);
	if (task && !task->started_ns && !task->woken_ns)
		task->woken_ns = bpf_ktime_get_ns();
	return 0;
}

#include "wakeups.h"

// sched_process_fork(struct task_struct *parent, struct task_struct *child)
SEC("tp_btf/sched_process_fork")
int on_fork(__u64 *arguments)
{
	struct task_struct *parent = (void *)arguments[0], *child = (void *)arguments[1];
	__u32 pid = child->pid, entry = pid % TABLE, which = TASKS_USED;
	if (!find(parent->pid) || find(pid))
		return 0;
	__u64 *used = bpf_map_lookup_elem(&counters, &which);
	__u32 *first = bpf_map_lookup_elem(&first_task, &entry);
	if (!used || !first)
		return 0;
	__u32 number = __sync_fetch_and_add(used, 1) + 1;
	struct task *task = bpf_map_lookup_elem(&tasks, &number);
	if (!task) {
		count(LOST_TASKS, 1);
		return 0;
	}
	task->pid = pid;
	task->chained = *first;
	*first = number;
	return 0;
}

char _license[] SEC("license") = "Dual MIT/GPL";
