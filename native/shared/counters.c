/* Histograms in powers of two, each split into 1 << HISTOGRAM_SUB_BITS equal buckets; and pages copied out for readers.
 *
 * Values below 1 << HISTOGRAM_SUB_BITS have a bucket each. From there on a value is its highest HISTOGRAM_SUB_BITS + 1 bits and
 * how far they are shifted: bucket ((shift + 1) << SUB) + the bits below the leading one. All words are relaxed: single
 * writer, and a reader that asks for fresh numbers and not for a consistent set (counters.h).
 */
#include "shared/counters.h"

#include <string.h>

#define SUB_COUNT (1u << HISTOGRAM_SUB_BITS)

uint32_t histogram_index(uint64_t value)
{
    if (value < SUB_COUNT)
        return (uint32_t)value;
    uint32_t shift = 63u - (uint32_t)__builtin_clzll(value) - HISTOGRAM_SUB_BITS;
    uint32_t index = ((shift + 1) << HISTOGRAM_SUB_BITS) + ((uint32_t)(value >> shift) & (SUB_COUNT - 1));
    return index < HISTOGRAM_BUCKETS ? index : HISTOGRAM_BUCKETS - 1;
}

uint64_t histogram_lowest(uint32_t index)
{
    assert(index <= HISTOGRAM_BUCKETS); /* one past the last: the end of the last */
    if (index < SUB_COUNT)
        return index;
    uint32_t shift = (index >> HISTOGRAM_SUB_BITS) - 1;
    return (uint64_t)(SUB_COUNT + (index & (SUB_COUNT - 1))) << shift;
}

void histogram_record(struct histogram *histogram, uint64_t value)
{
    /* relaxed, as all below: see the head */
    _Atomic uint64_t *bucket = &histogram->bucket[histogram_index(value)];
    atomic_store_explicit(bucket, atomic_load_explicit(bucket, memory_order_relaxed) + 1, memory_order_relaxed);
}

uint64_t histogram_count(const struct histogram *histogram)
{
    uint64_t total = 0;
    for (uint32_t i = 0; i < HISTOGRAM_BUCKETS; i++)
        total += atomic_load_explicit(&histogram->bucket[i], memory_order_relaxed);
    return total;
}

uint64_t histogram_quantile(const struct histogram *histogram, double q)
{
    assert(q >= 0.0 && q <= 1.0);
    uint64_t total = histogram_count(histogram);
    if (total == 0)
        return 0;
    double exact = q * (double)total;
    uint64_t rank = (uint64_t)exact;
    if ((double)rank < exact || rank == 0)
        rank++;
    /* The writer continues meanwhile; buckets only grow, so the walk still ends at or before the bucket of that rank. */
    uint64_t seen = 0;
    for (uint32_t i = 0; i < HISTOGRAM_BUCKETS; i++) {
        seen += atomic_load_explicit(&histogram->bucket[i], memory_order_relaxed);
        if (seen >= rank)
            return histogram_lowest(i + 1) - 1;
    }
    return histogram_lowest(HISTOGRAM_BUCKETS) - 1;
}

void actor_page_view(const struct actor_page *page, struct actor_view *view)
{
    /* The name is set before the actor starts and does not change; a torn look at it is bounded by the NUL written here. */
    memcpy(view->name, page->name, sizeof view->name);
    view->name[sizeof view->name - 1] = 0;
    view->pid = atomic_load_explicit(&page->pid, memory_order_relaxed);
    view->epoch = atomic_load_explicit(&page->epoch, memory_order_relaxed);
    view->state = atomic_load_explicit(&page->state, memory_order_relaxed);
    view->error = atomic_load_explicit(&page->error, memory_order_relaxed);
    view->heartbeat_ms = atomic_load_explicit(&page->heartbeat_ms, memory_order_relaxed);
    for (uint32_t i = 0; i < COUNTERS; i++)
        view->counter[i] = atomic_load_explicit(&page->counter[i], memory_order_relaxed);
}

uint64_t actor_page_quantile(const struct actor_page *page, double q) { return histogram_quantile(&page->histogram, q); }
uint64_t actor_page_samples(const struct actor_page *page) { return histogram_count(&page->histogram); }

void actor_page_buckets(const struct actor_page *page, uint64_t *counts)
{
    for (uint32_t i = 0; i < HISTOGRAM_BUCKETS; i++)
        counts[i] = atomic_load_explicit(&page->histogram.bucket[i], memory_order_relaxed); /* see the head */
}

void actor_page_refused(const struct actor_page *page, uint64_t *counts)
{
    for (uint32_t i = 0; i < REFUSALS; i++)
        counts[i] = atomic_load_explicit(&page->refused[i], memory_order_relaxed); /* see the head */
}

void actor_page_add(struct actor_page *page, enum counter which, uint64_t n)
{
    assert((uint32_t)which < COUNTERS);
    count(page, which, n);
}

void actor_page_record(struct actor_page *page, uint64_t value) { histogram_record(&page->histogram, value); }
uint64_t actor_page_size(void) { return sizeof(struct actor_page); }
