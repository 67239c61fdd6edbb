/* The Reader's messages as Arrow buffers, which grow while rows are appended and are cut to their size at the end. */
#include "python/consumer/column_memory.h"
#include "python/consumer/reader_object.h"

enum buffer {
    BODY_OFFSETS,
    BODY,
    TAGS_OFFSETS,
    TAGS,
    TAGS_VALIDITY,
    KEYS_OFFSETS,
    KEYS,
    KEYS_VALIDITY,
    TOPIC,
    QUEUE,
    OFFSET,
    PHYSICAL,
    BORN,
    STORED,
    FLAG,
    RECONSUME,
    ID_OFFSETS,
    ID,
    BORN_HOST_OFFSETS,
    BORN_HOST,
    STORE_HOST_OFFSETS,
    STORE_HOST,
    HEADERS, /* the place of each of PAIRS after it */
    PROPERTIES = HEADERS + 6,
    VIEWS = PROPERTIES + 6,
    PLAIN,
    BUFFERS
};

/* The buffers of a column of pairs. */
enum pairs { STARTS, VALIDITY, NAME_OFFSETS, NAME, VALUE_OFFSETS, VALUE };

/* Of each buffer its column and its bits a row; 0: as many as there are, for the data of texts and for pairs. */
#define PAIRS(column) {column, 32}, {column, 1}, {column, 0}, {column, 0}, {column, 0}, {column, 0}
static const struct {
    uint32_t column, bits;
} shape[BUFFERS] = {
    {COLUMN_BODY, 32},       {COLUMN_BODY, 0},        {COLUMN_TAGS, 32},       {COLUMN_TAGS, 0},   {COLUMN_TAGS, 1},
    {COLUMN_KEYS, 32},       {COLUMN_KEYS, 0},        {COLUMN_KEYS, 1},        {COLUMN_TOPIC, 32}, {COLUMN_QUEUE, 32},
    {COLUMN_OFFSET, 64},     {COLUMN_PHYSICAL, 64},   {COLUMN_BORN, 64},       {COLUMN_STORED, 64}, {COLUMN_FLAG, 32},
    {COLUMN_RECONSUME, 32},  {COLUMN_ID, 32},         {COLUMN_ID, 0},          {COLUMN_BORN_HOST, 32},
    {COLUMN_BORN_HOST, 0},   {COLUMN_STORE_HOST, 32}, {COLUMN_STORE_HOST, 0},  PAIRS(COLUMN_HEADERS),
    PAIRS(COLUMN_PROPERTIES), {COLUMN_VIEWS, 128},    {COLUMN_VIEWS, 0},
};

/* Buffers with bits == 32 that hold one value more than rows. */
static bool has_one_more(enum buffer which)
{
    return which == BODY_OFFSETS || which == TAGS_OFFSETS || which == KEYS_OFFSETS || which == ID_OFFSETS ||
           which == BORN_HOST_OFFSETS || which == STORE_HOST_OFFSETS || which == HEADERS + STARTS ||
           which == PROPERTIES + STARTS;
}

struct record_batch {
    struct columns columns;
    uint32_t rows; /* for which there is room */
    uint64_t body_limit; /* bytes */
    enum reader_use use; /* of the bodies */
    PyObject *buffer[BUFFERS];
    PyObject *stretches;             /* memory of columns.views; NULL without them */
    PyObject *pins[LOG_MAP_SLOTS];   /* of the files in which stretches lie */
};

static uint64_t fixed_size(enum buffer which, uint32_t rows)
{
    return ((uint64_t)shape[which].bits * (rows + has_one_more(which)) + 7) / 8;
}

static void *address_of(const struct record_batch *batch, enum buffer which)
{
    return batch->buffer[which] ? py_column_memory_data(batch->buffer[which]) : NULL;
}

static struct column_text text_of(const struct record_batch *batch, enum buffer offsets, enum buffer data, enum buffer validity)
{
    struct column_text text = {.offsets = address_of(batch, offsets), .data = address_of(batch, data)};
    if (text.offsets)
        text.offsets[0] = 0;
    if (validity < BUFFERS)
        text.validity = address_of(batch, validity);
    if (text.validity)
        memset(text.validity, 0, fixed_size(validity, batch->rows));
    return text;
}

/* Where each pair begins is not known before there are any: room for the first offset. */
static bool open_pairs(struct record_batch *batch, enum buffer first, struct column_pairs *pairs, bool own)
{
    *pairs = (struct column_pairs){.starts = address_of(batch, first + STARTS), .own = own};
    if (!pairs->starts)
        return true;
    pairs->starts[0] = 0;
    if (own)
        pairs->validity = address_of(batch, first + VALIDITY);
    memset(address_of(batch, first + VALIDITY), 0, fixed_size(first + VALIDITY, batch->rows));
    if (!py_column_memory_resize(batch->buffer[first + NAME_OFFSETS], 4) ||
        !py_column_memory_resize(batch->buffer[first + VALUE_OFFSETS], 4))
        return false;
    pairs->name = text_of(batch, first + NAME_OFFSETS, first + NAME, BUFFERS);
    pairs->value = text_of(batch, first + VALUE_OFFSETS, first + VALUE, BUFFERS);
    return true;
}

/* A batch without bodies is not given messages whose body is damaged either. */
static enum reader_use use_of(uint64_t selection) { return selection & COLUMN_BODY ? READER_COPIES : READER_LOOKS; }

static bool record_batch_open(struct record_batch *batch, uint32_t selection, uint32_t rows, uint64_t body_limit)
{
    *batch = (struct record_batch){.rows = rows, .body_limit = body_limit, .use = use_of(selection)};
    for (enum buffer which = 0; which < BUFFERS; which++) {
        if (!(shape[which].column & selection))
            continue;
        batch->buffer[which] = py_column_memory(fixed_size(which, rows));
        if (!batch->buffer[which])
            return false;
    }
    batch->columns = (struct columns){
        .body = text_of(batch, BODY_OFFSETS, BODY, BUFFERS),
        .tags = text_of(batch, TAGS_OFFSETS, TAGS, TAGS_VALIDITY),
        .keys = text_of(batch, KEYS_OFFSETS, KEYS, KEYS_VALIDITY),
        .topic = address_of(batch, TOPIC),
        .queue = address_of(batch, QUEUE),
        .offset = address_of(batch, OFFSET),
        .physical = address_of(batch, PHYSICAL),
        .born_ms = address_of(batch, BORN),
        .stored_ms = address_of(batch, STORED),
        .flag = address_of(batch, FLAG),
        .reconsume = address_of(batch, RECONSUME),
        .id = text_of(batch, ID_OFFSETS, ID, BUFFERS),
        .born_host.text = text_of(batch, BORN_HOST_OFFSETS, BORN_HOST, BUFFERS),
        .store_host.text = text_of(batch, STORE_HOST_OFFSETS, STORE_HOST, BUFFERS),
    };
    if (selection & COLUMN_VIEWS) {
        batch->stretches = py_column_memory((STRETCHES_ENOUGH + COLUMNS_BLOCK) * sizeof(struct stretch));
        if (!batch->stretches)
            return false;
        batch->columns.views.views = address_of(batch, VIEWS);
        batch->columns.views.stretches = (struct stretch *)(void *)py_column_memory_data(batch->stretches);
    }
    return open_pairs(batch, HEADERS, &batch->columns.headers, true) &&
           open_pairs(batch, PROPERTIES, &batch->columns.properties, false);
}

static void record_batch_close(struct record_batch *batch)
{
    for (enum buffer which = 0; which < BUFFERS; which++)
        Py_XDECREF(batch->buffer[which]);
    Py_XDECREF(batch->stretches);
    for (uint32_t i = 0; i < LOG_MAP_SLOTS; i++)
        Py_XDECREF(batch->pins[i]);
}

/* Few batches get all their rows where bodies are large. */
static uint64_t batch_expects(const struct record_batch *batch, uint64_t bytes)
{
    return bytes < batch->body_limit ? bytes : batch->body_limit;
}

/* Makes room for so many more bytes. Once some rows are known, the first growth goes as far as they suggest for all rows. */
static bool grow(struct record_batch *batch, enum buffer which, uint64_t used, uint64_t more)
{
    const uint32_t rows = batch->columns.rows;
    const uint64_t least = used + more + COLUMN_SLACK;
    if (least <= py_column_memory_size(batch->buffer[which]))
        return true;
    const uint64_t expected = batch_expects(batch, rows ? used * batch->rows / rows : 0);
    return py_column_memory_resize(batch->buffer[which], least + expected + expected / 16);
}

static bool reserve(struct record_batch *batch, struct column_text *text, enum buffer data, uint64_t more)
{
    if (!text->offsets)
        return true;
    if (!grow(batch, data, column_bytes(text, batch->columns.rows), more))
        return false;
    text->data = address_of(batch, data);
    return true;
}

static bool reserve_pair_text(struct record_batch *batch, struct column_text *text, enum buffer offsets, uint32_t count, uint64_t more)
{
    if (!grow(batch, offsets, ((uint64_t)count + 1) * 4, more / COLUMN_PAIR_MIN * 4) ||
        !grow(batch, offsets + 1, column_bytes(text, count), more))
        return false;
    text->offsets = address_of(batch, offsets);
    text->data = address_of(batch, offsets + 1);
    return true;
}

/* `more`: bytes of properties at most. */
static bool reserve_pairs(struct record_batch *batch, struct column_pairs *pairs, enum buffer first, uint64_t more)
{
    const uint32_t count = column_pair_count(pairs, batch->columns.rows);
    return !pairs->starts || (reserve_pair_text(batch, &pairs->name, first + NAME_OFFSETS, count, more) &&
                              reserve_pair_text(batch, &pairs->value, first + VALUE_OFFSETS, count, more));
}

static bool reserve_all(struct record_batch *batch, const struct columns_need *need)
{
    struct columns *columns = &batch->columns;
    return reserve(batch, &columns->body, BODY, need->body) && reserve(batch, &columns->tags, TAGS, need->text) &&
           reserve(batch, &columns->keys, KEYS, need->text) && reserve(batch, &columns->id, ID, need->text) &&
           reserve(batch, &columns->born_host.text, BORN_HOST, need->text) &&
           reserve(batch, &columns->store_host.text, STORE_HOST, need->text) &&
           reserve_pairs(batch, &columns->headers, HEADERS, need->text) &&
           reserve_pairs(batch, &columns->properties, PROPERTIES, need->text);
}

static bool reserve_plain(struct record_batch *batch, uint64_t more)
{
    struct column_views *views = &batch->columns.views;
    if (!views->views)
        return true;
    if (!grow(batch, PLAIN, views->plain_bytes, more))
        return false;
    views->plain = address_of(batch, PLAIN);
    return true;
}

/* Keeps the files mapped in which these bodies are. */
static bool pin_all(struct reader_object *self, struct record_batch *batch, const struct message_ref *refs, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        PyObject **pin = &batch->pins[refs[i].file - self->reader->log.files];
        if (!*pin && !(*pin = py_pin_of(self, &refs[i])))
            return false;
    }
    return true;
}

/* A row whose body is stored compressed. Returns 1; 0: it does not fit beside the other rows; -1 with an exception. */
static int append_compressed(struct record_batch *batch, const struct reader *reader, const struct message_ref *ref,
                             uint64_t body_limit)
{
    struct columns *columns = &batch->columns;
    PyObject *plain = py_body_bytes(ref->record, ref->body_at, ref->body_size);
    char *data = NULL;
    Py_ssize_t size = 0;
    int result = plain ? PyBytes_AsStringAndSize(plain, &data, &size) : -1;
    const uint64_t bytes = columns_body_bytes(columns) + (uint64_t)size;
    if (result == 0 && columns->rows == 0 && bytes > COLUMN_BYTES_MAX) {
        const unsigned long long at = ref->physical_offset;
        py_raise("StoreUnsupported", NULL, Py_BuildValue("{s:K}", "offset", at),
                   "could not put the body of the record at %llu into a column: it has %zd bytes, and a column holds %llu",
                   at, size, (unsigned long long)COLUMN_BYTES_MAX);
        result = -1;
    } else if (result == 0 && (columns->rows == 0 || bytes <= body_limit)) {
        const struct columns_need need = {.body = (uint64_t)size, .text = ref->size - ref->body_size};
        result = reserve_all(batch, &need) && reserve_plain(batch, need.body) ? 1 : -1;
        if (result == 1)
            columns_append_one(columns, reader, ref, (struct slice){(const uint8_t *)data, (uint32_t)size});
    }
    Py_XDECREF(plain);
    return result;
}

/* Appends some of `count` undelivered messages. Returns how many; 0: the first does not fit, or is damaged and there are rows before
 * it; -1 with an exception. */
static int64_t append_some(struct reader_object *self, struct record_batch *batch, uint32_t count, uint64_t body_limit)
{
    struct reader *reader = self->reader;
    const struct message_ref *refs = reader->refs + self->taken;
    const struct columns_need need = columns_fit(&batch->columns, refs, count, body_limit);
    if (need.rows == 0)
        return need.compressed ? append_compressed(batch, reader, refs, body_limit) : 0;
    if (!reserve_all(batch, &need) || (batch->stretches && !pin_all(self, batch, refs, need.rows)))
        return -1;
    const uint32_t done = columns_append(&batch->columns, reader, refs, need.rows);
    if (done == 0 && batch->columns.rows == 0)
        return py_delivery_damaged(self), -1;
    return done;
}

/* Appends and delivers undelivered messages. Returns 1 if all `count` fitted, 0, or -1 with an exception. */
static int append_block(struct reader_object *self, struct record_batch *batch, uint32_t count, uint64_t body_limit)
{
    while (count > 0) {
        const int64_t done = append_some(self, batch, count, body_limit);
        if (done <= 0)
            return (int)done;
        py_reader_delivered(self, (uint32_t)done);
        count -= (uint32_t)done;
    }
    return 1;
}

/* Appends messages block after block, up to `look_until` units looked at. False with an exception if that left no row; if there
 * are rows, the exception is left for the next call. */
static bool append_all(struct reader_object *self, struct record_batch *batch, uint32_t count, uint64_t body_limit,
                       uint64_t look_until)
{
    while (count > 0) {
        const int result = append_block(self, batch, count, body_limit);
        if (result < 0 && batch->columns.rows == 0)
            return false;
        if (result < 0)
            PyErr_Clear(); /* the message is still undelivered, and is the first one of the next call */
        const uint32_t left = batch->rows - batch->columns.rows;
        if (result <= 0 || left == 0 || self->reader->looked >= look_until)
            break;
        count = reader_more(self->reader, left < COLUMNS_BLOCK ? left : COLUMNS_BLOCK, COLUMNS_BLOCK_BYTES, batch->use);
        if (self->strict && py_reader_removal(self))
            break; /* what is gathered is delivered once that was reported */
    }
    return true;
}

static void pair_sizes(uint64_t *size, enum buffer first, const struct column_pairs *pairs, uint32_t rows)
{
    const uint32_t count = column_pair_count(pairs, rows);
    size[first + NAME_OFFSETS] = size[first + VALUE_OFFSETS] = ((uint64_t)count + 1) * 4;
    size[first + NAME] = pairs->starts ? column_bytes(&pairs->name, count) : 0;
    size[first + VALUE] = pairs->starts ? column_bytes(&pairs->value, count) : 0;
}

/* [(what keeps it mapped, address, bytes)] of each stretch. */
static PyObject *stretches_of(const struct reader *reader, const struct record_batch *batch)
{
    const struct column_views *views = &batch->columns.views;
    PyObject *list = PyList_New(views->count);
    for (uint32_t i = 0; list && i < views->count; i++) {
        const struct stretch *stretch = &views->stretches[i];
        PyObject *entry = Py_BuildValue("(OKK)", batch->pins[stretch->file - reader->log.files],
                                        (unsigned long long)(uintptr_t)stretch->begin,
                                        (unsigned long long)(stretch->end - stretch->begin));
        if (!entry || PyList_SetItem(list, i, entry) < 0)
            Py_CLEAR(list);
    }
    return list;
}

/* (rows, nulls in tags, nulls in keys, nulls in headers, buffers, stretches): buffers cut to their size, None if a column is not
 * selected. */
static PyObject *record_batch_result(const struct reader *reader, struct record_batch *batch)
{
    const struct columns *columns = &batch->columns;
    const uint32_t rows = columns->rows;
    PyObject *buffers = PyTuple_New(BUFFERS);
    uint64_t size[BUFFERS];
    for (enum buffer which = 0; which < BUFFERS; which++)
        size[which] = fixed_size(which, rows);
    size[BODY] = column_bytes(&columns->body, rows);
    size[TAGS] = column_bytes(&columns->tags, rows);
    size[KEYS] = column_bytes(&columns->keys, rows);
    size[ID] = column_bytes(&columns->id, rows);
    size[BORN_HOST] = column_bytes(&columns->born_host.text, rows);
    size[STORE_HOST] = column_bytes(&columns->store_host.text, rows);
    size[PLAIN] = columns->views.plain_bytes;
    pair_sizes(size, HEADERS, &columns->headers, rows);
    pair_sizes(size, PROPERTIES, &columns->properties, rows);
    for (enum buffer which = 0; buffers && which < BUFFERS; which++) {
        PyObject *buffer = batch->buffer[which];
        if ((buffer && !py_column_memory_resize(buffer, size[which])) ||
            PyTuple_SetItem(buffers, which, Py_NewRef(buffer ? buffer : Py_None)) < 0)
            Py_CLEAR(buffers);
    }
    PyObject *stretches = buffers ? stretches_of(reader, batch) : NULL;
    if (stretches)
        return Py_BuildValue("(IIIINN)", rows, columns->tags.nulls, columns->keys.nulls, columns->headers.nulls, buffers, stretches);
    Py_XDECREF(buffers);
    return NULL;
}

/* How many units the queues of the reader's round still hold; stops counting at `enough`. */
static uint64_t waiting_units(const struct reader *reader, uint64_t enough)
{
    uint64_t sum = 0;
    uint32_t index = reader->next;
    for (uint32_t left = reader->left; left > 0 && sum < enough; left--) {
        uint64_t min, max;
        reader_bounds(reader, index, &min, &max);
        const uint64_t position = reader->cursors[index].position;
        sum += max > position ? max - position : 0;
        index = index + 1 < reader->cursor_count ? index + 1 : 0;
    }
    return sum;
}

/* columns(selection, most, body_limit): delivers up to `most` messages as buffers. */
PyObject *py_columns(PyObject *object, PyObject *const *arguments, Py_ssize_t argument_count)
{
    struct reader_object *self = py_reader_self(object);
    uint64_t selection, body_limit;
    uint32_t most;
    if (!py_arity("columns", argument_count, 3) || !py_take_u64(arguments[0], &selection) ||
        !py_take_count(arguments[1], &most) || !py_take_u64(arguments[2], &body_limit))
        return NULL;
    const uint64_t look_until = self->reader->looked + READER_SCAN_UNITS;
    const int64_t count = py_reader_gather(self, most < COLUMNS_BLOCK ? most : COLUMNS_BLOCK, COLUMNS_BLOCK_BYTES, use_of(selection));
    if (count < 0)
        return NULL;
    uint64_t rows = (uint64_t)count + waiting_units(self->reader, most);
    if (rows > READER_SCAN_UNITS)
        rows = READER_SCAN_UNITS;
    struct record_batch batch;
    PyObject *result = NULL;
    if (body_limit > COLUMN_BYTES_MAX)
        body_limit = COLUMN_BYTES_MAX;
    if (record_batch_open(&batch, (uint32_t)selection, rows < most ? (uint32_t)rows : most, body_limit) &&
        append_all(self, &batch, (uint32_t)count, body_limit, look_until))
        result = record_batch_result(self->reader, &batch);
    record_batch_close(&batch);
    return result;
}

PyObject *py_columns_names(PyObject *object, PyObject *unused)
{
    (void)unused;
    struct reader_object *self = py_reader_self(object);
    const struct reader *reader = self->reader;
    PyObject *list = PyList_New(reader->name_count);
    for (uint32_t i = 0; list && i < reader->name_count; i++) {
        PyObject *name = PyUnicode_DecodeUTF8((const char *)reader->names[i].text, reader->names[i].size, "replace");
        if (!name || PyList_SetItem(list, i, name) < 0)
            Py_CLEAR(list);
    }
    return list;
}
