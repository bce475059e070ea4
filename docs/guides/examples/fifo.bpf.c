// SPDX-License-Identifier: MIT OR GPL-2.0
// One queue for all tasks, first come, first served; each runs for SLICE_MS at a time.
// With -DFORGET it forgets what it is given, until the watchdog of the kernel ejects it.
#define SECTION(name) __attribute__((section(name), used))
typedef unsigned long long u64;
struct task_struct {};

#ifndef SLICE_MS
#define SLICE_MS 20
#endif
// The kernel's own queue of all CPUs (SCX_DSQ_GLOBAL in include/linux/sched/ext.h).
#define GLOBAL (1ULL << 63 | 1)

// The kernel finds these members by their names; all others have their usual values.
struct sched_ext_ops {
	void (*enqueue)(struct task_struct *task, u64 flags);
	unsigned int timeout_ms;
	char name[128];
};

extern void scx_bpf_dsq_insert(struct task_struct *task, u64 queue, u64 slice_ns, u64 flags)
	SECTION(".ksyms");

// Its arguments are words: the task, and the flags.
SECTION("struct_ops/enqueue")
int enqueue(u64 *words)
{
#ifndef FORGET
	scx_bpf_dsq_insert((struct task_struct *)words[0], GLOBAL, SLICE_MS * 1000000ULL, words[1]);
#endif
	return 0;
}

SECTION(".struct_ops.link")
struct sched_ext_ops scheduler = {
	.enqueue = (void *)enqueue,
	.timeout_ms = 1000,
	.name = "fifo",
};

SECTION("license") char terms[] = "GPL";
