#include "shared/lane.h"

uint64_t lane_size_of(uint64_t capacity) { return lane_size(capacity); }

void lane_init(struct lane *lane, uint64_t capacity, uint64_t generation)
{
    assert(ring_capacity_good(capacity));
    segment_init(lane, SEGMENT_LANE, lane_size(capacity), generation);
    lane->capacity = capacity;
}
