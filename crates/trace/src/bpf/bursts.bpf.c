// SPDX-License-Identifier: MIT OR GPL-2.0
// Time on the CPU of chosen tasks and of the tasks they fork, at every context switch.
//
// Totals are kept per task and cannot be lost. Each burst is also put into a ring without waking
// the reader; what does not fit is counted.
//
// Some kernels do not trace every switch (seen on a sandbox's: those away from its own agents). A
// burst whose beginning was not traced gets the CPU time that the kernel charged, and is counted.
typedef unsigned int __u32;
typedef unsigned long long __u64;
typedef int __s32;
typedef unsigned char __u8;
typedef unsigned short __u16, __be16;
typedef __u32 __be32, __wsum;
typedef long long __s64;
#include <bpf/bpf_helpers.h>

enum { MAP_TYPE_HASH = 1, MAP_TYPE_ARRAY = 2, MAP_TYPE_RINGBUF = 27 };
enum { MAY_CREATE_ONLY = 1, NO_WAKEUP = 1 };
enum { LOST_RECORDS = 0, LOST_TASKS = 1, COUNTERS = 2 };

#define BUCKETS 40 // log2 of ns: the last holds everything from 9 minutes

// The fields that are read; where they lie is found out when the program is loaded (CO-RE).
struct sched_entity {
	__u64 sum_exec_runtime;
} __attribute__((preserve_access_index));

struct task_struct {
	__s32 pid;
	struct sched_entity se;
	unsigned int __state;
} __attribute__((preserve_access_index));

struct task {
	__u64 started_ns; // 0 while off the CPU
	__u64 charged_ns; // CPU time that the kernel had charged when the last burst ended
	__u64 untraced_starts;
	__u64 total_ns;
	__u64 bursts;
	__u64 preempted;
	__u64 histogram[BUCKETS];
};

struct burst {
	__u64 end_ns;
	__u64 duration_ns;
	__u32 task;
	__u32 preempted;
};

struct {
	__uint(type, MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, __u32);
	__type(value, struct task);
} tasks SEC(".maps");

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

static void count(__u32 which)
{
	__u64 *counter = bpf_map_lookup_elem(&counters, &which);
	if (counter)
		__sync_fetch_and_add(counter, 1);
}

static __u32 log2_of(__u64 value)
{
	__u32 bits = 0;
	if (value >> 32) { bits += 32; value >>= 32; }
	if (value >> 16) { bits += 16; value >>= 16; }
	if (value >> 8) { bits += 8; value >>= 8; }
	if (value >> 4) { bits += 4; value >>= 4; }
	if (value >> 2) { bits += 2; value >>= 2; }
	if (value >> 1) { bits += 1; }
	return bits < BUCKETS ? bits : BUCKETS - 1;
}

static void end_burst(struct task *task, struct task_struct *prev, __u64 now, __u32 preempted)
{
	__u64 charged = prev->se.sum_exec_runtime;
	__u64 duration = now - task->started_ns;
	if (!task->started_ns) {
		duration = charged - task->charged_ns;
		task->untraced_starts += 1;
	}
	task->charged_ns = charged;
	task->started_ns = 0;
	task->total_ns += duration;
	task->bursts += 1;
	task->preempted += preempted;
	__u32 bucket = log2_of(duration);
	if (bucket < BUCKETS)
		task->histogram[bucket] += 1;
	struct burst *burst = bpf_ringbuf_reserve(&ring, sizeof(*burst), 0);
	if (!burst) {
		count(LOST_RECORDS);
		return;
	}
	burst->end_ns = now;
	burst->duration_ns = duration;
	burst->task = prev->pid;
	burst->preempted = preempted;
	bpf_ringbuf_submit(burst, NO_WAKEUP);
}

// sched_switch(bool preempt, struct task_struct *prev, struct task_struct *next, …)
SEC("tp_btf/sched_switch")
int on_switch(__u64 *arguments)
{
	struct task_struct *prev = (void *)arguments[1], *next = (void *)arguments[2];
	__u64 now = bpf_ktime_get_ns();
	__u32 pid = prev->pid;
	struct task *task = bpf_map_lookup_elem(&tasks, &pid);
	if (task) {
		// A task that gives up the CPU while it could run was preempted, as nivcsw counts it.
		__u32 preempted = arguments[0] || prev->__state == 0;
		end_burst(task, prev, now, preempted);
	}
	pid = next->pid;
	task = bpf_map_lookup_elem(&tasks, &pid);
	if (task)
		task->started_ns = now;
	return 0;
}

// sched_process_fork(struct task_struct *parent, struct task_struct *child)
SEC("tp_btf/sched_process_fork")
int on_fork(__u64 *arguments)
{
	struct task_struct *parent = (void *)arguments[0], *child = (void *)arguments[1];
	struct task fresh = {};
	__u32 pid = parent->pid;
	if (!bpf_map_lookup_elem(&tasks, &pid))
		return 0;
	pid = child->pid;
	if (bpf_map_update_elem(&tasks, &pid, &fresh, MAY_CREATE_ONLY))
		count(LOST_TASKS);
	return 0;
}

char _license[] SEC("license") = "Dual MIT/GPL";
