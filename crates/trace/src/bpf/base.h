// SPDX-License-Identifier: MIT OR GPL-2.0
// What all programs share: types, kinds of maps, logarithms, and what a context switch says.
#pragma once
typedef unsigned int __u32;
typedef unsigned long long __u64;
typedef int __s32;
typedef unsigned char __u8;
typedef unsigned short __u16, __be16;
typedef __u32 __be32, __wsum;
typedef long long __s64;
#include <bpf/bpf_helpers.h>

enum { MAP_TYPE_HASH = 1, MAP_TYPE_ARRAY = 2, MAP_TYPE_PERCPU_ARRAY = 6, MAP_TYPE_RINGBUF = 27 };

// Position of the highest bit; 0 of 0.
static __always_inline __u32 log2_of(__u64 value)
{
	__u32 bits = 0;
	if (value >> 32) { bits += 32; value >>= 32; }
	if (value >> 16) { bits += 16; value >>= 16; }
	if (value >> 8) { bits += 8; value >>= 8; }
	if (value >> 4) { bits += 4; value >>= 4; }
	if (value >> 2) { bits += 2; value >>= 2; }
	if (value >> 1) { bits += 1; }
	return bits;
}
