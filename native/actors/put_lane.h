/* A lane of the broker's own: how an actor puts records into the log itself. The scheduler does it with delayed messages that are due.
 *
 * Each record has a name, given by the actor: what it is made of. The actor fills a portion and publishes it. The writer appends the
 * records, or refuses them, and notes in each what became of it (lane.h). Once the writer has freed the portion, the actor reads the
 * notes, and writes down in a place that outlives it (shared memory) how far it is: what became of the names, and `counted`, the lane's
 * position up to which it knows. Only then does it fill the next portion. So, once, whatever is killed:
 *
 *   the actor, before it has published   there is nothing. Its successor starts again at the lane's shared tail
 *   the actor, after that                put_lane_pending is true in its successor, which waits until put_lane_answered, and reads the
 *                                        notes behind `counted`
 *   the writer                           its successor applies a lane's record once (writer/writer.c), and the notes are made before the
 *                                        commit that frees the record
 *   the whole tree                       the lane is gone. The actor puts the name into the record too (the field of the prepared
 *                                        transaction offset), and reads the log from a position on that it keeps in a file
 */
#ifndef ORBITMQ_PUT_LANE_H
#define ORBITMQ_PUT_LANE_H

#include "format/record.h"
#include "shared/attachment.h"

struct put_lane {
    struct attachment *attachment;
    uint32_t index;
    struct lane *lane;
    struct ring_producer out;
};

/* What a record is made of: two numbers of the actor's own. */
struct put_name {
    uint32_t kind;
    uint64_t number;
};

/* What the writer noted. code: VERDICT_APPENDED, or why not: the actor may put it there again. end: physical offset, of its last byte
 * and one. */
struct put_note {
    struct put_name name;
    uint32_t code;
    uint64_t end;
    const uint8_t *image; /* the record as it was put, in the lane; in the place of its CRC property is anything */
    uint32_t image_size;
};

void put_lane_open(struct put_lane *put, struct attachment *attachment, enum own_lane own);

/* Bytes that were added and not counted yet, published or not. */
static inline uint64_t put_lane_ahead(const struct put_lane *put, uint64_t counted) { return put->out.position - counted; }

/* Adds a record to the portion. False: the lane has no room now. */
bool put_lane_add(struct put_lane *put, const struct put_name *name, const struct record_parts *parts, uint32_t queue_slot);

/* The portion is the writer's. */
void put_lane_publish(struct put_lane *put);

/* True once the writer has answered and freed all that was published. */
bool put_lane_answered(const struct put_lane *put);

/* For reading the notes, of a portion that is answered. */
struct ring_consumer put_lane_notes(const struct put_lane *put, uint64_t counted);
bool put_lane_next(const struct put_lane *put, struct ring_consumer *look, struct put_note *note);

/* Sleeps on the actor's bell for limit_ns at most. awaits: until the writer has answered. news: looked at once the sleep is announced;
 * true: there is something to do. NULL: nothing but the bell is looked at. */
enum bell_wake put_lane_rest(struct put_lane *put, bool awaits, uint64_t limit_ns, bool (*news)(const void *), const void *of);

#endif
