// SPDX-License-Identifier: MIT OR GPL-2.0
// What the programs of blocks.bpf.c keep: the fields of the kernel that they read, the table of
// bios, the places of requests, counters and settings.
#pragma once
#include "base.h"
#include <bpf/bpf_core_read.h>

enum { OTHER_OPERATION = 2 }; // above reads and writes
enum { PARTS = 5 }; // tag, plug, scheduler, device, all
enum { BINS = 160 }; // four to the octave
enum { CLASSES = 16, OPERATIONS = 3, SIZES = 6 };
enum { FOR_NEW_NAMES = 4 }; // the last classes: a process whose name has one joins it
enum { CLOSED = 1 }; // in the place of the time of its issue: it ended, untraced
enum { TRY_AGAIN = 12 }; // BLK_STS_AGAIN, which an engine tries again
enum { KERNEL_THREAD = 0x00200000 }; // PF_KTHREAD

#define SETS 4096
#define WAYS 4
#define PIDS_PER_ENTRY 64
#define INTERVAL_NS 100000000ull
#define TAGS_LOOKED_AT 512
#define ISSUE_TAKES_NS 100000000ull // at most, also on a busy machine

// The fields that are read; where they lie is found out when the program is loaded (CO-RE).
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct kernfs_node { __u64 id; };
struct cgroup { struct kernfs_node *kn; };
struct cgroup_subsys_state { struct cgroup *cgroup; };
struct blkcg { struct cgroup_subsys_state css; };
struct blkcg_gq { struct blkcg *blkcg; };
struct gendisk { int major, first_minor; };
struct throtl_data { __u32 nr_queued[2]; };
struct request_queue { struct throtl_data *td; struct gendisk *disk; };
struct block_device { struct gendisk *bd_disk; struct request_queue *bd_queue; };
struct bvec_iter { __u64 bi_sector; __u32 bi_size; } __attribute__((packed));
struct bio {
	struct block_device *bi_bdev;
	struct bvec_iter bi_iter;
	struct blkcg_gq *bi_blkg;
};
struct sbitmap { __u32 depth; };
struct sbitmap_queue { struct sbitmap sb; };
struct blk_mq_tags { struct sbitmap_queue bitmap_tags; };
struct blk_mq_hw_ctx { __u32 queue_num; struct blk_mq_tags *tags; };
enum mq_rq_state { MQ_RQ_IDLE = 0 };
struct request {
	struct request_queue *q;
	struct blk_mq_hw_ctx *mq_hctx;
	__u32 cmd_flags;
	__s32 tag, internal_tag;
	__u32 __data_len;
	__u64 __sector;
	struct bio *bio, *biotail;
	__u64 start_time_ns;
	enum mq_rq_state state;
	struct block_device *part;
	struct { void *icq; void *priv[2]; } elv;
};
struct bfq_entity { int weight; };
struct bfq_queue { __u32 wr_coeff; struct bfq_entity entity; };
struct task_struct { __u32 flags; char comm[16]; struct task_struct *group_leader; };
#pragma clang attribute pop

struct bio_place {
	__u64 bio;
	__u64 queued_ns;
	__u64 got_ns;
	__u32 class;
	__u32 unused;
};

struct bio_set {
	struct bio_place way[WAYS];
};

struct place {
	__u64 request; // 0: nobody is here
	__u64 queued_ns, got_ns, inserted_ns, issued_ns;
	__u64 bfq_queue;
	__u16 class, came_back; // from the driver
	__u32 weight_raising;
	__u32 bytes;
	__u32 bfq_weight;
	__u32 operation, unused;
};

struct histograms {
	__u64 bytes;
	__u64 sum_ns[PARTS];
	__u64 max_ns[PARTS];
	__u64 counts[PARTS][BINS];
};

// What one class issued and waited in 100 ms.
struct interval {
	__u64 issued[OPERATIONS];
	__u64 bytes;
	__u64 sum_ns[PARTS];
	__u64 bfq_requests, weight_raising_sum, bfq_queue, bfq_weight;
};

enum {
	ISSUED, INSERTED, BIO_MERGES, REQUEST_MERGES, REQUEUES, OUT_OF_ORDER, SEEKS,
	SEEK_SECTORS, BEGUN_BEFORE, NO_BIO, EVICTED, LATE_INTERVALS, NO_CLASS, UNMATCHED,
	IN_PARTS, UNTRACED, ERRORS, SECTORS, TOTALS
};

struct {
	__uint(type, MAP_TYPE_ARRAY);
	__uint(max_entries, SETS);
	__type(key, __u32);
	__type(value, struct bio_set);
} bios SEC(".maps");

struct {
	__uint(type, MAP_TYPE_ARRAY);
	__uint(max_entries, 1); // sized when it is loaded: 1 << tag_bits for each hardware queue
	__type(key, __u32);
	__type(value, struct place);
} places SEC(".maps");

struct pids {
	__u8 class[PIDS_PER_ENTRY];
};

struct {
	__uint(type, MAP_TYPE_ARRAY);
	__uint(max_entries, 65536);
	__type(key, __u32);
	__type(value, struct pids);
} class_of_pid SEC(".maps");

struct {
	__uint(type, MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, CLASSES * OPERATIONS * SIZES);
	__type(key, __u32);
	__type(value, struct histograms);
} histograms SEC(".maps");

struct {
	__uint(type, MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, CLASSES);
	__type(key, __u32);
	__type(value, struct interval);
} intervals SEC(".maps");

struct totals {
	__u64 count[TOTALS];
	volatile __u64 address; // see number_of
};

struct {
	__uint(type, MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct totals);
} totals SEC(".maps");

// Requests in the scheduler and in the driver: now, the most ever in each, and in both at once.
struct depths {
	__s64 scheduler, driver;
	__s64 scheduler_max, driver_max, both_max;
	__u64 classes_used;
	__u64 limited; // bios that limits hold back (io.max, blkio.throttle)
	__u64 tags; // that a hardware queue of the driver may use
};

struct {
	__uint(type, MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct depths);
} depths SEC(".maps");

// When the oldest request arrived that has not completed; 0: there is none.
struct {
	__uint(type, MAP_TYPE_ARRAY);
	__uint(max_entries, CLASSES);
	__type(key, __u32);
	__type(value, __u64[OPERATIONS]);
} waiting SEC(".maps");

// When all programs were attached; 0 before. Not in `depths`, which the programs write by then.
struct {
	__uint(type, MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} attached SEC(".maps");

// Of a class that was found by itself.
struct found {
	__u64 name[2];
	__u32 process, processes;
};

struct {
	__uint(type, MAP_TYPE_ARRAY);
	__uint(max_entries, CLASSES);
	__type(key, __u32);
	__type(value, struct found);
} found SEC(".maps");

// Set before the program is loaded.
struct settings {
	__s32 major, minor;
	__u64 start_ns;
	__u32 classes, intervals_max;
	__u32 find_classes; // a process without a class gets one of its own
	__u32 is_bfq;
	__u32 cgroups; // classes by cgroup: the first so many of these
	__u32 tag_bits; // no tag of a hardware queue has more
	__u64 cgroup_id[CLASSES];
	__u32 cgroup_class[CLASSES];
};

const volatile struct settings settings = {0};
