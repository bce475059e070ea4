// SPDX-License-Identifier: MIT OR GPL-2.0
// How long chosen tasks wait for a CPU: from a wake-up, a fork or a preemption to the next time on
// a CPU. Per class of tasks a log2 histogram of waits after a wake-up and one of waits after a
// preemption. Tasks are classed by process; forked ones inherit their parent's class.
#include "switch.h"

enum { ANY = 0 };

#define CLASSES 16

struct task {
	__u64 waits_since_ns; // 0: runs or sleeps
	__u32 class_number;
	__u32 preempted; // what made it wait
};

struct totals {
	__u64 waits[2]; // after a wake-up, after a preemption
	__u64 sum_ns[2];
	__u64 max_ns[2];
	__u64 histogram[2][BUCKETS];
};

struct {
	__uint(type, MAP_TYPE_HASH);
	__uint(max_entries, 8192);
	__type(key, __u32);
	__type(value, struct task);
} tasks SEC(".maps");

struct {
	__uint(type, MAP_TYPE_ARRAY);
	__uint(max_entries, CLASSES);
	__type(key, __u32);
	__type(value, struct totals);
} totals SEC(".maps");

// Forked tasks that did not fit.
struct {
	__uint(type, MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} lost SEC(".maps");

static __always_inline int woken(struct task_struct *who)
{
	__u32 pid = who->pid;
	struct task *task = bpf_map_lookup_elem(&tasks, &pid);
	if (task && !task->waits_since_ns) {
		task->preempted = 0;
		task->waits_since_ns = bpf_ktime_get_ns();
	}
	return 0;
}

#include "wakeups.h"

// sched_switch(bool preempt, struct task_struct *prev, struct task_struct *next, …)
SEC("tp_btf/sched_switch")
int on_switch(__u64 *arguments)
{
	struct task_struct *prev = leaves(arguments), *next = comes(arguments);
	__u64 now = bpf_ktime_get_ns();
	__u32 pid = prev->pid;
	struct task *task = bpf_map_lookup_elem(&tasks, &pid);
	if (task) {
		task->preempted = 1;
		task->waits_since_ns = was_preempted(arguments) ? now : 0;
	}
	pid = next->pid;
	task = bpf_map_lookup_elem(&tasks, &pid);
	if (!task || !task->waits_since_ns)
		return 0;
	__u64 waited = now - task->waits_since_ns;
	__u32 why = task->preempted & 1, class_number = task->class_number;
	task->waits_since_ns = 0;
	struct totals *sums = bpf_map_lookup_elem(&totals, &class_number);
	if (!sums)
		return 0;
	__u32 bucket = bucket_of(waited);
	__sync_fetch_and_add(&sums->waits[why], 1);
	__sync_fetch_and_add(&sums->sum_ns[why], waited);
	if (waited > sums->max_ns[why])
		sums->max_ns[why] = waited;
	if (bucket < BUCKETS)
		__sync_fetch_and_add(&sums->histogram[why][bucket], 1);
	return 0;
}

// sched_process_fork(struct task_struct *parent, struct task_struct *child)
SEC("tp_btf/sched_process_fork")
int on_fork(__u64 *arguments)
{
	struct task_struct *parent = (void *)arguments[0], *child = (void *)arguments[1];
	__u32 pid = parent->pid, zero = 0;
	struct task *task = bpf_map_lookup_elem(&tasks, &pid);
	if (!task)
		return 0;
	struct task fresh = { 0, task->class_number, 0 };
	pid = child->pid;
	__u64 *missed = bpf_map_lookup_elem(&lost, &zero);
	if (bpf_map_update_elem(&tasks, &pid, &fresh, ANY) && missed)
		__sync_fetch_and_add(missed, 1);
	return 0;
}

// sched_process_exit(struct task_struct *)
SEC("tp_btf/sched_process_exit")
int on_exit(__u64 *arguments)
{
	struct task_struct *who = (void *)arguments[0];
	__u32 pid = who->pid;
	bpf_map_delete_elem(&tasks, &pid);
	return 0;
}

char _license[] SEC("license") = "Dual MIT/GPL";
