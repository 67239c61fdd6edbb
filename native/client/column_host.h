/* Columns made of a record's hosts: "10.1.2.3:10911", "[fe80::1]:10911", and RocketMQ's offset message id, which is the store
 * host and the physical offset in hex digits. */
#ifndef ORBITMQ_COLUMN_HOST_H
#define ORBITMQ_COLUMN_HOST_H

#include "client/column_text.h"
#include "format/record_host.h"

struct column_host {
    struct column_text text;
    /* the last host and its text: most messages come from few hosts */
    uint32_t stored_size, rendered_size;
    uint8_t stored[RECORD_HOST_V6], rendered[RECORD_HOST_TEXT];
};

/* host: as stored, 4 or 16 bytes of address and 4 of port. */
void column_host_append(struct column_host *to, uint32_t row, struct slice host);
void column_id_append(struct column_text *to, uint32_t row, struct slice store_host, uint64_t physical_offset);

#endif
