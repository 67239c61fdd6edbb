/* A ring between two threads, with every record checked byte for byte; then a consumer over garbage, which must stay inside. */
#include "drive.h"
#include "shared/ring.h"

#include <sched.h>
#include <string.h>

#define CAPACITY UINT64_C(16384)
#define RECORDS 60000u
#define GARBAGE_ROUNDS 20000u

static uint32_t record_size(uint32_t number) { return (number * 2654435761u >> 8) % (number % 64 == 0 ? CAPACITY / 2 - 8 : 200); }

static void *produce(void *with)
{
    struct ring_producer producer;
    ring_producer_attach(&producer, with, CAPACITY);
    for (uint32_t number = 0; number < RECORDS; number++) {
        uint32_t size = record_size(number);
        uint8_t *payload;
        while ((payload = ring_claim(&producer, size)) == NULL) {
            ring_publish(&producer);
            sched_yield();
        }
        memset(payload, (int)(number & 0xFF), size);
        ring_commit(&producer, size, number + 1);
        if (number % 9 == 0)
            ring_publish(&producer);
    }
    ring_publish(&producer);
    return NULL;
}

static void *consume(void *with)
{
    struct ring_consumer consumer;
    struct ring_record record;
    uint8_t *payload;
    ring_consumer_attach(&consumer, with, CAPACITY, 0);
    for (uint32_t number = 0; number < RECORDS; number++) {
        enum ring_look look;
        while ((look = ring_peek(&consumer, &record, &payload)) == RING_EMPTY) {
            ring_release(&consumer, consumer.position);
            sched_yield();
        }
        CHECK(look == RING_RECORD);
        CHECK(record.type == number + 1);
        CHECK(record.length == record_size(number) + RING_HEADER);
        for (uint32_t i = 0; i < record.length - RING_HEADER; i++)
            CHECK(payload[i] == (uint8_t)number);
        ring_pass(&consumer, &record);
        if (number % 5 == 0)
            ring_release(&consumer, consumer.position);
    }
    CHECK(ring_peek(&consumer, &record, &payload) == RING_EMPTY);
    return NULL;
}

/* Whatever the producer wrote, every payload that is shown is inside the ring, and the walk ends. */
static void read_garbage(struct ring *ring, uint64_t seed)
{
    for (uint32_t round = 0; round < GARBAGE_ROUNDS; round++) {
        for (uint32_t i = 0; i < 64; i++) {
            uint64_t at = drive_random(&seed) % RING_MIN_CAPACITY & ~UINT64_C(7);
            /* Half of the lengths are plausible, and some records are padding. */
            uint64_t length = drive_random(&seed) % (i % 2 ? 256 : UINT32_MAX);
            uint64_t header = (drive_random(&seed) % 4) << 32 | length;
            memcpy(ring->data + at, &header, sizeof header);
        }
        uint64_t tail = drive_random(&seed) % (RING_MIN_CAPACITY + 64);
        atomic_store_explicit(&ring->tail.position, tail, memory_order_release); /* [edge R1], as a producer would */
        struct ring_consumer consumer;
        struct ring_record record;
        uint8_t *payload;
        uint64_t sum = 0, shown = 0;
        ring_consumer_attach(&consumer, ring, RING_MIN_CAPACITY, 0);
        while (ring_peek(&consumer, &record, &payload) == RING_RECORD) {
            for (uint32_t i = 0; i < record.length - RING_HEADER; i++)
                sum += payload[i];
            ring_pass(&consumer, &record);
            CHECK(++shown <= RING_MIN_CAPACITY / RING_ALIGN);
        }
        CHECK(consumer.position <= RING_MIN_CAPACITY && sum <= RING_MIN_CAPACITY * 255);
    }
}

int main(void)
{
    struct ring *ring = drive_memory(ring_size(CAPACITY));
    pthread_t producer = drive_start(produce, ring), consumer = drive_start(consume, ring);
    drive_join(producer);
    drive_join(consumer);
    free(ring);
    ring = drive_memory(ring_size(RING_MIN_CAPACITY));
    read_garbage(ring, 88172645463325252u);
    free(ring);
    return 0;
}
