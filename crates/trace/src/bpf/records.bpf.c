// SPDX-License-Identifier: MIT OR GPL-2.0
// Every request of one block device as a record: who sent it, when it arrived, went to the device
// and came back. A request here is a bio: what was submitted, before the kernel merged it.
//
// block_bio_complete never fires on devices that take requests (block/blk-core.c), so the bios of a
// request are followed when it is issued and when it completes. Some kernels trace no completion in
// some contexts, such as the idle task: such a bio has ended once its memory is a new one.
#include "base.h"
#include <bpf/bpf_core_read.h>

enum { BIOS_OF_REQUEST = 256 };
enum { NO_WAKEUP = 1, ANY = 0 };
enum { LOST, MISSED, ARRIVED, UNTRACED, SECTORS, COUNTERS };
// Our flags, as crates/trace/src/records.rs names them; the kernel's bits move between versions.
enum { SYNC = 1, META = 2, PRIO = 4, FUA = 8, PREFLUSH = 16, AHEAD = 32, IDLE = 64,
       BACKGROUND = 128, NO_COMPLETION = 256 };

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct kernfs_node { __u64 id; };
struct cgroup { struct kernfs_node *kn; };
struct cgroup_subsys_state { struct cgroup *cgroup; };
struct blkcg { struct cgroup_subsys_state css; };
struct blkcg_gq { struct blkcg *blkcg; };
struct gendisk { int major, first_minor; };
struct block_device { struct gendisk *bd_disk; __u64 bd_start_sect; };
struct bvec_iter { __u64 bi_sector; __u32 bi_size; } __attribute__((packed));
struct bio {
	struct bio *bi_next;
	struct block_device *bi_bdev;
	__u32 bi_opf;
	__u16 bi_ioprio;
	struct bvec_iter bi_iter;
	struct blkcg_gq *bi_blkg;
};
struct request { struct bio *bio; __u32 __data_len; struct block_device *part; };
struct sched_info { __u64 run_delay; };
struct sched_entity { __u64 sum_exec_runtime; };
struct task_struct { struct sched_entity se; struct sched_info sched_info; };
#pragma clang attribute pop

// include/linux/blk_types.h
enum req_flag_bits {
	__REQ_SYNC = 11, __REQ_META, __REQ_PRIO, __REQ_NOMERGE, __REQ_IDLE, __REQ_INTEGRITY,
	__REQ_FUA, __REQ_PREFLUSH, __REQ_RAHEAD, __REQ_BACKGROUND,
};

struct record {
	__u64 arrival_ns, issue_ns, done_ns;
	__u64 sector;
	__u64 cgroup;
	__u64 cpu_ns, run_delay_ns; // of the task that submitted it
	__u32 bytes;
	__u32 process, thread;
	__u32 error;
	__u16 operation, flags;
	__u16 priority, unused;
	__u8 command[16];
	__u64 tag_ns, insert_ns; // 0: it joined another request, went past the scheduler
};

struct {
	__uint(type, MAP_TYPE_RINGBUF);
	__uint(max_entries, 16 << 20);
} ring SEC(".maps");

struct {
	__uint(type, 9 /* BPF_MAP_TYPE_LRU_HASH */);
	__uint(max_entries, 65536);
	__type(key, __u64);
	__type(value, struct record);
} pending SEC(".maps");

struct {
	__uint(type, MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64[COUNTERS]);
} counters SEC(".maps");

// Where a record begins, so that what it holds is 0 where nothing is known.
struct {
	__uint(type, MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct record);
} fresh SEC(".maps");

const volatile struct { __u32 major, minor; } settings = {0};

static __always_inline void count(__u32 which, __u64 how_many)
{
	__u32 zero = 0;
	__u64 *all = bpf_map_lookup_elem(&counters, &zero);
	if (all && which < COUNTERS)
		all[which] += how_many;
}

#define FLAG(name, ours) \
	if (bpf_core_enum_value_exists(enum req_flag_bits, __REQ_##name) && \
	    flags >> bpf_core_enum_value(enum req_flag_bits, __REQ_##name) & 1) \
		found |= ours

static __always_inline __u16 flags_of(__u64 flags)
{
	__u16 found = 0;
	FLAG(SYNC, SYNC);
	FLAG(META, META);
	FLAG(PRIO, PRIO);
	FLAG(FUA, FUA);
	FLAG(PREFLUSH, PREFLUSH);
	FLAG(RAHEAD, AHEAD);
	FLAG(IDLE, IDLE);
	FLAG(BACKGROUND, BACKGROUND);
	return found;
}

static __always_inline int is_ours(struct bio *bio)
{
	struct gendisk *disk = bio->bi_bdev->bd_disk;
	return disk->major == settings.major && disk->first_minor == settings.minor;
}

static __always_inline void give_out(struct record *one)
{
	if (bpf_ringbuf_output(&ring, one, sizeof(*one), NO_WAKEUP))
		count(LOST, 1);
}

// The bio before had this address. One that was never issued became no request of its own: its
// first part was split off, or it was refused.
static __always_inline void end_the_last(struct record *last, __u64 now)
{
	if (!last->issue_ns) {
		count(ARRIVED, -1);
		return;
	}
	last->done_ns = now;
	last->flags |= NO_COMPLETION;
	count(UNTRACED, 1);
	count(SECTORS, last->bytes >> 9);
	give_out(last);
}

// The place of a bio is at its address: it is there from its submission to its end.
static __always_inline int arrive(__u64 *arguments)
{
	struct bio *bio = (void *)arguments[0];
	if (!is_ours(bio))
		return 0;
	__u32 zero = 0;
	struct record *one = bpf_map_lookup_elem(&fresh, &zero);
	if (!one)
		return 0;
	struct task_struct *task = (void *)bpf_get_current_task_btf();
	__u64 who = bpf_get_current_pid_tgid(), key = arguments[0];
	one->arrival_ns = bpf_ktime_get_ns();
	struct record *last = bpf_map_lookup_elem(&pending, &key);
	if (last)
		end_the_last(last, one->arrival_ns);
	count(ARRIVED, 1);
	one->sector = bio->bi_iter.bi_sector;
	one->bytes = bio->bi_iter.bi_size;
	one->process = who >> 32;
	one->thread = who;
	one->operation = bio->bi_opf & 0xff;
	one->flags = flags_of(bio->bi_opf);
	one->priority = bio->bi_ioprio;
	one->cpu_ns = task->se.sum_exec_runtime;
	one->run_delay_ns = bpf_core_field_exists(task->sched_info.run_delay)
				    ? task->sched_info.run_delay : 0;
	struct blkcg_gq *group = bio->bi_blkg;
	one->cgroup = group ? group->blkcg->css.cgroup->kn->id : 0;
	bpf_get_current_comm(one->command, sizeof(one->command));
	if (bpf_map_update_elem(&pending, &key, one, ANY))
		count(LOST, 1);
	return 0;
}

SEC("tp_btf/block_bio_queue")
int on_queue(__u64 *arguments)
{
	return arrive(arguments);
}

// block_split(struct bio *first, unsigned int sector): the first part is a bio that nobody queued;
// the rest stays at the address of the whole, and no event says what is left of it (see `note`).
SEC("tp_btf/block_split")
int on_split(__u64 *arguments)
{
	return arrive(arguments);
}

SEC("tp_btf/block_getrq")
int on_tag(__u64 *arguments)
{
	struct bio *bio = (void *)arguments[0];
	if (!is_ours(bio))
		return 0;
	__u64 key = arguments[0];
	struct record *one = bpf_map_lookup_elem(&pending, &key);
	if (one)
		one->tag_ns = bpf_ktime_get_ns();
	return 0;
}

// What happens to each bio of a request is a function of its own that is not `static`: the kernel
// verifies such a function once, and not again in each turn of the loop that calls it.

__noinline int note_bio(__u64 *key, __u64 now, __u64 sector, __u32 bytes, int is_issued)
{
	struct record *one = key ? bpf_map_lookup_elem(&pending, key) : 0;
	if (!one || one->issue_ns)
		return 0;
	if (is_issued) {
		one->issue_ns = now;
		one->sector = sector;
		one->bytes = bytes;
	} else if (!one->insert_ns) {
		one->insert_ns = now;
	}
	return 0;
}

__noinline int end_bio(__u64 *key, __u64 now, __u32 error)
{
	struct record *one = key ? bpf_map_lookup_elem(&pending, key) : 0;
	if (!one) {
		count(MISSED, 1);
		return 0;
	}
	one->done_ns = now;
	one->error = error;
	give_out(one);
	bpf_map_delete_elem(&pending, key);
	return 0;
}

// The bios of a request are inserted, or issued. One that comes back from the driver is inserted
// again: the first time counts.
static __always_inline int note(__u64 *arguments, int is_issued)
{
	struct request *request = (void *)arguments[0];
	struct bio *bio = request->bio;
	if (!bio || !is_ours(bio))
		return 0;
	__u64 now = bpf_ktime_get_ns();
	for (int i = 0; i < BIOS_OF_REQUEST && bio; i++) {
		__u64 key = (__u64)bio;
		note_bio(&key, now, bio->bi_iter.bi_sector, bio->bi_iter.bi_size, is_issued);
		bio = bio->bi_next;
	}
	return 0;
}

SEC("tp_btf/block_rq_insert")
int on_insert(__u64 *arguments)
{
	return note(arguments, 0);
}

SEC("tp_btf/block_rq_issue")
int on_issue(__u64 *arguments)
{
	return note(arguments, 1);
}

// block_rq_complete(struct request *, blk_status_t, unsigned int bytes): the bios that end with it.
SEC("tp_btf/block_rq_complete")
int on_complete(__u64 *arguments)
{
	struct request *request = (void *)arguments[0];
	struct bio *bio = request->bio;
	if (!bio || !is_ours(bio))
		return 0;
	__u64 now = bpf_ktime_get_ns();
	__u32 error = arguments[1], left = arguments[2];
	if (request->part) // the kernel counts it, too
		count(SECTORS, left >> 9);
	for (int i = 0; i < BIOS_OF_REQUEST && bio; i++) {
		__u32 size = bio->bi_iter.bi_size;
		if (size > left)
			break;
		left -= size;
		struct bio *next = bio->bi_next; // before this one may be another's
		__u64 key = (__u64)bio;
		end_bio(&key, now, error);
		bio = next;
	}
	return 0;
}

char _license[] SEC("license") = "Dual MIT/GPL";
