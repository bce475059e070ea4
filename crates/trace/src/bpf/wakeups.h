// SPDX-License-Identifier: MIT OR GPL-2.0
// Both ways in which a task is woken, for programs that define woken() before they include this.
#pragma once

// sched_wakeup(struct task_struct *)
SEC("tp_btf/sched_wakeup")
int on_wakeup(__u64 *arguments)
{
	return woken((void *)arguments[0]);
}

// sched_wakeup_new(struct task_struct *)
SEC("tp_btf/sched_wakeup_new")
int on_wakeup_new(__u64 *arguments)
{
	return woken((void *)arguments[0]);
}
