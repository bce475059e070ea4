// SPDX-License-Identifier: MIT OR GPL-2.0
// What the programs of syncs.bpf.c keep: the fields of the kernel that they read, rows, settings.
#pragma once
#include "base.h"
#include <bpf/bpf_core_read.h>

#define ROWS 256
#define BINS 2240 // as crates/model/src/histogram.rs: 64 to the octave, up to 2^40 ns
#define SUB_BITS 6
#define CALLS_MAX 16384
#define PLACES_MAX 16

enum { ANY = 0, NO_REPLACE = 1 };
// What a row is of: calls, commits of a journal, and bios that were written during calls.
enum { FSYNC, FDATASYNC, SYNC_FILE_RANGE, MSYNC, SYNCFS, SYNCED_WRITE, COMMIT, WRITTEN, WRITTEN_BY_CALLER };
// Numbers of system calls, in the order of the settings.
enum { OF_FSYNC, OF_FDATASYNC, OF_SYNC_FILE_RANGE, OF_MSYNC, OF_SYNCFS, OF_WRITE, OF_PWRITE,
       OF_WRITEV, OF_PWRITEV, OF_PWRITEV2, NUMBERS };
// Of a followed process: its children are counted, or it is, too.
enum { NOT_FOLLOWED, CHILDREN, ITSELF };
enum { O_DSYNC = 010000, RWF_SYNCED = 2 | 4, SB_SYNCHRONOUS = 16, S_SYNC = 1, MS_SYNC = 4 };
enum { S_IFMT = 0170000, S_IFBLK = 0060000 };
enum { OP_WRITE = 1, OP_FLUSH = 2, OP_MASK = 0xff };
enum req_flag_bits { __REQ_PREFLUSH = 18 }; // its value is found out when the program is loaded
enum { RING_WRITEV = 2, RING_FSYNC = 3, RING_WRITE_FIXED = 5, RING_WRITE = 23 };

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct super_block { __u32 s_dev; unsigned long s_flags; };
struct inode { __u16 i_mode; __u32 i_flags, i_rdev; struct super_block *i_sb; };
struct file { unsigned int f_flags; struct inode *f_inode; };
struct fdtable { unsigned int max_fds; struct file **fd; };
struct files_struct { struct fdtable *fdt; };
struct signal_struct { struct { __s32 counter; } live; };
struct task_struct {
	__s32 pid, tgid;
	char comm[16];
	struct task_struct *group_leader;
	struct files_struct *files;
	struct signal_struct *signal;
};
struct gendisk { int major, first_minor; };
struct request_queue { struct gendisk *disk; };
struct request { struct request_queue *q; __u32 cmd_flags; };
struct block_device { __u32 bd_dev; struct gendisk *bd_disk; };
struct bvec_iter { __u64 bi_sector; __u32 bi_size; } __attribute__((packed));
struct bio { struct block_device *bi_bdev; __u32 bi_opf; struct bvec_iter bi_iter; };
struct journal_s { struct block_device *j_fs_dev; };
struct io_kiocb { struct file *file; __u8 opcode; };
// The registers of a system call, as two processors name them.
struct pt_regs___x86 { unsigned long di, si, dx, r10, r8, r9; };
struct pt_regs___arm64 { __u64 regs[31]; __u64 orig_x0; };
#pragma clang attribute pop

struct opened {
	struct inode *inode;
	__u32 flags, unused;
};

struct name {
	char process[16];
	__u32 device, of;
} __attribute__((aligned(8)));

// The call of a thread: that which has not returned, or its last one.
struct call {
	__u64 entered_ns; // 0: it has returned
	__u64 flushed_ns; // when its task asked the device for a flush; 0: it has not
	__u64 logged_ns; // when its task began to wait for the log (xfs)
	__u64 committing_ns; // of the journal of its file system, until it entered
	__u64 flushing_ns; // of the disks, until it entered
	__u32 row, device;
	struct name name; // of the row
};

// A request of a ring that has not completed.
struct ring_call {
	__u64 entered_ns;
	char process[16];
	__u32 opcode, unused;
};

struct sums {
	__u64 entered, returned, failed;
	__u64 sum_ns, max_ns;
	__u64 parts_ns[3]; // data, journal, flush; of a commit: locking, data, logging
	__u64 counts[BINS];
};

struct journal {
	__u64 began_ns, at_ns; // 0: nothing is committed; when the phase of now began
	__u64 committing_ns; // of all commits that have ended
	__u64 parts_ns[3];
	__u32 part, unused;
};

// NO_ROW are calls that no row counts.
enum { LOST, OPEN_CALLS, ROWS_USED, NO_ROW, FLUSH_BEGAN_NS, FLUSHING_NS, COUNTERS };

#define MAP(NAME, TYPE, KEY, VALUE, ENTRIES)                                                       \
	struct {                                                                                   \
		__uint(type, TYPE);                                                                \
		__uint(max_entries, ENTRIES);                                                      \
		__type(key, KEY);                                                                  \
		__type(value, VALUE);                                                              \
	} NAME SEC(".maps")

MAP(calls, MAP_TYPE_HASH, __u32, struct call, CALLS_MAX);
MAP(ring_calls, MAP_TYPE_HASH, __u64, struct ring_call, CALLS_MAX);
MAP(names, MAP_TYPE_HASH, struct name, __u32, ROWS);
MAP(rows, MAP_TYPE_ARRAY, __u32, struct sums, ROWS);
MAP(journals, MAP_TYPE_HASH, __u32, struct journal, 64);
MAP(followed, MAP_TYPE_HASH, __u32, __u32, CALLS_MAX);
MAP(callers, MAP_TYPE_HASH, __u32, __u32, CALLS_MAX); // processes
MAP(counters, MAP_TYPE_ARRAY, __u32, __u64[COUNTERS], 1);

// Set before the program is loaded.
struct settings {
	__u32 number[NUMBERS];
	__u32 follows; // count followed processes only
	__u32 devices, disks; // how many of these; no device: all of them
	__u32 device[PLACES_MAX]; // of file systems, as the kernel numbers them
	__u32 disk[PLACES_MAX]; // whole ones
};

const volatile struct settings settings = {0};
