// SPDX-License-Identifier: MIT OR GPL-2.0
// The requests that have not completed, as the reader asks for them.
#pragma once

static long look_at_place(void *map, __u32 *key, struct place *place, void *nothing)
{
	struct totals *all = counters();
	struct depths *state = look_at_depths();
	__u64 began = place->queued_ns;
	if (!all || !state || !place->request)
		return 0;
	close_ended(place, all, state, bpf_ktime_get_ns());
	if (place->issued_ns == CLOSED || (!place->issued_ns && !place->inserted_ns))
		return 0;
	__u32 class = place->class < CLASSES ? place->class : 0;
	__u64 *oldest = bpf_map_lookup_elem(&waiting, &class);
	__u32 operation = place->operation < OTHER_OPERATION ? place->operation : OTHER_OPERATION;
	if (oldest && began && (!oldest[operation] || began < oldest[operation]))
		oldest[operation] = began;
	return 0;
}

// Run by the reader: which requests wait, and since when; those that ended untraced are closed.
SEC("syscall")
int look_at_places(void *nothing)
{
	for (__u32 class = 0; class < CLASSES; class++) {
		__u32 key = class;
		__u64 *oldest = bpf_map_lookup_elem(&waiting, &key);
		if (oldest)
			oldest[0] = oldest[1] = oldest[2] = 0;
	}
	bpf_for_each_map_elem(&places, look_at_place, 0, 0);
	return 0;
}
