// SPDX-License-Identifier: MIT OR GPL-2.0
// Where the requests of one block device spend their time: waiting for a tag, held in a plug, in
// the I/O scheduler, in the device.
//
// From its submission to its request a bio has a place in a small table addressed by its pointer;
// from then on the request has the place of its tag. All counting is done once, when the request
// completes, in counters of the CPU; so most events only write a time.
typedef unsigned int __u32;
typedef unsigned long long __u64;
typedef int __s32;
typedef unsigned char __u8;
typedef unsigned short __u16, __be16;
typedef __u32 __be32, __wsum;
typedef long long __s64;
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

enum { MAP_TYPE_ARRAY = 2, MAP_TYPE_PERCPU_ARRAY = 6 };
enum { READ = 0, WRITE = 1, FLUSH = 2, OTHER_OPERATION = 2 };
enum { PARTS = 5 }; // tag, plug, scheduler, device, all
enum { BINS = 160 }; // four to the octave
enum { CLASSES = 16, OPERATIONS = 3, SIZES = 6 };
enum { KERNEL_THREAD = 0x00200000 }; // PF_KTHREAD

#define SETS 4096
#define WAYS 4
#define TAGS 65536
#define FLUSHES 64
#define PIDS_PER_ENTRY 64
#define INTERVAL_NS 100000000ull

// The fields that are read; where they lie is found out when the program is loaded (CO-RE).
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct kernfs_node { __u64 id; };
struct cgroup { struct kernfs_node *kn; };
struct cgroup_subsys_state { struct cgroup *cgroup; };
struct blkcg { struct cgroup_subsys_state css; };
struct blkcg_gq { struct blkcg *blkcg; };
struct gendisk { int major, first_minor; };
struct throtl_data { __u32 nr_queued[2]; };
struct request_queue { struct throtl_data *td; };
struct block_device { struct gendisk *bd_disk; struct request_queue *bd_queue; };
struct bvec_iter { __u64 bi_sector; __u32 bi_size; } __attribute__((packed));
struct bio {
	struct block_device *bi_bdev;
	struct bvec_iter bi_iter;
	struct blkcg_gq *bi_blkg;
};
struct blk_mq_hw_ctx { __u32 queue_num; };
struct request {
	struct request_queue *q;
	struct blk_mq_hw_ctx *mq_hctx;
	__u32 cmd_flags;
	__s32 tag, internal_tag;
	__u32 __data_len;
	__u64 __sector;
	struct bio *bio, *biotail;
	__u64 start_time_ns;
	struct { void *icq; void *priv[2]; } elv;
};
struct bfq_entity { int weight; };
struct bfq_queue { __u32 wr_coeff; struct bfq_entity entity; };
struct task_struct { __u32 flags; char comm[16]; };
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
	__u32 class;
	__u32 weight_raising;
	__u32 bytes;
	__u32 bfq_weight;
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
	SEEK_SECTORS, BEGUN_BEFORE, NO_BIO, NO_PLACE, EVICTED, LATE_INTERVALS, NO_CLASS,
	UNMATCHED, IN_PARTS, TOTALS
};

struct {
	__uint(type, MAP_TYPE_ARRAY);
	__uint(max_entries, SETS);
	__type(key, __u32);
	__type(value, struct bio_set);
} bios SEC(".maps");

struct {
	__uint(type, MAP_TYPE_ARRAY);
	__uint(max_entries, TAGS + FLUSHES);
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

// Requests in the scheduler and in the driver: now, the most ever, the most since the last look.
struct depths {
	__s64 scheduler, driver;
	__u64 scheduler_max, driver_max;
	__u64 attached_ns;
	__u64 classes_used;
	__u64 limited; // bios that limits hold back (io.max, blkio.throttle)
};

struct {
	__uint(type, MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct depths);
} depths SEC(".maps");

// Of a class that was found by itself.
struct found {
	__u32 process;
	char name[16];
	__u32 unused;
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
	__u32 cgroups, unused; // classes by cgroup: the first so many of these
	__u64 cgroup_id[CLASSES];
	__u32 cgroup_class[CLASSES];
};

const volatile struct settings settings = {0};

static __u64 target; // the device's request_queue, once it was seen
static __u64 last_end; // sector after the last issued request
static __u64 last_arrival; // latest arrival of an issued request

static __always_inline void count(__u32 which, __u64 how_many)
{
	__u32 zero = 0;
	struct totals *all = bpf_map_lookup_elem(&totals, &zero);
	if (all && which < TOTALS)
		all->count[which] += how_many;
}

static __always_inline struct depths *look_at_depths(void)
{
	__u32 zero = 0;
	return bpf_map_lookup_elem(&depths, &zero);
}

static __always_inline int is_ours(struct bio *bio)
{
	struct block_device *device = bio->bi_bdev;
	if (target)
		return (__u64)device->bd_queue == target;
	struct gendisk *disk = device->bd_disk;
	if (disk->major != settings.major || disk->first_minor != settings.minor)
		return 0;
	target = (__u64)device->bd_queue;
	return 1;
}

static __always_inline __u32 class_of_cgroup(struct bio *bio)
{
	struct blkcg_gq *group = bio->bi_blkg;
	if (!group)
		return 0;
	__u64 id = group->blkcg->css.cgroup->kn->id;
	for (__u32 i = 0; i < CLASSES; i++) {
		if (i >= settings.cgroups)
			break;
		if (settings.cgroup_id[i] == id)
			return settings.cgroup_class[i];
	}
	return 0;
}

static __always_inline __u32 find_class(__u32 process, __u8 *place)
{
	struct task_struct *task = (void *)bpf_get_current_task_btf();
	struct depths *state = look_at_depths();
	if (!state || task->flags & KERNEL_THREAD)
		return 0;
	__u32 number = __sync_fetch_and_add(&state->classes_used, 1);
	struct found *one = bpf_map_lookup_elem(&found, &number);
	if (number >= settings.classes || !one) {
		__sync_fetch_and_add(&state->classes_used, -1);
		count(NO_CLASS, 1);
		return 0;
	}
	one->process = process;
	bpf_get_current_comm(one->name, sizeof(one->name));
	*place = number;
	return number;
}

static __always_inline __u32 class_of(struct bio *bio)
{
	if (settings.cgroups) {
		__u32 class = class_of_cgroup(bio);
		if (class)
			return class;
	}
	__u64 who = bpf_get_current_pid_tgid();
	__u32 process = who >> 32, thread = who, entry = process / PIDS_PER_ENTRY;
	struct pids *pids = bpf_map_lookup_elem(&class_of_pid, &entry);
	if (!pids)
		return 0;
	__u8 *class = &pids->class[process % PIDS_PER_ENTRY];
	if (*class || process == thread)
		goto known;
	entry = thread / PIDS_PER_ENTRY;
	struct pids *threads = bpf_map_lookup_elem(&class_of_pid, &entry);
	if (threads && threads->class[thread % PIDS_PER_ENTRY])
		return threads->class[thread % PIDS_PER_ENTRY];
known:
	if (!*class && settings.find_classes && process)
		return find_class(process, class);
	return *class;
}

// A pointer as a number: the verifier lets nobody calculate with what it knows to be a pointer.
static __always_inline __u64 number_of(void *pointer)
{
	__u32 zero = 0;
	struct totals *all = bpf_map_lookup_elem(&totals, &zero);
	if (!all)
		return 0;
	all->address = (__u64)pointer;
	return all->address;
}

static __always_inline struct bio_set *set_of(__u64 bio)
{
	__u32 set = ((bio >> 6) ^ (bio >> 18)) % SETS;
	return bpf_map_lookup_elem(&bios, &set);
}

static __always_inline struct bio_place *find_bio(void *pointer)
{
	__u64 bio = number_of(pointer);
	struct bio_set *set = bio ? set_of(bio) : 0;
	if (!set)
		return 0;
	for (int i = 0; i < WAYS; i++)
		if (set->way[i].bio == bio)
			return &set->way[i];
	return 0;
}

// A free way, that of the same bio, or the one that has been there for the longest time.
static __always_inline struct bio_place *claim_bio(void *pointer)
{
	__u64 bio = number_of(pointer);
	struct bio_set *set = set_of(bio);
	if (!set)
		return 0;
	int best = 0;
	for (int i = 0; i < WAYS; i++) {
		if (set->way[i].bio == bio)
			return &set->way[i];
		if (!set->way[i].bio)
			best = i;
		else if (set->way[best & 3].bio &&
			 set->way[i].queued_ns < set->way[best & 3].queued_ns)
			best = i;
	}
	struct bio_place *place = &set->way[best & 3];
	if (place->bio)
		count(EVICTED, 1);
	place->bio = bio;
	return place;
}

static __always_inline void arrive(struct bio *bio)
{
	struct bio_place *place = claim_bio(bio);
	if (!place)
		return;
	place->queued_ns = bpf_ktime_get_ns();
	place->got_ns = 0;
	place->class = class_of(bio);
}

// Before limits can hold the bio back. Where functions cannot be traced, block_bio_queue is the
// first that is seen of it; how many bios limits hold is then known all the same (look_at_limits).
SEC("fentry/submit_bio_noacct")
int on_submit(__u64 *arguments)
{
	struct bio *bio = (void *)arguments[0];
	if (is_ours(bio))
		arrive(bio);
	return 0;
}

SEC("tp_btf/block_bio_queue")
int on_queue(__u64 *arguments)
{
	struct bio *bio = (void *)arguments[0];
	if (is_ours(bio))
		arrive(bio);
	return 0;
}

// block_split(struct bio *first, unsigned int sector): the first part is a bio that nobody queued.
SEC("tp_btf/block_split")
int on_split(__u64 *arguments)
{
	struct bio *bio = (void *)arguments[0];
	if (is_ours(bio))
		arrive(bio);
	return 0;
}

SEC("tp_btf/block_getrq")
int on_getrq(__u64 *arguments)
{
	struct bio *bio = (void *)arguments[0];
	if (!is_ours(bio))
		return 0;
	struct bio_place *place = find_bio(bio);
	if (place)
		place->got_ns = bpf_ktime_get_ns();
	return 0;
}

static __always_inline int merged(struct bio *bio)
{
	if (!is_ours(bio))
		return 0;
	struct bio_place *place = find_bio(bio);
	if (place)
		place->bio = 0;
	count(BIO_MERGES, 1);
	return 0;
}

SEC("tp_btf/block_bio_backmerge")
int on_backmerge(__u64 *arguments)
{
	return merged((void *)arguments[0]);
}

SEC("tp_btf/block_bio_frontmerge")
int on_frontmerge(__u64 *arguments)
{
	return merged((void *)arguments[0]);
}

static __always_inline struct place *place_of(struct request *request)
{
	__u32 queue = request->mq_hctx->queue_num, which;
	if ((request->cmd_flags & 0xff) == FLUSH) {
		which = TAGS + queue % FLUSHES; // flushes borrow the tag of another request
	} else {
		__s32 tag = request->internal_tag;
		if (tag < 0)
			tag = request->tag;
		which = (queue << 12 ^ tag) % TAGS;
	}
	return bpf_map_lookup_elem(&places, &which);
}

static __always_inline int is_waiting(struct place *place, struct request *request)
{
	return place->request == (__u64)request && place->inserted_ns && !place->issued_ns;
}

// Gives the request its place, with what is known of its first bio.
static __always_inline struct place *settle(struct request *request, __u64 now)
{
	struct place *place = place_of(request);
	if (!place)
		return 0;
	place->request = (__u64)request;
	place->inserted_ns = 0;
	place->issued_ns = 0;
	place->bfq_queue = 0;
	struct bio_place *first = find_bio(request->bio);
	if (!first)
		first = find_bio(request->biotail);
	if (first && first->got_ns) {
		place->queued_ns = first->queued_ns;
		place->got_ns = first->got_ns;
		place->class = first->class;
		first->bio = 0;
		return place;
	}
	struct depths *state = look_at_depths();
	if (state && request->bio) {
		__u64 opened = state->attached_ns, began = request->start_time_ns;
		int before = !opened || (began && began < opened);
		count(before ? BEGUN_BEFORE : NO_BIO, 1);
		if (before) {
			place->request = 0;
			return 0;
		}
	}
	place->queued_ns = now;
	place->got_ns = now;
	place->class = 0;
	return place;
}

SEC("tp_btf/block_rq_insert")
int on_insert(__u64 *arguments)
{
	struct request *request = (void *)arguments[0];
	if (!target || (__u64)request->q != target)
		return 0;
	__u64 now = bpf_ktime_get_ns();
	struct place *place = place_of(request);
	if (place && is_waiting(place, request))
		return 0; // it came back from the driver
	place = settle(request, now);
	struct depths *state = look_at_depths();
	if (!place || !state)
		return 0;
	place->inserted_ns = now;
	count(INSERTED, 1);
	__u64 depth = __sync_fetch_and_add(&state->scheduler, 1) + 1;
	if (depth > state->scheduler_max)
		state->scheduler_max = depth;
	return 0;
}

// Whose queue of bfq the request was in, and by how much bfq raised its weight.
static __always_inline void ask_bfq(struct request *request, struct place *place)
{
	if (!bpf_core_field_exists(((struct bfq_queue *)0)->wr_coeff))
		return;
	struct bfq_queue *queue = request->elv.priv[1];
	place->bfq_queue = (__u64)queue;
	if (!queue)
		return;
	bpf_core_read(&place->weight_raising, sizeof(__u32), &queue->wr_coeff);
	bpf_core_read(&place->bfq_weight, sizeof(__u32), &queue->entity.weight);
}

SEC("tp_btf/block_rq_issue")
int on_issue(__u64 *arguments)
{
	struct request *request = (void *)arguments[0];
	if (!target || (__u64)request->q != target)
		return 0;
	__u64 now = bpf_ktime_get_ns();
	struct depths *state = look_at_depths();
	struct place *place = place_of(request);
	if (!state || !place)
		return 0;
	if (is_waiting(place, request)) {
		__sync_fetch_and_add(&state->scheduler, -1);
	} else {
		place = settle(request, now);
		if (!place)
			return 0;
	}
	place->issued_ns = now;
	place->bytes = request->__data_len;
	__u64 depth = __sync_fetch_and_add(&state->driver, 1) + 1;
	if (depth > state->driver_max)
		state->driver_max = depth;
	__u32 zero = 0;
	struct totals *all = bpf_map_lookup_elem(&totals, &zero);
	if (!all)
		return 0;
	all->count[ISSUED] += 1;
	if (place->bytes) {
		__u64 sector = request->__sector, from = last_end;
		last_end = sector + place->bytes / 512;
		if (from && sector != from) {
			all->count[SEEKS] += 1;
			all->count[SEEK_SECTORS] += sector > from ? sector - from : from - sector;
		}
		if (place->queued_ns < last_arrival)
			all->count[OUT_OF_ORDER] += 1;
		else
			last_arrival = place->queued_ns;
	}
	if (settings.is_bfq)
		ask_bfq(request, place);
	return 0;
}

static __always_inline __u32 bin_of(__u64 value)
{
	__u32 bits = 0;
	__u64 rest = value;
	if (rest < 8)
		return rest;
	if (rest >> 32) { bits += 32; rest >>= 32; }
	if (rest >> 16) { bits += 16; rest >>= 16; }
	if (rest >> 8) { bits += 8; rest >>= 8; }
	if (rest >> 4) { bits += 4; rest >>= 4; }
	if (rest >> 2) { bits += 2; rest >>= 2; }
	if (rest >> 1) { bits += 1; }
	__u32 bin = bits * 4 + ((value >> (bits - 2)) & 3) - 4;
	return bin < BINS ? bin : BINS - 1;
}

static __always_inline __u32 size_of(__u32 bytes)
{
	return (bytes > 4096) + (bytes > 16384) + (bytes > 65536) + (bytes > 262144) +
	       (bytes > 1048576);
}

static __always_inline void add(struct histograms *all, struct interval *time, int part, __u64 ns)
{
	__u32 bin = bin_of(ns);
	if (bin < BINS)
		all->counts[part][bin] += 1;
	all->sum_ns[part] += ns;
	if (ns > all->max_ns[part])
		all->max_ns[part] = ns;
	if (time)
		time->sum_ns[part] += ns;
}

static __always_inline void
add_interval(struct interval *time, struct place *place, __u32 operation)
{
	time->issued[operation] += 1;
	time->bytes += place->bytes;
	if (!place->bfq_queue)
		return;
	time->bfq_requests += 1;
	time->weight_raising_sum += place->weight_raising;
	time->bfq_queue = place->bfq_queue;
	time->bfq_weight = place->bfq_weight;
}

// block_rq_complete(struct request *, blk_status_t, unsigned int bytes)
SEC("tp_btf/block_rq_complete")
int on_complete(__u64 *arguments)
{
	struct request *request = (void *)arguments[0];
	if (!target || (__u64)request->q != target)
		return 0;
	if ((__u32)arguments[2] < request->__data_len) {
		count(IN_PARTS, 1); // more of it will come
		return 0;
	}
	struct place *place = place_of(request);
	if (!place || place->request != (__u64)request || !place->issued_ns) {
		if (request->__data_len) // a bare flush ends a request that was never issued
			count(UNMATCHED, 1);
		return 0;
	}
	__u64 now = bpf_ktime_get_ns();
	struct depths *state = look_at_depths();
	if (state)
		__sync_fetch_and_add(&state->driver, -1);
	__u32 operation = request->cmd_flags & 0xff, class = place->class;
	if (operation > OTHER_OPERATION)
		operation = OTHER_OPERATION;
	if (class >= settings.classes)
		class = 0;
	__u32 key = (class * OPERATIONS + operation) * SIZES + size_of(place->bytes);
	struct histograms *all = bpf_map_lookup_elem(&histograms, &key);
	__u32 number = (place->issued_ns - settings.start_ns) / INTERVAL_NS;
	key = number * settings.classes + class;
	struct interval *time = 0;

	if (number < settings.intervals_max)
		time = bpf_map_lookup_elem(&intervals, &key);
	if (all) {
		__u64 left_plug = place->inserted_ns ? place->inserted_ns : place->issued_ns;
		all->bytes += place->bytes;
		add(all, time, 0, place->got_ns - place->queued_ns);
		add(all, time, 1, left_plug - place->got_ns);
		add(all, time, 2, place->issued_ns - left_plug);
		add(all, time, 3, now - place->issued_ns);
		add(all, time, 4, now - place->queued_ns);
	}
	if (time)
		add_interval(time, place, operation);
	else
		count(LATE_INTERVALS, 1);
	place->request = 0;
	return 0;
}

// The request that another one swallows; it was in the scheduler, or still in a plug.
SEC("tp_btf/block_rq_merge")
int on_merge(__u64 *arguments)
{
	struct request *request = (void *)arguments[0];
	if (!target || (__u64)request->q != target)
		return 0;
	count(REQUEST_MERGES, 1);
	struct place *place = place_of(request);
	struct depths *state = look_at_depths();
	if (!place || !state || place->request != (__u64)request)
		return 0;
	if (place->inserted_ns && !place->issued_ns)
		__sync_fetch_and_add(&state->scheduler, -1);
	place->request = 0;
	return 0;
}

// Back from the driver: what it waits from here on counts as waiting in the scheduler.
SEC("tp_btf/block_rq_requeue")
int on_requeue(__u64 *arguments)
{
	struct request *request = (void *)arguments[0];
	if (!target || (__u64)request->q != target)
		return 0;
	count(REQUEUES, 1);
	struct place *place = place_of(request);
	struct depths *state = look_at_depths();
	if (!place || !state || place->request != (__u64)request || !place->issued_ns)
		return 0;
	__sync_fetch_and_add(&state->driver, -1);
	__sync_fetch_and_add(&state->scheduler, 1);
	if (!place->inserted_ns)
		place->inserted_ns = place->issued_ns;
	place->issued_ns = 0;
	return 0;
}

// Run by the reader: how many bios limits hold back now.
SEC("syscall")
int look_at_limits(void *nothing)
{
	struct depths *state = look_at_depths();
	struct request_queue *queue = (void *)target;
	struct throtl_data *limits = 0;
	__u32 held[2] = {0, 0};
	if (!state || !queue || !bpf_core_field_exists(queue->td))
		return 0;
	bpf_core_read(&limits, sizeof(limits), &queue->td);
	if (limits)
		bpf_core_read(held, sizeof(held), &limits->nr_queued);
	state->limited = held[0] + held[1];
	return 0;
}

char _license[] SEC("license") = "Dual MIT/GPL";
