// SPDX-License-Identifier: MIT OR GPL-2.0
// How long programs wait until their data is durable: calls of fsync and its kin, writes through
// O_SYNC and O_DSYNC, by system call or io_uring, and the commits of ext4's journal.
//
// A call is timed from its entry into the kernel to its return. Its time has three parts: that in
// which the disk was flushing its cache, or from its own request for that on; that in which the
// journal of its file system was committing (jbd2; of xfs: from its wait for the log on); and the
// rest, in which data was written.
#include "syncs.h"

static __always_inline __u64 *count(__u32 which)
{
	__u32 zero = 0;
	__u64 *all = bpf_map_lookup_elem(&counters, &zero);
	return all && which < COUNTERS ? &all[which] : 0;
}

static __always_inline void add(__u32 which, __s64 how_many)
{
	__u64 *counter = count(which);
	if (counter)
		__sync_fetch_and_add(counter, how_many);
}

// The number of the row of this name, plus 1; 0 where there is none left.
static __always_inline __u32 row_of(struct name *name)
{
	__u32 *known = bpf_map_lookup_elem(&names, name);
	if (known)
		return *known + 1;
	__u64 *used = count(ROWS_USED);
	if (!used || *used >= ROWS)
		return 0;
	__u32 row = __sync_fetch_and_add(used, 1);
	if (row < ROWS && !bpf_map_update_elem(&names, name, &row, NO_REPLACE))
		return row + 1;
	known = bpf_map_lookup_elem(&names, name); // another CPU named it first
	return known ? *known + 1 : 0;
}

// Not `static`: the kernel verifies it once, and not again wherever it is called.
__noinline __u64 bin_of(__u64 ns)
{
	__u32 top = log2_of(ns);
	if (top <= SUB_BITS)
		return ns;
	__u64 shift = top - SUB_BITS;
	return ((shift + 1) << SUB_BITS) + ((ns >> shift) & ((1 << SUB_BITS) - 1));
}

static __always_inline void record(struct sums *sums, __u64 ns)
{
	__u64 bin = bin_of(ns);
	if (bin >= BINS)
		bin = BINS - 1;
	barrier_var(bin);
	if (bin < BINS)
		__sync_fetch_and_add(&sums->counts[bin], 1);
	__sync_fetch_and_add(&sums->returned, 1);
	__sync_fetch_and_add(&sums->sum_ns, ns);
	if (ns > sums->max_ns)
		sums->max_ns = ns;
}

// The name of the process, whichever of its threads runs.
static __always_inline void name_process(char *process)
{
	struct task_struct *task = (void *)bpf_get_current_task_btf();
	struct task_struct *leader = task->group_leader;
	__builtin_memcpy(process, leader->comm, 16);
}

static __always_inline int is_counted(void)
{
	__u32 process = bpf_get_current_pid_tgid() >> 32;
	if (!settings.follows)
		return 1;
	__u32 *how = bpf_map_lookup_elem(&followed, &process);
	return how && *how == ITSELF;
}

static __always_inline int is_device_ours(__u32 device)
{
	if (!settings.devices)
		return 1;
	for (__u32 i = 0; i < PLACES_MAX && i < settings.devices; i++)
		if (settings.device[i] == device)
			return 1;
	return 0;
}

static __always_inline int is_disk_ours(__u32 disk)
{
	for (__u32 i = 0; i < PLACES_MAX && i < settings.disks; i++)
		if (settings.disk[i] == disk)
			return 1;
	return 0;
}

static __always_inline __u64 argument(void *registers, int which)
{
	struct pt_regs___x86 *x86 = registers;
	struct pt_regs___arm64 *arm = registers;
	if (bpf_core_field_exists(x86->di))
		return which == 0 ? x86->di : which == 2 ? x86->dx : x86->r9;
	if (bpf_core_field_exists(arm->orig_x0))
		return which == 0 ? arm->orig_x0 : which == 2 ? arm->regs[2] : arm->regs[5];
	return ~0ull;
}

// What of an open file is asked: read at once, each field costs a call.
static __always_inline int look_at(struct file *file, struct opened *opened)
{
	bpf_core_read(&opened->inode, sizeof(opened->inode), &file->f_inode);
	bpf_core_read(&opened->flags, sizeof(opened->flags), &file->f_flags);
	return opened->inode != 0;
}

static __always_inline int look_at_descriptor(__u32 descriptor, struct opened *opened)
{
	struct task_struct *task = (void *)bpf_get_current_task_btf();
	struct files_struct *files = task->files;
	struct fdtable *table = files ? files->fdt : 0;
	struct file *file = 0;
	if (!table || descriptor >= table->max_fds)
		return 0;
	bpf_probe_read_kernel(&file, sizeof(file), table->fd + descriptor);
	return file && look_at(file, opened);
}

// The number of the device below a file: of its file system, or that it is itself.
static __always_inline __u32 device_of(struct inode *inode)
{
	if ((BPF_CORE_READ(inode, i_mode) & S_IFMT) == S_IFBLK)
		return BPF_CORE_READ(inode, i_rdev);
	return BPF_CORE_READ(inode, i_sb, s_dev);
}

// Whether each write into this file is durable when it returns (IS_SYNC of linux/fs.h).
static __always_inline int is_synced(struct opened *opened)
{
	struct inode *inode = opened->inode;
	return opened->flags & O_DSYNC || BPF_CORE_READ(inode, i_flags) & S_SYNC ||
	       BPF_CORE_READ(inode, i_sb, s_flags) & SB_SYNCHRONOUS;
}

// How long the journal of a device has been committing until now, in all.
static __always_inline __u64 committing_ns(__u32 device, __u64 now)
{
	struct journal *journal = bpf_map_lookup_elem(&journals, &device);
	if (!journal)
		return 0;
	__u64 began = journal->began_ns;
	return journal->committing_ns + (began && now > began ? now - began : 0);
}

// How long the disks have been flushing until now, in all.
static __always_inline __u64 flushing_ns(__u64 now)
{
	__u64 *began = count(FLUSH_BEGAN_NS), *all = count(FLUSHING_NS);
	if (!began || !all)
		return 0;
	__u64 since = *began;
	return *all + (since && now > since ? now - since : 0);
}

// A flush has ended. Not each end is traced, so whoever waited for it says so, too.
static __always_inline void end_flush(__u64 now)
{
	__u64 *began = count(FLUSH_BEGAN_NS);
	__u64 since = began ? __sync_lock_test_and_set(began, 0) : 0;
	if (since && now > since)
		add(FLUSHING_NS, now - since);
}

static __always_inline int is_same(struct name *one, struct name *other)
{
	__u64 *a = (void *)one, *b = (void *)other;
	return a[0] == b[0] && a[1] == b[1] && a[2] == b[2];
}

// Where the calls of this thread are kept; 0 where there is no room.
static __always_inline struct call *new_caller(void)
{
	__u64 who = bpf_get_current_pid_tgid();
	__u32 thread = who, process = who >> 32;
	struct call none = {0};
	bpf_map_update_elem(&callers, &process, &thread, ANY);
	bpf_map_update_elem(&calls, &thread, &none, NO_REPLACE);
	return bpf_map_lookup_elem(&calls, &thread);
}

static __always_inline void begin(struct call *call, struct name *name)
{
	if (!call)
		call = new_caller();
	name_process(name->process);
	if (call && is_same(name, &call->name)) // as most calls of a thread
		name = 0;
	__u32 row = name || !call ? row_of(name) - 1 : call->row;
	struct sums *sums = bpf_map_lookup_elem(&rows, &row);
	if (!sums) {
		add(NO_ROW, 1);
		return;
	}
	__sync_fetch_and_add(&sums->entered, 1);
	// No room, or the return of the last one was not seen.
	if (!call || call->entered_ns)
		add(LOST, 1);
	else
		add(OPEN_CALLS, 1);
	if (!call)
		return;
	if (name) {
		call->row = row;
		call->device = name->device;
		call->name = *name;
	}
	__u64 now = bpf_ktime_get_ns();
	call->flushed_ns = call->logged_ns = 0;
	call->committing_ns = committing_ns(call->device, now);
	call->flushing_ns = flushing_ns(now);
	call->entered_ns = now;
}

// sys_enter(struct pt_regs *, long number)
SEC("tp_btf/sys_enter")
int on_enter(__u64 *arguments)
{
	__u32 number = arguments[1];
	struct name name = {0};
	if (number == settings.number[OF_WRITE] || number == settings.number[OF_PWRITE] ||
	    number == settings.number[OF_WRITEV] || number == settings.number[OF_PWRITEV] ||
	    number == settings.number[OF_PWRITEV2])
		name.of = SYNCED_WRITE;
	else if (number == settings.number[OF_FSYNC])
		name.of = FSYNC;
	else if (number == settings.number[OF_FDATASYNC])
		name.of = FDATASYNC;
	else if (number == settings.number[OF_SYNC_FILE_RANGE])
		name.of = SYNC_FILE_RANGE;
	else if (number == settings.number[OF_SYNCFS])
		name.of = SYNCFS;
	else if (number == settings.number[OF_MSYNC])
		name.of = MSYNC;
	else
		return 0;
	__u32 thread = bpf_get_current_pid_tgid();
	struct call *call = bpf_map_lookup_elem(&calls, &thread);
	if (!call && !is_counted())
		return 0;
	void *registers = (void *)arguments[0];
	if (name.of == MSYNC) { // of addresses: the file is not looked for
		if (settings.follows && argument(registers, 2) & MS_SYNC)
			begin(call, &name);
		return 0;
	}
	struct opened opened = {0};
	if (!look_at_descriptor(argument(registers, 0), &opened))
		return 0;
	if (name.of == SYNCED_WRITE && !is_synced(&opened) &&
	    !(number == settings.number[OF_PWRITEV2] && argument(registers, 5) & RWF_SYNCED))
		return 0;
	name.device = device_of(opened.inode);
	if (is_device_ours(name.device))
		begin(call, &name);
	return 0;
}

// The three parts of a call that took until now.
static __always_inline void split(struct sums *sums, struct call *call, __u64 now)
{
	__u64 all = now - call->entered_ns, flush = flushing_ns(now) - call->flushing_ns, journal;
	if (call->flushed_ns) {
		flush = now - call->flushed_ns;
		journal = committing_ns(call->device, call->flushed_ns) - call->committing_ns;
		end_flush(now);
	} else {
		__u64 waited = committing_ns(call->device, now) - call->committing_ns;
		if (call->logged_ns)
			waited = now - call->logged_ns;
		if (flush > all)
			flush = all;
		journal = waited > flush ? waited - flush : 0;
	}
	if (journal > all - flush)
		journal = all - flush;
	__sync_fetch_and_add(&sums->parts_ns[0], all - flush - journal);
	if (journal)
		__sync_fetch_and_add(&sums->parts_ns[1], journal);
	if (flush)
		__sync_fetch_and_add(&sums->parts_ns[2], flush);
}

// sys_exit(struct pt_regs *, long returned)
SEC("tp_btf/sys_exit")
int on_exit(__u64 *arguments)
{
	__u32 thread = bpf_get_current_pid_tgid();
	struct call *call = bpf_map_lookup_elem(&calls, &thread);
	if (!call || !call->entered_ns)
		return 0;
	__u32 row = call->row;
	__u64 now = bpf_ktime_get_ns();
	struct sums *sums = bpf_map_lookup_elem(&rows, &row);
	if (sums) {
		record(sums, now - call->entered_ns);
		split(sums, call, now);
		if ((__s64)arguments[1] < 0)
			__sync_fetch_and_add(&sums->failed, 1);
	}
	call->entered_ns = 0;
	add(OPEN_CALLS, -1);
	return 0;
}

// Bios that are written while somebody waits for a call to return, by process.
SEC("tp_btf/block_bio_queue")
int on_bio(__u64 *arguments)
{
	struct bio *bio = (void *)arguments[0];
	__u32 operation = bio->bi_opf, size = bio->bi_iter.bi_size;
	__u64 *open = count(OPEN_CALLS);
	if (!open || !*open)
		return 0;
	__u32 preflush = 1u << bpf_core_enum_value(enum req_flag_bits, __REQ_PREFLUSH);
	if (operation & preflush && !size) {
		__u32 thread = bpf_get_current_pid_tgid();
		struct call *call = bpf_map_lookup_elem(&calls, &thread);
		if (call && call->entered_ns && !call->flushed_ns)
			call->flushed_ns = bpf_ktime_get_ns();
		return 0;
	}
	if ((operation & OP_MASK) != OP_WRITE)
		return 0;
	struct gendisk *disk = bio->bi_bdev->bd_disk;
	__u32 number = disk->major << 20 | disk->first_minor;
	if (!is_disk_ours(number))
		return 0;
	__u32 process = bpf_get_current_pid_tgid() >> 32;
	int calls = bpf_map_lookup_elem(&callers, &process) != 0;
	struct name name = { .device = number, .of = calls ? WRITTEN_BY_CALLER : WRITTEN };
	name_process(name.process);
	__u32 row = row_of(&name) - 1;
	struct sums *sums = bpf_map_lookup_elem(&rows, &row);
	if (!sums)
		return 0;
	__sync_fetch_and_add(&sums->entered, 1);
	__sync_fetch_and_add(&sums->sum_ns, size);
	return 0;
}

static __always_inline int is_flush_of_ours(struct request *request)
{
	struct request_queue *queue = request->q;
	if ((request->cmd_flags & OP_MASK) != OP_FLUSH || !bpf_core_field_exists(queue->disk))
		return 0;
	struct gendisk *disk = queue->disk;
	return disk && is_disk_ours(disk->major << 20 | disk->first_minor);
}

SEC("tp_btf/block_rq_issue")
int on_issue(__u64 *arguments)
{
	__u64 *began = count(FLUSH_BEGAN_NS);
	if (began && is_flush_of_ours((void *)arguments[0]))
		*began = bpf_ktime_get_ns();
	return 0;
}

SEC("tp_btf/block_rq_complete")
int on_complete(__u64 *arguments)
{
	if (is_flush_of_ours((void *)arguments[0]))
		end_flush(bpf_ktime_get_ns());
	return 0;
}

// What all phases of a commit begin with: (journal, its number).
static __always_inline struct journal *journal_of(__u64 *arguments, __u32 *device)
{
	struct journal_s *journal = (void *)arguments[0];
	*device = journal->j_fs_dev->bd_dev;
	return bpf_map_lookup_elem(&journals, device);
}

SEC("tp_btf/jbd2_start_commit")
int on_start_commit(__u64 *arguments)
{
	__u32 device;
	struct journal *journal = journal_of(arguments, &device);
	__u64 now = bpf_ktime_get_ns();
	if (!is_device_ours(device))
		return 0;
	if (!journal) {
		struct journal fresh = { .began_ns = now, .at_ns = now };
		bpf_map_update_elem(&journals, &device, &fresh, NO_REPLACE);
		return 0;
	}
	journal->parts_ns[0] = journal->parts_ns[1] = journal->parts_ns[2] = 0;
	journal->part = 0;
	journal->at_ns = journal->began_ns = now;
	return 0;
}

static __always_inline int next_part(__u64 *arguments, __u32 part)
{
	__u32 device;
	struct journal *journal = journal_of(arguments, &device);
	__u64 now = bpf_ktime_get_ns();
	if (!journal || !journal->began_ns)
		return 0;
	__u32 last = journal->part;
	if (last < 3)
		journal->parts_ns[last] += now - journal->at_ns;
	journal->at_ns = now;
	journal->part = part;
	return 0;
}

SEC("tp_btf/jbd2_commit_flushing")
int on_commit_flushing(__u64 *arguments)
{
	return next_part(arguments, 1);
}

SEC("tp_btf/jbd2_commit_logging")
int on_commit_logging(__u64 *arguments)
{
	return next_part(arguments, 2);
}

SEC("tp_btf/jbd2_end_commit")
int on_end_commit(__u64 *arguments)
{
	__u32 device;
	struct journal *journal = journal_of(arguments, &device);
	__u64 began = journal ? journal->began_ns : 0;
	if (!journal || !began)
		return 0;
	next_part(arguments, 3);
	end_flush(journal->at_ns);
	__u64 took = journal->at_ns - began;
	journal->began_ns = 0;
	journal->committing_ns += took;
	struct name name = { .device = device, .of = COMMIT };
	__u32 row = row_of(&name) - 1;
	struct sums *sums = bpf_map_lookup_elem(&rows, &row);
	if (!sums)
		return 0;
	__sync_fetch_and_add(&sums->entered, 1);
	record(sums, took);
	for (int i = 0; i < 3; i++)
		__sync_fetch_and_add(&sums->parts_ns[i], journal->parts_ns[i]);
	return 0;
}

// xfs_log_force(struct xfs_mount *, …), in the task that will wait
SEC("tp_btf/xfs_log_force")
int on_log_force(__u64 *arguments)
{
	__u32 thread = bpf_get_current_pid_tgid();
	struct call *call = bpf_map_lookup_elem(&calls, &thread);
	if (call && call->entered_ns && !call->logged_ns)
		call->logged_ns = bpf_ktime_get_ns();
	return 0;
}

// io_uring_submit_req(struct io_kiocb *): its file is known when it completes only.
SEC("tp_btf/io_uring_submit_req")
int on_ring_submit(__u64 *arguments)
{
	struct io_kiocb *request = (void *)arguments[0];
	struct ring_call call = { .entered_ns = bpf_ktime_get_ns(), .opcode = request->opcode };
	__u64 key = arguments[0];
	if (call.opcode != RING_FSYNC && call.opcode != RING_WRITE &&
	    call.opcode != RING_WRITEV && call.opcode != RING_WRITE_FIXED)
		return 0;
	if (!is_counted())
		return 0;
	name_process(call.process);
	if (bpf_map_update_elem(&ring_calls, &key, &call, NO_REPLACE)) {
		if (call.opcode == RING_FSYNC)
			add(LOST, 1);
		bpf_map_update_elem(&ring_calls, &key, &call, ANY);
	}
	return 0;
}

// io_uring_complete(struct io_ring_ctx *, void *request, …)
SEC("tp_btf/io_uring_complete")
int on_ring_complete(__u64 *arguments)
{
	struct io_kiocb *request = (void *)arguments[1];
	__u64 key = arguments[1];
	struct ring_call *call = bpf_map_lookup_elem(&ring_calls, &key);
	if (!call)
		return 0;
	struct file *file = BPF_CORE_READ(request, file);
	struct opened opened = {0};
	int is_open = file && look_at(file, &opened);
	__u64 took = bpf_ktime_get_ns() - call->entered_ns;
	struct name name = { .of = call->opcode == RING_FSYNC ? FSYNC : SYNCED_WRITE };
	__builtin_memcpy(name.process, call->process, sizeof(name.process));
	bpf_map_delete_elem(&ring_calls, &key);
	if (!is_open || (name.of == SYNCED_WRITE && !is_synced(&opened)))
		return 0;
	name.device = device_of(opened.inode);
	if (!is_device_ours(name.device))
		return 0;
	__u32 row = row_of(&name) - 1;
	struct sums *sums = bpf_map_lookup_elem(&rows, &row);
	if (!sums) {
		add(NO_ROW, 1);
		return 0;
	}
	__sync_fetch_and_add(&sums->entered, 1);
	__sync_fetch_and_add(&sums->parts_ns[0], took);
	record(sums, took);
	return 0;
}

// sched_process_fork(struct task_struct *parent, struct task_struct *child)
SEC("tp_btf/sched_process_fork")
int on_fork(__u64 *arguments)
{
	struct task_struct *parent = (void *)arguments[0], *child = (void *)arguments[1];
	__u32 from = parent->tgid, to = child->tgid, itself = ITSELF;
	if (!settings.follows || from == to || !bpf_map_lookup_elem(&followed, &from))
		return 0;
	if (bpf_map_update_elem(&followed, &to, &itself, ANY))
		add(LOST, 1);
	return 0;
}

// sched_process_exit(struct task_struct *), of each thread
SEC("tp_btf/sched_process_exit")
int on_process_exit(__u64 *arguments)
{
	struct task_struct *task = (void *)arguments[0];
	__u32 process = task->tgid, thread = task->pid;
	struct call *call = bpf_map_lookup_elem(&calls, &thread);
	if (call && call->entered_ns) {
		add(LOST, 1);
		add(OPEN_CALLS, -1);
	}
	if (call)
		bpf_map_delete_elem(&calls, &thread);
	if (task->signal->live.counter > 0)
		return 0;
	bpf_map_delete_elem(&callers, &process);
	if (settings.follows)
		bpf_map_delete_elem(&followed, &process);
	return 0;
}

char _license[] SEC("license") = "Dual MIT/GPL";
