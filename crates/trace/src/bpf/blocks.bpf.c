// SPDX-License-Identifier: MIT OR GPL-2.0
// Where the requests of one block device spend their time: waiting for a tag, held in a plug, in
// the I/O scheduler, in the device.
//
// From its submission to its request a bio has a place in a small table addressed by its pointer;
// from then on the request has the place of its tag. All counting is done once, when the request
// completes, in counters of the CPU; so most events only write a time.
#include "blocks.h"

static __u64 target; // the device's request_queue, once it was seen
static __u64 last_end; // sector after the last issued request
static __u64 last_arrival; // latest arrival of an issued request
static __u32 last_place; // of the last issued request, plus 1

static __always_inline struct totals *counters(void)
{
	__u32 zero = 0;
	return bpf_map_lookup_elem(&totals, &zero);
}

static __always_inline void count(__u32 which, __u64 how_many)
{
	struct totals *all = counters();
	if (all && which < TOTALS)
		all->count[which] += how_many;
}

static __always_inline struct depths *look_at_depths(void)
{
	__u32 zero = 0;
	return bpf_map_lookup_elem(&depths, &zero);
}

// Since when all programs are attached; 0 while some are not.
static __always_inline __u64 attached_since(void)
{
	__u32 zero = 0;
	__u64 *attached_ns = bpf_map_lookup_elem(&attached, &zero);
	return attached_ns ? *attached_ns : 0;
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

// The class that has this name; CLASSES: none has.
static __always_inline __u32 class_named(const __u64 *name)
{
	for (__u32 i = 1; i < CLASSES; i++) {
		__u32 number = i;
		struct found *one = bpf_map_lookup_elem(&found, &number);
		if (one && one->process && one->name[0] == name[0] && one->name[1] == name[1])
			return number;
	}
	return CLASSES;
}

// A class for the process, which has the name of its first thread.
static __always_inline __u32 find_class(__u32 process, __u8 *place)
{
	struct task_struct *task = (void *)bpf_get_current_task_btf();
	struct depths *state = look_at_depths();
	if (!state || task->flags & KERNEL_THREAD)
		return 0;
	struct task_struct *leader = task->group_leader;
	__u64 name[2];
	__builtin_memcpy(name, leader->comm, sizeof(name));
	__u32 number = CLASSES;
	if (state->classes_used + FOR_NEW_NAMES >= settings.classes)
		number = class_named(name);
	if (number == CLASSES)
		number = __sync_fetch_and_add(&state->classes_used, 1);
	struct found *one = bpf_map_lookup_elem(&found, &number);
	if (number >= settings.classes || !one) {
		count(NO_CLASS, 1);
		return 0;
	}
	__sync_fetch_and_add(&one->processes, 1);
	if (!one->process) {
		one->name[0] = name[0];
		one->name[1] = name[1];
		one->process = process;
	}
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
	struct totals *all = counters();
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

static __always_inline int is_of_ours(struct request *request)
{
	struct request_queue *queue = request->q;
	if (target)
		return (__u64)queue == target;
	struct gendisk *disk = bpf_core_field_exists(queue->disk) ? queue->disk : 0;
	if (!disk || disk->major != settings.major || disk->first_minor != settings.minor)
		return 0;
	target = (__u64)queue;
	return 1;
}

static __always_inline __u32 number_of_place(struct request *request)
{
	__s32 tag = request->internal_tag;
	if (tag < 0)
		tag = request->tag;
	return request->mq_hctx->queue_num << settings.tag_bits | tag;
}

static __always_inline struct place *place_of(struct request *request)
{
	__u32 which = number_of_place(request);
	return bpf_map_lookup_elem(&places, &which);
}

static __always_inline int is_waiting(struct place *place, struct request *request)
{
	return place->request == (__u64)request && place->inserted_ns && !place->issued_ns;
}

#include "untraced.h"

// A new maximum is one only without the requests that ended untraced. Those beyond TAGS_LOOKED_AT
// are found when their tags are used again: nobody has to wait for a long search.
static __always_inline void raise(struct depths *state, struct request *request)
{
	__s64 scheduler = state->scheduler, driver = state->driver;
	if (scheduler > state->scheduler_max)
		state->scheduler_max = scheduler;
	if (driver <= state->driver_max && scheduler + driver <= state->both_max)
		return;
	struct blk_mq_tags *tags = request->mq_hctx->tags;
	if (bpf_core_field_exists(tags->bitmap_tags))
		state->tags = tags->bitmap_tags.sb.depth;
	bpf_for_each_map_elem(&places, close_tag, 0, 0);
	driver = state->driver;
	if (driver > state->driver_max)
		state->driver_max = driver;
	if (scheduler + driver > state->both_max)
		state->both_max = scheduler + driver;
}

// Gives the request its place, with what is known of its first bio; 0 where it began before us.
static __always_inline int
settle(struct place *place, struct request *request, struct totals *all, struct depths *state,
       __u64 now)
{
	forget(place, all, state);
	check_the_last(all, state, now);
	place->request = (__u64)request;
	place->operation = request->cmd_flags & 0xff;
	place->inserted_ns = 0;
	place->issued_ns = 0;
	place->bfq_queue = 0;
	place->came_back = 0;
	struct bio_place *first = find_bio(request->bio);
	if (!first)
		first = find_bio(request->biotail);
	if (first && first->got_ns) {
		place->queued_ns = first->queued_ns;
		place->got_ns = first->got_ns;
		place->class = first->class;
		first->bio = 0;
		return 1;
	}
	if (request->bio) {
		__u64 opened = attached_since(), began = request->start_time_ns;
		if (!opened || (began && began < opened)) {
			place->request = 0;
			return 0;
		}
		all->count[NO_BIO] += 1;
	}
	place->queued_ns = now;
	place->got_ns = now;
	place->class = 0;
	return 1;
}

SEC("tp_btf/block_rq_insert")
int on_insert(__u64 *arguments)
{
	struct request *request = (void *)arguments[0];
	if (!is_of_ours(request))
		return 0;
	__u64 now = bpf_ktime_get_ns();
	struct place *place = place_of(request);
	struct totals *all = counters();
	struct depths *state = look_at_depths();
	if (!place || !all || !state || is_waiting(place, request))
		return 0; // or it came back from the driver
	if (!settle(place, request, all, state, now))
		return 0;
	place->inserted_ns = now;
	all->count[INSERTED] += 1;
	__sync_fetch_and_add(&state->scheduler, 1);
	raise(state, request);
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
	if (!is_of_ours(request))
		return 0;
	__u64 now = bpf_ktime_get_ns();
	struct place *place = place_of(request);
	struct totals *all = counters();
	struct depths *state = look_at_depths();
	if (!place || !all || !state)
		return 0;
	if (is_waiting(place, request))
		__sync_fetch_and_add(&state->scheduler, -1);
	else if (!settle(place, request, all, state, now)) {
		all->count[BEGUN_BEFORE] += 1; // here alone: it may have been seen at its insertion
		return 0;
	}
	place->issued_ns = now;
	last_place = number_of_place(request) + 1;
	__sync_fetch_and_add(&state->driver, 1);
	raise(state, request);
	if (place->came_back)
		return 0; // its bytes are now those that are left
	place->bytes = request->__data_len;
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

// Not `static`: the kernel verifies it once, and not again wherever it is called.
__noinline __u32 bin_of(__u64 value)
{
	if (value < 8)
		return value;
	__u32 bits = log2_of(value);
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
	/* 64 bits, and compared as they are used: the verifier of Linux 6.1 follows no other form. */
	__u64 bin = bin_of(ns);
	barrier_var(bin);
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
	__u32 status = arguments[1]; // whole, at once: Linux 6.1 refuses a later read of its byte
	if (!is_of_ours(request))
		return 0;
	if (request->part) // the kernel counts it, too
		count(SECTORS, (__u32)arguments[2] >> 9);
	if ((__u32)arguments[2] < request->__data_len) {
		count(IN_PARTS, 1); // more of it will come
		return 0;
	}
	struct place *place = place_of(request);
	__u64 issued_ns = place && place->request == (__u64)request ? place->issued_ns : 0;
	// Nobody else may close it from here on: its state will say that it has ended.
	if (!place || issued_ns <= CLOSED ||
	    __sync_val_compare_and_swap(&place->issued_ns, issued_ns, CLOSED) != issued_ns) {
		__u64 opened = attached_since();
		// A bare flush ends a request that was never issued.
		if (request->__data_len && opened && request->start_time_ns >= opened)
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
	if (status && status != TRY_AGAIN && operation < OTHER_OPERATION)
		count(ERRORS, 1);
	if (class >= settings.classes)
		class = 0;
	__u32 key = (class * OPERATIONS + operation) * SIZES + size_of(place->bytes);
	struct histograms *all = bpf_map_lookup_elem(&histograms, &key);
	__u32 number = (issued_ns - settings.start_ns) / INTERVAL_NS;
	key = number * settings.classes + class;
	struct interval *time = 0;

	if (number < settings.intervals_max)
		time = bpf_map_lookup_elem(&intervals, &key);
	if (all) {
		__u64 left_plug = place->inserted_ns ? place->inserted_ns : issued_ns;
		all->bytes += place->bytes;
		add(all, time, 0, place->got_ns - place->queued_ns);
		add(all, time, 1, left_plug - place->got_ns);
		add(all, time, 2, issued_ns - left_plug);
		add(all, time, 3, now - issued_ns);
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
	if (!is_of_ours(request))
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
	if (!is_of_ours(request))
		return 0;
	struct place *place = place_of(request);
	struct depths *state = look_at_depths();
	if (!place || !state || place->request != (__u64)request || place->issued_ns <= CLOSED)
		return 0;
	count(REQUEUES, 1);
	__sync_fetch_and_add(&state->driver, -1);
	__sync_fetch_and_add(&state->scheduler, 1);
	if (!place->inserted_ns)
		place->inserted_ns = place->issued_ns;
	place->issued_ns = 0;
	place->came_back = 1;
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

#include "waiting.h"

char _license[] SEC("license") = "Dual MIT/GPL";
