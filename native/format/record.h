/* One CommitLog record, version 1, big-endian; docs/formats/commitlog.md draws it. Offsets below are for IPv4 hosts; of IPv6, each host
 * takes 12 bytes more (record_host.h), and sysFlag says so.
 *
 *   0   u32 total size      4   u32 magic 0xDAA320A7   8   u32 body CRC & 0x7FFFFFFF   12  u32 queue id   16 u32 flag
 *   20  u64 queue offset    28  u64 physical offset    36  u32 sysFlag                 40  u64 born ms    48 born host 4+4
 *   56  u64 store ms        64  store host 4+4         72  u32 reconsume times         76  u64 prepared transaction offset
 *   84  u32 body size       88  body, then u8 topic size, topic, u16 properties size, properties
 *
 * Every record of OrbitMQ's ends its properties with the CRC property of RocketMQ 5: "__CRC32#" 0x01, ten decimal digits with
 * the least significant first, 0x02 (20 bytes): the CRC, & 0x7FFFFFFF, of all bytes of the record before those 20. The sender's
 * properties before it, if any, end with 0x02, so that old and new RocketMQ parse both; the properties size covers all.
 *
 * An image is a finished record with three zero holes: queue offset, physical offset, store ms. The CRC property stays
 * unwritten in it too; record_finish fills all of them.
 */
#ifndef ORBITMQ_RECORD_H
#define ORBITMQ_RECORD_H

#include "format/properties.h"
#include "format/record_host.h"
#include <stdbool.h>
#include <stdint.h>

#define RECORD_MAGIC 0xDAA320A7u
#define RECORD_BLANK 0xCBD43194u
#define RECORD_BLANK_SIZE 8u
#define RECORD_FIXED 91u   /* bytes of a record beside body, topic and properties, with IPv4 hosts */
#define RECORD_BODY_AT 88u /* likewise */
#define RECORD_BODY_AT_MAX (RECORD_BODY_AT + 2 * (RECORD_HOST_V6 - RECORD_HOST_V4))
#define RECORD_CRC_SIZE 20u
#define RECORD_CRC_MASK 0x7FFFFFFFu /* Java keeps CRCs in a signed int and drops the sign */
#define RECORD_PROPERTIES_MAX (PROPERTIES_MAX - 1 - RECORD_CRC_SIZE) /* of a sender's, trimmed */
#define RECORD_FLAG_AT 16u
#define RECORD_QUEUE_OFFSET_AT 20u
#define RECORD_PHYSICAL_AT 28u
#define RECORD_SYSFLAG_AT 36u
#define RECORD_BORN_MS_AT 40u
#define RECORD_STORE_MS_AT 56u /* behind the born host: 12 more where that is IPv6 */
#define TOPIC_SIZE_MAX 127u

/* The prepared transaction offset of a record that a repair has put in the place of damaged bytes: "ORBITLOS". Such a record is
 * whole and counts in its queue, so that offsets stay dense for every reader of the log, but it is nobody's message. */
#define RECORD_STANDS_IN UINT64_C(0x4F524249544C4F53)

enum {
    SYSFLAG_COMPRESSED = 0x1,
    SYSFLAG_TRANSACTION = 0xC, /* both bits: which part in a transaction */
    SYSFLAG_PREPARED = 0x4,
    SYSFLAG_COMMITTED = 0x8,
    SYSFLAG_ROLLED_BACK = 0xC,
    SYSFLAG_BORN_IPV6 = 0x10,
    SYSFLAG_STORE_IPV6 = 0x20,
    SYSFLAG_HOSTS = 0x30, /* both */
    SYSFLAG_COMPRESSION_TYPE = 0x700, /* 0 until RocketMQ 4.9.3: zlib, the only one then */
    SYSFLAG_COMPRESSION_LZ4 = 0x100,
    SYSFLAG_COMPRESSION_ZSTD = 0x200,
    SYSFLAG_COMPRESSION_ZLIB = 0x300,
};

/* What a sender may say of its body. */
static inline uint32_t record_body_flag(uint32_t sys_flag)
{
    return sys_flag & SYSFLAG_COMPRESSED ? sys_flag & (SYSFLAG_COMPRESSED | SYSFLAG_COMPRESSION_TYPE) : 0;
}

/* True if a message has a place in its ConsumeQueue: half messages, and those that were rolled back, have none. */
static inline bool record_queued(uint32_t sys_flag)
{
    const uint32_t part = sys_flag & SYSFLAG_TRANSACTION;
    return part == 0 || part == SYSFLAG_COMMITTED;
}

/* What a handler knows about a message. Pointers may point into memory that a hostile client still writes: record_template.c
 * copies first and computes CRCs of its own copy, and no size depends on what the pointers point to. properties do not contain the CRC
 * property and come trimmed (record_trim); one more 0x02 at their end would be harmless, an empty segment. */
struct record_parts {
    const uint8_t *topic;
    const uint8_t *properties;
    const uint8_t *body;
    uint32_t topic_size;
    uint32_t properties_size;
    uint32_t body_size;
    uint32_t queue_id;
    uint32_t flag;
    uint32_t sys_flag; /* without the bits of its hosts, which are added */
    uint32_t reconsume_times;
    uint64_t born_ms;
    uint64_t prepared_offset;
    struct record_host born_host;
    struct record_host store_host;
};

/* Where its body begins. */
static inline uint32_t record_body_at(const struct record_parts *parts)
{
    return RECORD_BODY_AT - 2 * RECORD_HOST_V4 + parts->born_host.size + parts->store_host.size;
}

/* Size of a properties string without its trailing 0x02, which some clients send and others do not. */
uint32_t record_trim(const uint8_t *properties, uint32_t size);

/* Bytes of the finished record: RECORD_FIXED and what IPv6 hosts take more, body, topic, properties with a 0x02 unless empty, CRC property. */
uint32_t record_image_size(const struct record_parts *parts);

/* What the writer needs to finish an image without reading it. */
struct record_seal {
    uint32_t crc;          /* CRC of the image's bytes before the CRC property, holes zero */
    uint32_t hole_operator; /* crc32_operator(bytes between the end of the store-ms hole and the CRC property) */
};

/* Fills the holes and the CRC property of a copy of an image that is already in the log. */
void record_finish(uint8_t *record, uint32_t size, const struct record_seal *seal, uint64_t queue_offset,
                   uint64_t physical_offset, uint64_t store_ms);

/* A record as a reader sees it: all slices point into the log. */
struct record_view {
    uint32_t total_size;
    uint32_t body_crc;
    uint32_t queue_id;
    uint32_t flag;
    uint32_t sys_flag;
    uint32_t reconsume_times;
    uint64_t queue_offset;
    uint64_t physical_offset;
    uint64_t born_ms;
    uint64_t store_ms;
    uint64_t prepared_offset;
    struct slice born_host;  /* 8 or 20 bytes */
    struct slice store_host;
    struct slice body;
    struct slice topic;
    struct slice properties; /* as stored, CRC property included */
};

enum record_fault {
    RECORD_GOOD = 0,
    RECORD_IS_BLANK = 1,  /* the rest of this file is empty */
    RECORD_END = 2,       /* total size and magic are zero: nothing was written here */
    RECORD_BAD_MAGIC = 3,
    RECORD_BAD_SIZE = 4,  /* total size differs from the sum of the parts, or passes `available` */
    RECORD_BAD_BODY_CRC = 5,
    RECORD_BAD_CRC = 6,   /* the CRC property disagrees */
    RECORD_BAD_PLACE = 7, /* the stored physical offset is not the place of the record */
    RECORD_LOST = 8,      /* a whole record that stands in for a lost message; reported only if it is asked for by place */
};

/* Reads the record at `at`, of which `available` bytes may be read. Checks the shape only. */
enum record_fault record_parse(const uint8_t *at, uint64_t available, struct record_view *view);

/* True if a checked record ends with the CRC property, as all of OrbitMQ's do, and none of RocketMQ 4's. */
bool record_sealed(const struct record_view *view);

/* record_parse, then checks place, body CRC and (if there is one) the CRC property. */
enum record_fault record_check(const uint8_t *at, uint64_t available, uint64_t physical_offset, struct record_view *view);

/* What must hold before a parsed record's body is given away: RECORD_GOOD, RECORD_BAD_BODY_CRC or RECORD_BAD_CRC. The body's
 * CRC does not cover the flag that says whether it is compressed; so if a flag is set, or the body begins as a compressed one
 * does, the CRC property is checked too. A body with CRC 0 and size 0 is good. */
enum record_fault record_check_body(const uint8_t *at, const struct record_view *view);

/* Copies the body of a parsed record to `to`, and checks the copy as record_check_body does, in one pass over memory. */
enum record_fault record_copy_body(const uint8_t *at, const struct record_view *view, uint8_t *to);

#endif
