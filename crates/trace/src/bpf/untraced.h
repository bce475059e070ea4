// SPDX-License-Identifier: MIT OR GPL-2.0
// Requests that ended without an event.
#pragma once

// The request of this place that was issued then has ended, and nothing traced its end. Another CPU
// may find that out, too, or give the place to the next request.
static __always_inline void
close_untraced(struct place *place, struct totals *all, struct depths *state, __u64 issued_ns)
{
	__u32 sectors = place->bytes >> 9;
	if (__sync_val_compare_and_swap(&place->issued_ns, issued_ns, CLOSED) != issued_ns)
		return;
	all->count[UNTRACED] += 1;
	all->count[SECTORS] += sectors;
	__sync_fetch_and_add(&state->driver, -1);
}

// A tag is used again only after its request has ended.
static __always_inline void forget(struct place *place, struct totals *all, struct depths *state)
{
	__u64 issued_ns = place->issued_ns;
	if (!place->request || issued_ns == CLOSED)
		return;
	if (issued_ns)
		close_untraced(place, all, state, issued_ns);
	else if (place->inserted_ns)
		__sync_fetch_and_add(&state->scheduler, -1);
}

// Some kernels trace no event in some contexts (here: in the idle task). A request that has ended
// says so in its state. That of one that is just being issued is the same for a moment, but it has a
// queue; one that ended in a batch keeps it.
static __always_inline void
close_ended(struct place *place, struct totals *all, struct depths *state, __u64 now)
{
	__u64 issued_ns = place->issued_ns;
	struct request *request = (void *)place->request;
	struct blk_mq_hw_ctx *queue = 0;
	__u32 is = ~0u;
	if (!request || issued_ns <= CLOSED)
		return;
	bpf_core_read(&is, sizeof(is), &request->state);
	if (is != MQ_RQ_IDLE)
		return;
	bpf_core_read(&queue, sizeof(queue), &request->mq_hctx);
	if (!queue || now > issued_ns + ISSUE_TAKES_NS)
		close_untraced(place, all, state, issued_ns);
}

// Of a load with one request at a time the last one is the only one whose end can be missing.
static __always_inline void
check_the_last(struct totals *all, struct depths *state, __u64 now)
{
	__u32 number = last_place - 1;
	struct place *place = last_place ? bpf_map_lookup_elem(&places, &number) : 0;
	if (place)
		close_ended(place, all, state, now);
}

static long close_tag(void *map, __u32 *number, struct place *place, void *nothing)
{
	struct totals *all = counters();
	struct depths *state = look_at_depths();
	if (*number >= TAGS_LOOKED_AT || !all || !state)
		return 1;
	close_ended(place, all, state, bpf_ktime_get_ns());
	return 0;
}
