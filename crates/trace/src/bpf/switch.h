// SPDX-License-Identifier: MIT OR GPL-2.0
// What sched_switch(bool preempt, struct task_struct *prev, struct task_struct *next, …) says.
#pragma once
#include "base.h"
#include <bpf/bpf_core_read.h>

#define BUCKETS 40 // log2 of ns: the last holds everything from 9 minutes

// The fields that are read; where they lie is found out when the program is loaded (CO-RE).
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct sched_entity { __u64 sum_exec_runtime, slice; };
struct task_struct {
	__s32 pid, static_prio;
	struct sched_entity se;
	unsigned int policy;
	unsigned int __state;
};
#pragma clang attribute pop

static __always_inline __u32 bucket_of(__u64 ns)
{
	__u32 bits = log2_of(ns);
	return bits < BUCKETS ? bits : BUCKETS - 1;
}

static __always_inline struct task_struct *leaves(__u64 *arguments)
{
	return (void *)arguments[1];
}

static __always_inline struct task_struct *comes(__u64 *arguments)
{
	return (void *)arguments[2];
}

// A task that gives up the CPU while it could run was preempted, as nivcsw counts it.
static __always_inline __u32 was_preempted(__u64 *arguments)
{
	return arguments[0] || leaves(arguments)->__state == 0;
}
